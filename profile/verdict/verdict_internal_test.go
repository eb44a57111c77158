// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/summary"
)

// groupOf makes a phase of products with weights, each {type, bytes, flops, ns}.
func groupOf(team int, rows ...workCell) *workGroup {
	g := newWorkGroup()
	g.team, g.traced, g.steps = team, 1, 1
	for i := range rows {
		c := rows[i]
		c.kind, c.weight, c.calls, c.layer, c.team = ops.ClassProduct, true, 1, -1, team
		c.work, c.bytesDur, c.flopsDur = c.dur, c.dur, c.dur
		g.cells[c.cellKey] = &c
		g.tracedDur += c.dur
	}
	g.dur = g.tracedDur
	return g
}

func row(typ string, bytes, flops, dur int64) workCell {
	return workCell{cellKey: cellKey{name: "w" + typ, typ: typ}, bytes: bytes, flops: flops, dur: dur}
}

func judged(s *summary.Stat, g, other *workGroup) *workClass {
	j := &judge{s: s, groups: map[facts.ModelKey]*workGroup{{Phase: profile.Decode, Model: 0}: g},
		keys: []facts.ModelKey{{Phase: profile.Decode, Model: 0}}}
	if other != nil {
		j.groups[facts.ModelKey{Phase: profile.Prefill, Model: 0}] = other
		j.keys = append(j.keys, facts.ModelKey{Phase: profile.Prefill, Model: 0})
	}
	c := j.classes(facts.ModelKey{Phase: profile.Decode, Model: 0}, g)
	return &c[0]
}

// Differently packed weights tell whether time follows bytes or flops.
func TestTypeMix(t *testing.T) {
	const gb, ms = 1_000_000_000, 1_000_000
	s := &summary.Stat{Run: summary.Run{Cores: 2}}
	bytes := groupOf(2, row("q4_K", gb, 4*gb, 50*ms), row("q8_0", 2*gb, 4*gb, 100*ms))
	if c := judged(s, bytes, nil); c.bound != summary.BoundMemory || c.sure != 2 {
		t.Errorf("time that follows bytes: %s, %d", c.bound, c.sure)
	}
	flops := groupOf(2, row("q4_K", gb, 4*gb, 100*ms), row("q8_0", 2*gb, 4*gb, 100*ms))
	if c := judged(s, flops, nil); c.bound != summary.BoundCompute || c.sure != 2 {
		t.Errorf("time that follows flops: %s, %d", c.bound, c.sure)
	}
	between := groupOf(2, row("q4_K", gb, 4*gb, 75*ms), row("q8_0", 2*gb, 4*gb, 100*ms))
	if c := judged(s, between, nil); c.bound != summary.BoundMemory || c.sure != 1 {
		t.Errorf("time that follows neither: %s, %d; want what few flops a byte say of two threads of two CPUs", c.bound, c.sure)
	}
	// One thread of two: bytes' rate is the same for both, so it is reading, if only one core's.
	one := groupOf(1, row("q4_K", gb, 4*gb, 50*ms), row("q8_0", 2*gb, 4*gb, 100*ms))
	fast := groupOf(1, row("q4_K", gb, 400*gb, 500*ms), row("q8_0", 2*gb, 400*gb, 500*ms))
	if c := judged(s, one, fast); c.bound != summary.BoundMemory || c.sure != 1 {
		t.Errorf("one thread: %s, %d", c.bound, c.sure)
	}
}

// A rate of other threads, of another type or of next to no time is no reference.
func TestReferences(t *testing.T) {
	const gb, ms = 1_000_000_000, 1_000_000
	s := &summary.Stat{Run: summary.Run{Cores: 2}}
	decode := groupOf(2, row("q4_0", gb, 4*gb, 50*ms))
	for _, c := range []struct {
		name  string
		other *workGroup
		arith float64 // -1: not known
	}{
		{"prefill", groupOf(2, row("q4_0", gb, 400*gb, 1000*ms)), 0.2},
		{"other threads", groupOf(1, row("q4_0", gb, 400*gb, 1000*ms)), -1},
		{"another type", groupOf(2, row("q8_0", gb, 400*gb, 1000*ms)), -1},
		{"a moment", groupOf(2, row("q4_0", gb/1000, 4*gb/10, ms/2)), -1},
		{"few tokens", groupOf(2, row("q4_0", gb, 6*gb, 50*ms)), -1},
	} {
		v := judged(s, decode, c.other)
		if c.arith < 0 != (v.arith == nil) || v.arith != nil && math.Abs(*v.arith-c.arith) > 1e-9 {
			t.Errorf("%s: arithmetic takes %v, want %g", c.name, v.arith, c.arith)
		}
	}
	// At prefill's rate, but prefill itself read nearly as much for a flop: that is no proof of computing.
	slow := groupOf(2, row("q4_0", gb, 16*gb, 190*ms))
	if c := judged(s, decode, slow); c.bound != summary.BoundUnknown ||
		!slices.Contains(c.among, summary.BoundCompute) {
		t.Errorf("%s of %v", c.bound, c.among)
	}
	far := groupOf(2, row("q4_0", gb, 400*gb, 4750*ms))
	if c := judged(s, decode, far); c.bound != summary.BoundCompute || c.sure != 2 {
		t.Errorf("%s, %d", c.bound, c.sure)
	}
}

// The output computed for one token of a prompt is another piece of work than products of all of them.
func TestSlowWeightComparesAlike(t *testing.T) {
	const mb, ms = 1_000_000, 1_000_000
	a, b, c := row("q4_0", 10*mb, 2800*mb, 10*ms), row("q4_0", 10*mb, 2800*mb, 10*ms),
		row("q4_0", 10*mb, 35*mb, ms)
	b.name, c.name = "wb", "output"
	find := func(c workCell) int {
		g := groupOf(2, a, b, c)
		ps := &summary.Phase{Phase: "prefill", Traced: 1, TracedDur: g.tracedDur, Dur: g.dur, Steps: 1}
		f := &finder{j: &judge{s: &summary.Stat{},
			groups: map[facts.ModelKey]*workGroup{{Phase: profile.Prefill,
				Model: -1}: g}, keys: []facts.ModelKey{{Phase: profile.Prefill, Model: -1}}}, ps: ps, g: g}
		f.slowWeight()
		return len(f.found)
	}
	if find(c) != 0 {
		t.Error("products of one token are compared with those of many")
	}
	slow := a
	slow.name, slow.dur = "slow", 20*ms
	if find(slow) != 1 {
		t.Error("one of half the rate is not found")
	}
}

func TestGrowthFit(t *testing.T) {
	var a, b num.Growth
	for p := range int32(100) {
		g := &a
		if p >= 50 {
			g = &b
		}
		g.Add(1000+p, 500+7*int64(p))
	}
	a.Merge(&b)
	at0, slope, r2, ok := a.Fit()
	if !ok || math.Abs(slope-7) > 1e-6 || math.Abs(at0+1000*slope-500) > 1e-3 || math.Abs(r2-1) > 1e-6 ||
		a.From != 1000 || a.To != 1099 {
		t.Errorf("%g + %g x, r2 %g, %d to %d", at0, slope, r2, a.From, a.To)
	}
	var flat num.Growth
	for range 100 {
		flat.Add(3, 8)
	}
	if _, _, _, ok := flat.Fit(); ok {
		t.Error("one position has a slope")
	}
}

func TestShortName(t *testing.T) {
	for _, s := range []string{"", "ffn_down", strings.Repeat("x", 40), strings.Repeat("x", 41),
		strings.Repeat("é", 100), strings.Repeat("\xff", 300), "模" + strings.Repeat("型", 70), "ab" +
			strings.Repeat("型", 70), "a" + strings.Repeat("型", 70)} {
		got := shortName(s)
		if len(got) > 48 || len(s) <= 40 && got != s {
			t.Errorf("%q became %q", s, got)
		}
		if strings.ToValidUTF8(s, "") == s && strings.ToValidUTF8(got, "") != got {
			t.Errorf("%q is cut within a character: %q", s, got)
		}
		if got != s && (!strings.HasSuffix(got, "..") ||
			!strings.HasPrefix(s, strings.TrimSuffix(got, ".."))) {
			t.Errorf("%q is not cut at its end: %q", s, got)
		}
	}
}

func TestSay(t *testing.T) {
	for got, want := range map[string]string{
		andList([]string{"a", "b", "c"}): "a, b and c", capital("decode"): "Decode",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Lines from several memories add up; the same lines counted in another way do not, nor what has no values.
func TestSumOfRole(t *testing.T) {
	j := &judge{s: &summary.Stat{Counters: []summary.Counter{{Role: "mem-fill", PMU: "cpu", User: true,
		Void: "it reads 0"}, {Role: "mem-fill", PMU: "cpu", User: true},
		{Role: "mem-fill", PMU: "cpu"}, {Role: "mem-fill", PMU: "cpu", User: true}, {Role: "cycles",
			PMU: "cpu", User: true}}}, totals: []int64{1, 1, 1, 1, 1}}
	c := &workCell{calls: 10}
	for i := range j.s.Counters {
		c.counts = append(c.counts, cellCount{sum: 100 << i, calls: 10})
	}
	if v := j.sum(c, "mem-fill", &counted{}); v == nil || *v != 200+800 {
		t.Errorf("%v, want 1000", v)
	}
}

// What is not known does not outweigh the disk, and nothing else does.
func TestMostDisk(t *testing.T) {
	for _, c := range []struct {
		parts []boundShare
		want  summary.Bound
		among []summary.Bound
	}{
		{[]boundShare{{summary.BoundUnknown, 0.55}, {summary.BoundDisk, 0.45}}, summary.BoundMixed,
			[]summary.Bound{summary.BoundUnknown, summary.BoundDisk}},
		{[]boundShare{{summary.BoundUnknown, 0.85}, {summary.BoundDisk, 0.15}}, summary.BoundUnknown, nil},
		{[]boundShare{{summary.BoundUnknown, 0.55}, {summary.BoundWait, 0.45}}, summary.BoundUnknown, nil},
		{[]boundShare{{summary.BoundMemory, 0.55}, {summary.BoundDisk, 0.45}}, summary.BoundMemory, nil},
		{[]boundShare{{summary.BoundDisk, 0.55}, {summary.BoundUnknown, 0.45}}, summary.BoundDisk, nil},
	} {
		if got, among := mostTime(c.parts); got != c.want || !slices.Equal(among, c.among) {
			t.Errorf("%v: %s among %v, want %s among %v", c.parts, got, among, c.want, c.among)
		}
	}
}
