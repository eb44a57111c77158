// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// countingOps gives every operator counters on its way to a builder.
type countingOps struct {
	*stat.Builder
	derive facts.Deriver
	count  func(o *profile.Op, bytes float64) []int64
}

func (c *countingOps) Op(o *profile.Op) error {
	o.Counts = c.count(o, num(c.derive.Derive(o).Bytes))
	return c.Builder.Op(o)
}

func countedStat(t *testing.T, opts stat.Options, r profiletest.Run, counters []trace.Counter,
	count func(o *profile.Op, bytes float64) []int64) *summary.Stat {
	t.Helper()
	c := &countingOps{Builder: stat.New(opts), count: count}
	p := &profiletest.Player{Sink: c}
	if err := p.Play(r); err != nil {
		t.Fatal(err)
	}
	h := p.Header("op")
	h.Meta.Counters = counters
	return c.Finish(h)
}

// of makes counters of a CPU by their roles.
func of(roles ...string) (out []trace.Counter) {
	for _, r := range roles {
		out = append(out, trace.Counter{Name: r, Role: r, PMU: "cpu"})
	}
	return out
}

// Decode of one thread of two CPUs, without a roof: rates leave open what bounds it, counters tell. Each
// operator has 2.5 cycles a ns of its threads; the other counters are parts of them, or of the lines that its
// bytes fill.
func TestVerdictCounters(t *testing.T) {
	one := made()
	one.Threads = 1
	part := func(shares ...float64) func(*profile.Op, float64) []int64 { // of the cycles
		return func(o *profile.Op, _ float64) []int64 {
			cycles := 2.5 * float64(o.Busy)
			out := []int64{int64(cycles)}
			for _, s := range shares {
				out = append(out, int64(s*cycles))
			}
			return out
		}
	}
	// and lines from memory, last
	lines := func(of float64, shares ...float64) func(*profile.Op, float64) []int64 {
		f := part(shares...)
		return func(o *profile.Op, bytes float64) []int64 { return append(f(o, bytes), int64(of*bytes/64)) }
	}
	void := of("cycles", "stall-memory")
	void[1].Void = "the CPU lists the event but seems not to count it"
	zen := of("cycles", "mem-bound")
	zen[1].Slots = 6
	alike := of("cycles", "stall-memory")
	alike[1].User = true
	scaled := of("cycles", "stall-memory", "mem-fill")
	scaled[1].Scaled = true
	both := []summary.Bound{summary.BoundMemory, summary.BoundCompute}
	for _, c := range []struct {
		name     string
		counters []trace.Counter
		count    func(*profile.Op, float64) []int64
		bound    summary.Bound
		sure     string
		among    []summary.Bound
		text     string
	}{
		{"nothing counted", nil, func(*profile.Op, float64) []int64 {
			return nil
		}, summary.BoundUnknown, "", both, "One thread computed"},
		{"waiting for memory", of("cycles", "stall-memory"), part(0.6), summary.BoundMemory,
			summary.SureMedium, nil, "stall for memory in 60 % of their cycles"},
		{"and it came from there", of("cycles", "stall-memory", "mem-fill"), lines(0.9, 0.6),
			summary.BoundMemory, summary.SureHigh, nil, ""},
		{"it came from a cache", of("cycles", "stall-memory", "mem-fill"), lines(0.1, 0.6),
			summary.BoundUnknown, "", both, "10 % of the bytes come from memory"},
		{"misses without prefetching", of("cycles", "stall-memory", "llc-miss"), lines(0.1, 0.6),
			summary.BoundMemory, summary.SureMedium, nil, "without what prefetchers fetch"},
		{"estimates", scaled, lines(0.9, 0.6), summary.BoundMemory, summary.SureMedium, nil, "Counters: "},
		{"stalls, from memory", of("cycles", "stall-backend", "mem-fill"), lines(0.9, 0.6),
			summary.BoundMemory, summary.SureMedium, nil, "stall in 60 %"},
		{"stalls for anything", of("cycles", "stall-backend"), part(0.6), summary.BoundUnknown, "", both, ""},
		{"few stalls", of("cycles", "stall-backend"), part(0.1), summary.BoundCompute, summary.SureMedium,
			nil, "stall in 10 %"},
		{"stalls for its units", of("cycles", "stall-memory", "stall-backend"), part(0.05, 0.5),
			summary.BoundCompute, summary.SureMedium, nil, "stall for memory in 5 %"},
		{"top-down: memory", of("cycles", "slots", "retiring", "be-bound", "mem-bound"),
			part(6, 1.2, 4.2, 3.6), summary.BoundMemory, summary.SureMedium, nil, "60 %"},
		{"top-down: useful", of("cycles", "slots", "retiring", "be-bound", "mem-bound"),
			part(6, 3.6, 1.8, 0.6), summary.BoundCompute, summary.SureMedium, nil, "10 %"},
		{"top-down: memory, six slots a cycle", zen, part(3.6), summary.BoundMemory, summary.SureMedium, nil,
			"60 %"},
		{"not counted alike", alike, part(0.6), summary.BoundUnknown, "", both, ""},
		{"void", void, part(0.6), summary.BoundUnknown, "", both, ""},
		{"reads 0, as emulated ones do", of("cycles", "stall-backend"), part(0), summary.BoundUnknown, "",
			both, ""},
		{"known of some operators", of("cycles", "stall-memory"), func(o *profile.Op, _ float64) []int64 {
			if o.ID%2 == 0 {
				return []int64{2500, profile.UnknownCount}
			}
			return []int64{2500, 1500}
		}, summary.BoundUnknown, "", both, ""},
		{"fewer values than counters", of("cycles", "stall-memory"), func(*profile.Op, float64) []int64 {
			return []int64{5}
		}, summary.BoundUnknown, "", both, ""},
	} {
		s := countedStat(t, stat.Options{}, one, c.counters, c.count)
		v := verdictOf(t, s, "decode")
		is(t, v, c.bound, c.sure, c.among...)
		if !strings.Contains(v.Why, c.text) {
			t.Errorf("%s: %q, want in it %q", c.name, v.Why, c.text)
		}
		if t.Failed() {
			t.Fatalf("in %q", c.name)
		}
	}
	// Two threads of two CPUs: rates say memory, most likely.
	for _, c := range []struct {
		name  string
		count func(*profile.Op, float64) []int64
		sure  string
		text  string
	}{
		{"counters agree", part(0.6), summary.SureHigh, ""},
		{"counters differ", part(0.1), summary.SureLow, "They indicate a compute limit."},
	} {
		counters := of("cycles", "stall-memory", "stall-backend")
		f := func(o *profile.Op, b float64) []int64 { x := c.count(o, b); return append(x, x[1]) }
		v := verdictOf(t, countedStat(t, stat.Options{}, made(), counters, f), "decode")
		is(t, v, summary.BoundMemory, c.sure)
		if !strings.Contains(v.Why, c.text) {
			t.Errorf("%s: %q", c.name, v.Why)
		}
	}
	// The figures themselves: 0.6 of the cycles, half of the bytes, 1.5 instructions a cycle.
	s := countedStat(t, stat.Options{}, one,
		of("cycles", "instructions", "stall-memory", "llc-miss", "llc-prefetch-miss"), func(o *profile.Op,
			bytes float64) []int64 {
			cycles := 1000 * o.Busy
			return []int64{cycles, cycles * 3 / 2, cycles * 6 / 10, int64(bytes / 640),
				int64(bytes * 0.4 / 64)}
		})
	v := verdictOf(t, s, "decode")
	for name, want := range map[string]float64{"stalled_for_memory": 0.6, "ipc": 1.5, "from_memory": 0.5} {
		if got := evidenceOf(v, name); math.Abs(got-want) > 0.001 {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
}

// Major faults make an operator wait for the disk. In each of 8 decode steps ffn_gate of layer 0 takes 5 ms
// more, with 7 faults; that of layer 1 never does, so its time is the usual one.
func TestVerdictDisk(t *testing.T) {
	r := made()
	r.Model.Vocab, r.Model.FF = 1024, 1024
	r.Preempts = true
	counters := []trace.Counter{{Name: "minor-faults", Role: "minor-faults"},
		{Name: "major-faults", Role: "major-faults"}}
	faults := func(o *profile.Op, _ float64) []int64 {
		if o.OffCPU > 0 {
			return []int64{1, 7}
		}
		return []int64{1, 0}
	}
	s := countedStat(t, stat.Options{}, r, counters, faults)
	v := verdictOf(t, s, "decode")
	is(t, v, summary.BoundDisk, summary.SureHigh)
	var dur int64
	for _, p := range s.Phases {
		if p.Phase == "decode" {
			dur = p.TracedDur
		}
	}
	if x := causeOf(v, "disk"); math.Abs(x-40e6/float64(dur)) > 0.001 || causeOf(v, "contention") != 0 {
		t.Errorf("the disk takes %g, interference %g; want %g and none", x, causeOf(v, "contention"),
			40e6/float64(dur))
	}
	if evidenceOf(v, "major_faults") != 56 || !strings.Contains(v.Text, "56 major faults") {
		t.Errorf("%g major faults: %q", evidenceOf(v, "major_faults"), v.Text)
	}
	for _, row := range s.Phases[slices.IndexFunc(s.Phases, func(p summary.Phase) bool {
		return p.Phase == "decode"
	})].Rows {
		if is := row.Bound.Bound == summary.BoundDisk; is != (row.Key == "ffn_gate") {
			t.Errorf("%s: %+v", row.Key, row.Bound)
		} else if is && !strings.Contains(row.Bound.Why, "56 major faults") {
			t.Errorf("%q", row.Bound.Why)
		}
	}
	if f := s.Findings[0]; f.Kind != "disk" || math.Abs(*f.Gain-5e6) > 1e4 ||
		!strings.Contains(f.Text, "At least 56 pages") || f.Target.Params["sel"] != "ffn_gate" {
		t.Errorf("the first finding is %+v", f)
	}
	// Steps without, too: the same operator's own usual time counts.
	some := func(o *profile.Op, b float64) []int64 {
		if o.Step.ID%2 == 0 {
			return faults(o, b)
		}
		return []int64{1, 0}
	}
	v = verdictOf(t, countedStat(t, stat.Options{}, r, counters, some), "decode")
	if x := causeOf(v, "disk"); x > 0.02 {
		t.Errorf("the disk takes %g where operators without a fault take as long", x)
	}
	// A counter that is void, or faults of no operator, are no evidence.
	void := slices.Clone(counters)
	void[1].Void = "no values"
	is(t, verdictOf(t, countedStat(t, stat.Options{}, r, void, faults), "decode"), summary.BoundInterference,
		summary.SureHigh)
	none := func(*profile.Op, float64) []int64 { return []int64{1, 0} }
	is(t, verdictOf(t, countedStat(t, stat.Options{}, r, counters, none), "decode"),
		summary.BoundInterference, summary.SureHigh)
}
