// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"math"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/summary"
)

// Each line of the rule's table by the roof (docs/verdict.md).
func TestByRoof(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		name       string
		mem, arith float64 // of the roofs
		intensity  float64 // the ridge is 10
		ref        float64 // of the arithmetic's reference; 0: none
		says       summary.Bound
		short      bool
		bound      summary.Bound
		sure       int
		among      int
	}{
		{name: "at the memory's roof", mem: 0.7, arith: 0.06, intensity: 3.5, bound: summary.BoundMemory,
			sure: 3},
		{name: "and at that of the cores, less", mem: 0.9, arith: 0.8, intensity: 9,
			bound: summary.BoundMemory, sure: 3},
		{name: "at the cores' roof", mem: 0.2, arith: 0.7, intensity: 40, bound: summary.BoundCompute,
			sure: 3},
		{name: "at both, cores more", mem: 0.8, arith: 0.9, intensity: 12, bound: summary.BoundCompute,
			sure: 3},
		{name: "short operators", mem: 0.6, arith: 0.1, intensity: 3.5, short: true,
			bound: summary.BoundUnknown},
		{name: "short, and at the roof", mem: 0.7, arith: 0.1, intensity: 3.5, short: true,
			bound: summary.BoundMemory, sure: 3},
		{name: "from a cache", mem: 1.2, arith: 0.1, intensity: 3.5, bound: summary.BoundUnknown, among: 2},
		{name: "as measured", mem: 1.05, arith: 0.1, intensity: 3.5, bound: summary.BoundMemory, sure: 3},
		{name: "from a cache, above the ridge", mem: 1.2, arith: 0.4, intensity: 12,
			bound: summary.BoundCompute, sure: 2},
		{name: "prefill", mem: 0.07, arith: 0.24, intensity: 169, bound: summary.BoundCompute, sure: 3},
		{name: "a short prompt", mem: 0.4, arith: 0.2, intensity: 20, bound: summary.BoundCompute, sure: 2},
		{name: "types say compute", mem: 0.4, arith: 0.04, intensity: 3.5, says: summary.BoundCompute,
			bound: summary.BoundCompute, sure: 2},
		{name: "as fast as prefill", mem: 0.55, arith: 0.04, intensity: 3.5, ref: 0.9,
			bound: summary.BoundCompute, sure: 2},
		{name: "Q4_0 on one thread", mem: 0.67, arith: 0.06, intensity: 3.5, ref: 0.26,
			bound: summary.BoundMemory, sure: 2},
		{name: "types say memory", mem: 0.4, arith: 0.04, intensity: 3.5, says: summary.BoundMemory,
			bound: summary.BoundMemory, sure: 1},
		{name: "neither", mem: 0.4, arith: 0.04, intensity: 3.5, ref: 0.3, bound: summary.BoundUnknown},
		{name: "below the ridge, far from both", mem: 0.1, arith: 0.02, intensity: 0.5,
			bound: summary.BoundUnknown},
	} {
		x := workClass{judgement: judgement{memPeak: f(c.mem), arithPeak: f(c.arith), ridge: 10,
			arithFar: true}}
		x.sum = workCell{calls: 1, dur: 1e6, bytes: 1000, flops: int64(1000 * c.intensity)}
		if c.ref > 0 {
			x.arith = f(c.ref)
		}
		if c.short {
			x.sum.dur = 9_999
		}
		x.byRoof(c.says)
		if x.bound != c.bound || x.sure != c.sure || len(x.among) != c.among ||
			x.short != (c.short && x.bound == summary.BoundUnknown) {
			t.Errorf("%s: %s of %v, sure %d; want %s, %d", c.name, x.bound, x.among, x.sure, c.bound, c.sure)
		}
		if neither := x.bound == summary.BoundUnknown && c.among == 0 && !c.short; x.neither != neither {
			t.Errorf("%s: neither %v", c.name, x.neither)
		}
	}
}

// Weights of several types, computed by teams of several sizes, need what each needs at its own roof.
func TestPeaksByNeed(t *testing.T) {
	const gb, ms = 1_000_000_000, 1_000_000
	at := func(threads int, weight string) roof.Roof {
		n := float64(threads)
		gbps, f32, int8, tiles := 20*n, 100*n, 800*n, 4000*n
		r := roof.Roof{Threads: threads, GBps: &gbps, GFlops: &f32, Units: "f32"}
		if weight == "q4_0" {
			r.GFlops, r.MatrixGFlops, r.Units = &int8, &tiles, "int8"
		}
		return r
	}
	// Two threads: q4_0 reads 1 GB at 40 GB/s, 25 ms, and computes 3.5 Gflop at 1600, 2.19 ms. One thread:
	// f16 reads 1 GB at 20 GB/s, 50 ms, and computes 1 Gflop at 100, 10 ms.
	g := groupOf(2, row("q4_0", gb, 3.5*gb, 40*ms), row("f16", gb, gb, 60*ms))
	for k, c := range g.cells {
		if c.typ == "f16" {
			delete(g.cells, k)
			c.team = 1
			g.cells[c.cellKey] = c
		}
	}
	j := &judge{s: &summary.Stat{},
		groups: map[facts.ModelKey]*workGroup{{Phase: profile.Decode,
			Model: 0}: g}, keys: []facts.ModelKey{{Phase: profile.Decode, Model: 0}}}
	j.machine = &roof.Peaks{Source: "made", At: at}
	c := j.classes(facts.ModelKey{Phase: profile.Decode, Model: 0}, g)[0]
	near := func(what string, got *float64, want float64) {
		if got == nil || math.Abs(*got-want) > 1e-6*want {
			t.Errorf("%s: %v, want %g", what, got, want)
		}
	}
	near("of the memory's roof", c.memPeak, 0.75)
	near("of the cores' roof", c.arithPeak, (3.5/1600+1.0/100)/0.1)
	near("bandwidth", &c.roofGBps, 2/0.075)
	if c.units != "" || c.bound != summary.BoundMemory || c.sure != 3 {
		t.Errorf("units %q, %s, %d", c.units, c.bound, c.sure)
	}
	// More than vectors give: then it is the roof of instructions for small matrices.
	fast := groupOf(2, row("q4_0", gb, 2000*gb, 1000*ms))
	j.groups[facts.ModelKey{Phase: profile.Decode, Model: 0}] = fast
	c = j.classes(facts.ModelKey{Phase: profile.Decode, Model: 0}, fast)[0]
	near("of the tiles' roof", c.arithPeak, 2000.0/8000)
	// What operators without a known roof take a notable part of has none.
	j.roofs, j.judged = nil, nil
	j.machine.At = func(threads int, weight string) roof.Roof {
		r := at(threads, weight)
		if weight == "f16" {
			r.GBps, r.GFlops = nil, nil
		}
		return r
	}
	if c = j.classes(facts.ModelKey{Phase: profile.Decode, Model: 0}, g)[0]; c.memPeak != nil ||
		c.arithPeak != nil {
		t.Errorf("with a part unknown: %v, %v", c.memPeak, c.arithPeak)
	}
	if got := j.statPeaks(); len(got.Roofs) != 2 || got.Roofs[0].Weight != "" || got.Source != "made" {
		t.Errorf("peaks of the run: %+v", got)
	}
}

// A roof that other work may have lowered makes no verdict sure, but one that it cannot change.
func TestDoubtfulPeaks(t *testing.T) {
	const gb, ms = 1_000_000_000, 1_000_000
	gbps, flops := 22.0, 800.0
	for _, c := range []struct {
		cell  workCell
		bound summary.Bound
		sure  int
	}{
		{row("q4_0", gb, 4*gb, 50*ms), summary.BoundMemory, 2},      // 91 % of a roof that may be higher
		{row("q4_0", gb, 600*gb, 1000*ms), summary.BoundCompute, 3}, // a higher one is even farther
	} {
		g := groupOf(2, c.cell)
		j := &judge{s: &summary.Stat{},
			groups: map[facts.ModelKey]*workGroup{{Phase: profile.Decode,
				Model: 0}: g}, keys: []facts.ModelKey{{Phase: profile.Decode, Model: 0}}}
		j.machine = roof.Fixed("made", &gbps, &flops)
		j.machine.Doubtful = true
		if x := j.classes(facts.ModelKey{Phase: profile.Decode, Model: 0}, g)[0]; x.bound != c.bound ||
			x.sure != c.sure {
			t.Errorf("%s, %d; want %s, %d", x.bound, x.sure, c.bound, c.sure)
		}
	}
}

// What can lie in a cache is no proof of the memory's limit.
func TestCacheDoubt(t *testing.T) {
	const mb, ms = 1_000_000, 1_000_000
	gbps, flops := 22.0, 800.0
	judge := func(cache int64, c workCell, k ops.Class) workClass {
		g := groupOf(2, c)
		for _, x := range g.cells {
			x.kind = k
		}
		j := &judge{s: &summary.Stat{},
			groups: map[facts.ModelKey]*workGroup{{Phase: profile.Decode,
				Model: 0}: g}, keys: []facts.ModelKey{{Phase: profile.Decode, Model: 0}}}
		j.machine = roof.Fixed("made", &gbps, &flops)
		j.machine.CacheBytes = cache
		return j.classes(facts.ModelKey{Phase: profile.Decode, Model: 0}, g)[0]
	}
	for _, c := range []struct {
		name  string
		cache int64
		kind  ops.Class
		sure  int
	}{
		{"weights, more than the cache", 90 * mb, ops.ClassProduct, 3},
		{"weights that fit", 110 * mb, ops.ClassProduct, 2},
		{"weights, a cache of unknown size", 0, ops.ClassProduct, 2},
		{"activations that fit", 110 * mb, ops.ClassOther, 1},
		{"activations, more than the cache", 90 * mb, ops.ClassOther, 3},
	} {
		if x := judge(c.cache, row("q4_0", 100*mb, 350*mb, 5*ms), c.kind); x.bound != summary.BoundMemory ||
			x.sure != c.sure {
			t.Errorf("%s: %s, %d; want memory, %d", c.name, x.bound, x.sure, c.sure)
		}
	}
}

// Misses that were counted tell where bytes came from: then sizes do not matter.
func TestCacheDoubtCounted(t *testing.T) {
	const mb = 1_000_000
	from := func(v float64) string {
		c := &workClass{what: "other", sum: workCell{bytes: 10 * mb, calls: 1},
			judgement: judgement{counted: &counted{traffic: &v}}}
		return (&judge{}).cacheDoubt(newWorkGroup(), c)
	}
	if text := from(8 * mb); text != "" {
		t.Errorf("80 %% from memory: %q", text)
	}
	if from(5*mb) == "" {
		t.Error("half of it from memory, and no doubt")
	}
}

// A row of which not all operators are known is not judged.
func TestRowVerdictOfPart(t *testing.T) {
	g := groupOf(2, row("q4_0", 1e9, 4e9, 5e7))
	k := facts.ModelKey{Phase: profile.Decode, Model: 0}
	j := &judge{s: &summary.Stat{}, groups: map[facts.ModelKey]*workGroup{k: g}, keys: []facts.ModelKey{k}}
	cells := g.of(func(*workCell) bool { return true })
	if j.rowVerdict(k, g, cells, 1) == nil || j.rowVerdict(k, g, cells, 2) != nil ||
		j.rowVerdict(k, g, nil, 0) != nil {
		t.Error("judged by a part of its operators, or not by all")
	}
}

func TestMost(t *testing.T) {
	for _, c := range []struct {
		parts []boundShare
		bound summary.Bound
		among []summary.Bound
	}{
		{nil, summary.BoundUnknown, nil},
		{[]boundShare{{summary.BoundMemory, 0.5}, {summary.BoundWait, 0.5}}, summary.BoundMemory, nil},
		{[]boundShare{{summary.BoundMemory, 0.49}, {summary.BoundWait, 0.3}, {summary.BoundOutside, 0.21}},
			summary.BoundMixed, []summary.Bound{summary.BoundMemory, summary.BoundWait,
				summary.BoundOutside}},
		{[]boundShare{{summary.BoundMemory, 0.4}, {summary.BoundWait, 0.19}, {summary.BoundDisk, 0.19}},
			summary.BoundMemory, nil},
		{[]boundShare{{summary.BoundMemory, 0.19}, {summary.BoundWait, 0.19}}, summary.BoundUnknown, nil},
	} {
		if b, among := mostTime(c.parts); b != c.bound || !slices.Equal(among, c.among) {
			t.Errorf("%v: %s of %v, want %s of %v", c.parts, b, among, c.bound, c.among)
		}
	}
}

// Two numbers of threads in one recording tell a core's limit from a common one.
func TestScaling(t *testing.T) {
	const gb, ms = 1_000_000_000, 1_000_000
	for _, c := range []struct {
		name     string
		one, two int64 // ns for 1 GB, by one thread and by two
		roof     float64
		bound    summary.Bound
		sure     int
	}{
		{"twice as fast", 100 * ms, 51 * ms, 0, summary.BoundCompute, 1},
		{"no faster", 100 * ms, 95 * ms, 0, summary.BoundMemory, 2},
		{"between", 100 * ms, 70 * ms, 0, summary.BoundUnknown, 0},
		{"a moment", ms / 2, ms / 4, 0, summary.BoundUnknown, 0},
		{"far from the roof", 100 * ms, 51 * ms, 25, summary.BoundCompute, 1},
	} {
		g := groupOf(1, row("q4_0", gb, 3.5*gb, c.one))
		for _, x := range groupOf(2, row("q4_0", gb, 3.5*gb, c.two)).cells {
			g.cells[x.cellKey] = x
		}
		j := &judge{s: &summary.Stat{Run: summary.Run{Cores: 4}},
			groups: map[facts.ModelKey]*workGroup{{Phase: profile.Decode,
				Model: 0}: g}, keys: []facts.ModelKey{{Phase: profile.Decode, Model: 0}}}
		if c.roof > 0 {
			j.machine = &roof.Peaks{At: func(n int, _ string) roof.Roof {
				gbps, flops := c.roof*float64(n), 800*float64(n)
				return roof.Roof{GBps: &gbps, GFlops: &flops}
			}}
		}
		if x := j.classes(facts.ModelKey{Phase: profile.Decode, Model: 0}, g)[0]; x.bound != c.bound ||
			x.sure != c.sure {
			t.Errorf("%s: %s, %d, want %s, %d: %v", c.name, x.bound, x.sure, c.bound, c.sure, x.reasons)
		}
	}
}

// What types tell is of their work: one that lost its CPU reads no slower while it has one.
func TestTypeMixWhileWorking(t *testing.T) {
	const gb, ms = 1_000_000_000, 1_000_000
	g := groupOf(2, row("q4_K", gb, 4*gb, 50*ms), row("q8_0", 2*gb, 4*gb, 400*ms))
	for _, c := range g.cells {
		if c.typ == "q8_0" {
			c.work, c.off = 100*ms, 300*ms
		}
	}
	if c := judged(&summary.Stat{Run: summary.Run{Cores: 2}}, g, nil); c.bound != summary.BoundMemory ||
		c.sure != 2 {
		t.Errorf("%s, %d; want memory: both read 20 GB/s while they work", c.bound, c.sure)
	}
}

// A phase that lost its CPUs for most of its time is as good a reference: what counts is how it worked.
func TestReferenceWhileWorking(t *testing.T) {
	const gb, ms = 1_000_000_000, 1_000_000
	decode, prefill := groupOf(2, row("q4_0", gb, 4*gb, 50*ms)), groupOf(2, row("q4_0", gb, 400*gb, 1000*ms))
	for _, c := range prefill.cells {
		c.dur, c.off, c.bytesDur, c.flopsDur = 9000*ms, 8000*ms, 9000*ms, 9000*ms
	}
	c := judged(&summary.Stat{Run: summary.Run{Cores: 2}}, decode, prefill)
	// 4 Gflop at 400 GFLOP/s in 50 ms
	if c.arith == nil || math.Abs(*c.arith-0.2) > 1e-9 || c.arithRef.rate != 400 {
		t.Errorf("%v at %g GFLOP/s, want 0.2 at 400", c.arith, c.arithRef.rate)
	}
}

// The roof is compared with the work: what threads waited is another cause.
func TestPeaksWhileWorking(t *testing.T) {
	const gb, ms = 1_000_000_000, 1_000_000
	gbps, flops := 20.0, 800.0
	g := groupOf(2, row("q4_0", gb, 3.5*gb, 100*ms))
	for _, c := range g.cells {
		c.work, c.wait, c.off = 60*ms, 20*ms, 20*ms
	}
	j := &judge{s: &summary.Stat{},
		groups: map[facts.ModelKey]*workGroup{{Phase: profile.Decode,
			Model: 0}: g}, keys: []facts.ModelKey{{Phase: profile.Decode, Model: 0}}}
	j.machine = roof.Fixed("made", &gbps, &flops)
	if c := j.classes(facts.ModelKey{Phase: profile.Decode, Model: 0}, g)[0]; c.memPeak == nil ||
		math.Abs(*c.memPeak-50.0/60) > 1e-9 {
		t.Errorf("%v of the roof, want 50 of 60 ms", c.memPeak)
	}
}
