// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
)

func phaseOf(t *testing.T, s *summary.Stat, name string) *summary.Phase {
	t.Helper()
	for i := range s.Phases {
		if s.Phases[i].Phase == name {
			return &s.Phases[i]
		}
	}
	t.Fatalf("no phase %s", name)
	return nil
}

// Every row has its own verdict, whatever the rows are, and the same figures as its phase where it is all of
// it.
func TestRowVerdicts(t *testing.T) {
	gbps, flops := 22.0, 800.0
	opt := stat.Options{Peaks: fixed(&gbps, &flops)}
	for _, by := range []facts.By{facts.ByWeight, facts.ByOp, facts.ByLayer, facts.ByBlock} {
		opt.By = by
		s := statOf(t, opt, nil, "op", made())
		for _, phase := range []string{"decode", "prefill"} {
			for _, r := range phaseOf(t, s, phase).Rows {
				if r.Bound == nil || r.Bound.OfPeakGBps == nil {
					t.Errorf("%s %s %s: %+v", by, phase, r.Key, r.Bound)
				}
			}
		}
		// The made machine reads 20 GB/s and computes 500 GFLOP/s, whichever takes longer.
		for _, x := range []struct {
			by    facts.By
			key   string
			phase string
			bound summary.Bound
			sure  string
			mem   float64
			arith float64
		}{
			{facts.ByWeight, "ffn_down", "decode", summary.BoundMemory, "high", 20 / 22.0, 3.54 * 20 / 800},
			{facts.ByWeight, "ffn_down", "prefill", summary.BoundCompute, "high", 500 / 22.0 / 262.0,
				500 / 800.0},
			{facts.ByOp, "MUL_MAT", "decode", summary.BoundMemory, "high", 20 / 22.0, 3.54 * 20 / 800},
			{facts.ByBlock, "ffn", "decode", summary.BoundMemory, "high", 20 / 22.0, 3.54 * 20 / 800},
			{facts.ByLayer, "0", "decode", summary.BoundMemory, "high", 20 / 22.0, 3.54 * 20 / 800},
		} {
			if x.by != by {
				continue
			}
			found := false
			for _, r := range phaseOf(t, s, x.phase).Rows {
				if r.Key != x.key {
					continue
				}
				found = true
				if b := r.Bound; b.Bound != x.bound || b.Sure != x.sure ||
					math.Abs(*b.OfPeakGBps-x.mem) > 0.02 || math.Abs(*b.OfPeakFlops-x.arith) > 0.02 {
					t.Errorf("%s %s: %s, %s, %g, %g of the roofs; want %+v\n%s", x.phase, x.key, b.Bound,
						b.Sure, *b.OfPeakGBps, *b.OfPeakFlops, x, b.Why)
				}
				if !strings.HasPrefix(r.Bound.Why, "At the machine's peak, reading would take ") {
					t.Errorf("%q", r.Bound.Why)
				}
			}
			if !found {
				t.Errorf("no row %s by %s", x.key, by)
			}
		}
	}
	// Rows left out are judged together; threads and steps are not judged.
	opt.By, opt.Top = facts.ByWeight, 1
	if d := phaseOf(t, statOf(t, opt, nil, "op", made()), "decode"); d.Rest == nil || d.Rest.Bound == nil ||
		d.Rest.Bound.Bound != summary.BoundMemory {
		t.Errorf("rest %+v", d.Rest)
	}
	for _, by := range []facts.By{facts.ByThread, facts.ByStep} {
		for _, r := range phaseOf(t, statOf(t, stat.Options{By: by}, nil, "op", made()), "decode").Rows {
			if r.Bound != nil {
				t.Errorf("by %s: %+v", by, r.Bound)
			}
		}
	}
	// Without a roof nothing is said of it.
	d := phaseOf(t, statOf(t, stat.Options{}, nil, "op", made()), "decode")
	b, err := json.Marshal(d.Rows[0].Bound)
	if err != nil || !strings.Contains(string(b),
		`"bound":"memory","among":[],"confidence":"medium","of_peak_gbps":null,"of_peak_flops":null,"why":"`) {
		t.Errorf("%s, %v", b, err)
	}
}

// A row whose threads wait, or whose CPU others had, says that and not what its work is bound by.
func TestRowVerdictLosses(t *testing.T) {
	r := made()
	r.Threads = 4
	r.Part = func(t int) float64 { return 3.7 - 3.6*float64(min(t, 1)) }
	for _, row := range phaseOf(t, statOf(t, stat.Options{}, nil, "op", r), "decode").Rows {
		if row.Bound.Bound != summary.BoundWait || row.Bound.Sure != "high" ||
			!strings.Contains(row.Bound.Why, "is barrier wait or sleep") {
			t.Errorf("%s: %+v", row.Key, row.Bound)
		}
	}
	r = made()
	r.Model.Vocab, r.Model.FF, r.Preempts = 1024, 1024, true
	for _, row := range phaseOf(t, statOf(t, stat.Options{}, nil, "op", r), "decode").Rows {
		if (row.Bound.Bound == summary.BoundInterference) != (row.Key == "ffn_gate") {
			t.Errorf("%s: %+v", row.Key, row.Bound)
		}
	}
	// Half of the threads' work, and neither half has half of the time.
	r = made()
	r.Part = func(t int) float64 { return 1.6 - 1.2*float64(t) } // 1.6 where 1 is the mean: 37.5 % waiting
	for _, row := range phaseOf(t, statOf(t, stat.Options{}, nil, "op", r), "decode").Rows {
		if row.Key == "ffn_down" && (row.Bound.Bound != summary.BoundMemory ||
			!strings.Contains(row.Bound.Why, "37 % of their time is barrier wait") &&
				!strings.Contains(row.Bound.Why, "38 % of")) {
			t.Errorf("%+v", row.Bound)
		}
	}
}

// Teams of two sizes are compared with the roof of each: one thread reads 10 GB/s of 11, two 20 of 22.
func TestRowVerdictTeams(t *testing.T) {
	peaks := &roof.Peaks{Source: "made", At: func(threads int, _ string) roof.Roof {
		gbps, flops := 11*float64(threads), 400*float64(threads)
		return roof.Roof{Threads: threads, GBps: &gbps, GFlops: &flops}
	}}
	one, two := made(), made()
	one.Threads = 1
	two.Pos = 200
	s := statOf(t, stat.Options{Peaks: func(*profile.Header) *roof.Peaks {
		return peaks
	}}, nil, "op", one, two)
	for _, r := range phaseOf(t, s, "decode").Rows {
		if r.Key == "ffn_down" && (r.Bound.Bound != summary.BoundMemory ||
			math.Abs(*r.Bound.OfPeakGBps-10/11.0) > 0.01) {
			t.Errorf("%+v, %g of the roof", r.Bound, *r.Bound.OfPeakGBps)
		}
	}
	// Each number of threads and type once, whatever the phases.
	if n := len(s.Peaks.Roofs); n != 4 || s.Peaks.Roofs[0].Threads != 1 ||
		s.Peaks.Roofs[3].Weight != "q4_0" || *s.Peaks.Roofs[3].GBps != 22 {
		t.Errorf("%d roofs: %+v", n, s.Peaks.Roofs)
	}
}

// The run's verdict is its phases', by their time.
func TestRunVerdict(t *testing.T) {
	s := statOf(t, stat.Options{}, nil, "op", made())
	v := s.RunVerdict
	d, p := phaseOf(t, s, "decode"), phaseOf(t, s, "prefill")
	of := func(f *summary.Phase, x *summary.Verdict, b summary.Bound) (ns float64) {
		for _, c := range x.Causes {
			if c.Bound == b {
				ns += c.Share * float64(f.Dur)
			}
		}
		return ns
	}
	for _, b := range []summary.Bound{summary.BoundMemory, summary.BoundCompute, summary.BoundOutside} {
		want := (of(d, verdictOf(t, s, "decode"), b) + of(p, verdictOf(t, s, "prefill"), b)) / float64(d.Dur+
			p.Dur)
		var got float64
		for _, c := range v.Causes {
			if c.Bound == b {
				got += c.Share
			}
		}
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s has %g of the run, want %g", b, got, want)
		}
	}
	is(t, v, summary.BoundCompute, summary.SureHigh) // 128 tokens of prefill take longer than 8 of decode
	r := made()
	r.Decode = 32
	is(t, statOf(t, stat.Options{}, nil, "op", r).RunVerdict, summary.BoundMemory, summary.SureMedium)
	r.NoOps = true
	if v := statOf(t, stat.Options{}, nil, "step", r).RunVerdict; v != nil {
		t.Errorf("without operators: %+v", v)
	}
}
