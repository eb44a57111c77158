// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// byThreadsSink gives every operator counts: values of the counters, by its number of threads. UnknownCount
// stands for not known.
type byThreadsSink struct {
	profile.Sink
	values func(o *profile.Op) []int64
}

func (c *byThreadsSink) Op(o *profile.Op) error {
	o.Counts = c.values(o)
	return c.Sink.Op(o)
}

func counted(t *testing.T, counters []trace.Counter, values func(*profile.Op) []int64,
	runs ...profiletest.Run) *summary.Stat {
	t.Helper()
	b := stat.New(stat.Options{})
	p := &profiletest.Player{Sink: &byThreadsSink{b, values}}
	for _, r := range runs {
		if err := p.Play(r); err != nil {
			t.Fatal(err)
		}
	}
	h := p.Header("op")
	h.Meta.Counters = counters
	return b.Finish(h)
}

var cpuCounters = []trace.Counter{{Name: "cycles", Role: "cycles", PMU: "cpu"},
	{Name: "instructions", Role: "instructions", PMU: "cpu"},
	{Name: "stall_backend", Role: "stall-backend", PMU: "cpu"}, {Name: "l2d_cache_refill", Role: "l2-refill",
		PMU: "cpu"},
	{Name: "ll_cache_miss_rd", Role: "llc-miss", PMU: "cpu"}}

func team(threads int) profiletest.Run {
	r := run
	r.Threads, r.Ctx, r.Prefill, r.Decode, r.Preempt = threads, uint64(threads), 16, 8, 0
	return r
}

// llama-bench -t 1,2,4: one process and model, a context for each number of threads. An operator of n threads
// takes 1000 cycles, 2000/n instructions, and stalls for n tenths of its cycles; one line in 100 instructions
// misses the last cache. Of ROPE nothing is known.
func TestCountsByThreads(t *testing.T) {
	values := func(o *profile.Op) []int64 {
		if o.Op == "ROPE" {
			return slices.Repeat([]int64{profile.UnknownCount}, 5)
		}
		n := int64(len(o.Threads))
		return []int64{1000, 2000 / n, 100 * n, 7, 20 / n}
	}
	s := counted(t, cpuCounters, values, team(1), team(4), team(2))
	if len(s.Models) != 1 || len(s.ByThreads) != 6 {
		t.Fatalf("%d models, %d rows, want 1 and 6: %+v", len(s.Models), len(s.ByThreads), s.ByThreads)
	}
	i := 0
	for _, phase := range []string{"prefill", "decode"} {
		for _, n := range []int{1, 2, 4} {
			r := &s.ByThreads[i]
			i++
			steps, tokens := int64(1), int64(16)
			if phase == "decode" {
				steps, tokens = 8, 8
			}
			if r.Phase != phase || r.Threads != n || r.Steps != steps || r.Model == nil || *r.Model != 0 ||
				r.TokensPerS == nil {
				t.Fatalf("row %d is %+v, want %s by %d threads", i, r, phase, n)
			}
			f := float64(n)
			if !near(r.IPC, 2/f) || !near(r.StallShare, f/10) || !near(r.Misses, 10) ||
				r.StallOf != "stall_backend" || r.MissesOf != "ll_cache_miss_rd" {
				t.Errorf("%s by %d: IPC %v, stalls %v of %s, misses %v of %s", phase, n, *r.IPC,
					*r.StallShare, r.StallOf, *r.Misses, r.MissesOf)
			}
			// 2 layers with 2 ROPE each
			if c := r.Counts[0]; c.Calls != steps*(opsPerStep-4) || *c.Sum != 1000*c.Calls {
				t.Errorf("%s by %d: %d cycles of %d operators", phase, n, *c.Sum, c.Calls)
			}
			var f2 *summary.Phase
			for k := range s.Phases {
				if s.Phases[k].Phase == phase {
					f2 = &s.Phases[k]
				}
			}
			if f2.Tokens == nil || *f2.Tokens != 3*tokens {
				t.Errorf("%s: %v tokens in all", phase, f2.Tokens)
			}
		}
	}
	alone := counted(t, cpuCounters, values, team(4))
	if a, b := s.ByThreads[5].TokensPerS, alone.Phases[1].TokensPerS; !near(a, *b) {
		t.Errorf("%v tokens a second by 4 threads, %v in a run of its own", *a, *b)
	}
}

// What is not counted, void, or counted in another way makes no ratio, and no row where nothing is left.
func TestCountsByThreadsAbsent(t *testing.T) {
	all := func(*profile.Op) []int64 { return []int64{1000, 500, 0, 7, 20} }
	change := func(f func([]trace.Counter)) []trace.Counter {
		c := slices.Clone(cpuCounters)
		f(c)
		return c
	}
	for _, c := range []struct {
		what               string
		counters           []trace.Counter
		ipc, stall, misses float64 // -1: nil
		stallOf, missesOf  string
	}{
		{"all", cpuCounters, 0.5, 0, 40, "stall_backend", "ll_cache_miss_rd"},
		{"void stalls", change(func(c []trace.Counter) {
			c[2].Void = "it reads 0"
		}), 0.5, -1, 40, "", "ll_cache_miss_rd"},
		{"void misses", change(func(c []trace.Counter) {
			c[4].Void = "it reads 0"
		}), 0.5, 0, 14, "stall_backend", "l2d_cache_refill"},
		{"void cycles", change(func(c []trace.Counter) {
			c[0].Void = "it reads 0"
		}), -1, -1, 40, "", "ll_cache_miss_rd"},
		{"cycles of user space", change(func(c []trace.Counter) {
			c[0].User = true
		}), -1, -1, 40, "", "ll_cache_miss_rd"},
		{"slots", change(func(c []trace.Counter) {
			c[0].Role, c[2].Role = "slots", "be-bound"
		}), -1, 0, 40, "stall_backend", "ll_cache_miss_rd"},
		{"slots of a cycle", change(func(c []trace.Counter) {
			c[4].Role, c[4].Slots, c[2].Role = "be-bound", 4, ""
		}), 0.5, 0.005, 14, "ll_cache_miss_rd", "l2d_cache_refill"},
		{"fills in two parts", change(func(c []trace.Counter) {
			c[3].Role, c[4].Role = "mem-fill", "mem-fill"
		}), 0.5, 0, 54, "stall_backend", "l2d_cache_refill"},
		{"one fill void", change(func(c []trace.Counter) {
			c[3].Role, c[4].Role, c[4].Void = "mem-fill", "mem-fill", "it reads 0"
		}), 0.5, 0, 14, "stall_backend", "l2d_cache_refill"},
		{"the same twice", change(func(c []trace.Counter) {
			c[3].Role, c[4].Role = "llc-miss", "llc-miss"
		}), 0.5, 0, 14, "stall_backend", "l2d_cache_refill"},
		{"slots not told", change(func(c []trace.Counter) {
			c[2].Role = "be-bound"
		}), 0.5, -1, 40, "", "ll_cache_miss_rd"},
	} {
		s := counted(t, c.counters, all, team(2))
		if len(s.ByThreads) != 2 {
			t.Errorf("%s: %d rows", c.what, len(s.ByThreads))
			continue
		}
		r := &s.ByThreads[1]
		for _, x := range []struct {
			name string
			got  *float64
			want float64
		}{{"IPC", r.IPC, c.ipc}, {"stalls", r.StallShare, c.stall}, {"misses", r.Misses, c.misses}} {
			if (x.got == nil) != (x.want < 0) || x.got != nil && !near(x.got, x.want) {
				t.Errorf("%s: %s %v, want %g", c.what, x.name, x.got, x.want)
			}
		}
		if r.StallOf != c.stallOf || r.MissesOf != c.missesOf {
			t.Errorf("%s: stalls of %q, misses of %q", c.what, r.StallOf, r.MissesOf)
		}
	}
	unknown := func(*profile.Op) []int64 { return slices.Repeat([]int64{profile.UnknownCount}, 5) }
	if s := counted(t, cpuCounters, unknown, team(1), team(2)); len(s.ByThreads) != 0 {
		t.Errorf("of counts that are not known: %+v", s.ByThreads)
	}
	if s := runStat(t, stat.Options{}, team(1), team(2)); s.ByThreads != nil {
		t.Errorf("without counters: %+v", s.ByThreads)
	} else if b, _ := json.Marshal(s); strings.Contains(string(b), "counts_by_threads") {
		t.Error("JSON has counts_by_threads without counters")
	}
	software := []trace.Counter{{Name: "task-clock", Role: "task-clock", PMU: "kernel", Unit: "ns"},
		{Name: "major-faults", Role: "major-faults"}}
	if s := counted(t, software, func(*profile.Op) []int64 {
		return []int64{1, 0}
	}, team(1), team(2)); len(s.ByThreads) != 0 {
		t.Errorf("of the kernel's counters: %+v", s.ByThreads)
	}
	// steps that were not wholly seen are left out
	r := team(2)
	r.Partial = 3
	if s := counted(t, cpuCounters, all, r); s.ByThreads[1].Steps != 7 {
		t.Errorf("%d steps, want 7", s.ByThreads[1].Steps)
	}
}
