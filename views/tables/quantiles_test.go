// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// TestQuantiles compares the distributions of steps in the statistics with those of the exported steps, sorted.
func TestQuantiles(t *testing.T) {
	for name, few := range map[string]bool{"plain": false, "requests-many": false,
		"one-step": true} {
		t.Run(name, func(t *testing.T) {
			trial, ok := profiletest.TrialNamed(name)
			var b bytes.Buffer
			if err := trial.Write(&b); !ok || err != nil {
				t.Fatal(name, err)
			}
			r, err := trace.NewReader(bytes.NewReader(b.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			s := stat.New(stat.Options{})
			h, err := profile.Replay(r, s)
			if err != nil {
				t.Fatal(err)
			}
			steps := rows(t, export(t, b.Bytes(), "steps", "ndjson"))
			st := s.Finish(h)
			compared := 0
			for i := range st.Phases {
				compared += quantiles(t, &st.Phases[i], steps, len(st.Models) < 2)
			}
			if compared == 0 != few {
				t.Errorf("%d quantiles compared", compared)
			}
		})
	}
}

// quantiles returns how many tails it compared.
func quantiles(t *testing.T, ps *summary.Phase, steps []map[string]any, oneModel bool) (compared int) {
	t.Helper()
	if !oneModel || ps.OnlyPartial {
		return 0
	}
	num := func(v any) float64 {
		n, _ := v.(json.Number)
		f, err := n.Float64()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	var durs, tokens []float64
	for _, row := range steps {
		if row["phase"] == ps.Phase && row["incomplete"] == nil {
			durs = append(durs, num(row["dur_ns"]))
			tokens = append(tokens, num(row["dur_ns"])/num(row["n_tokens"])*num(row["n_seqs"]))
		}
	}
	slices.Sort(durs)
	slices.Sort(tokens)
	rank := func(v []float64, q float64) float64 { return v[max(0, int(math.Ceil(q*float64(len(v))))-1)] }
	const most = 0.0101 // relative error of the statistics' quantiles
	is := func(what string, got *float64, v []float64, q float64, fewest int) {
		switch {
		case (got != nil) != (len(v) >= fewest):
			t.Errorf("%s: %s of %d steps is %v", ps.Phase, what, len(v), got)
		case got != nil:
			if want := rank(v, q); math.Abs(*got-want) > most*want+1 {
				t.Errorf("%s: %s is %g, want %g", ps.Phase, what, *got, want)
			}
			if fewest > 1 {
				compared++
			}
		}
	}
	x := ps.StepTime
	if x == nil || x.N != int64(len(durs)) || x.Max != durs[len(durs)-1] {
		t.Fatalf("%s: %+v of %d steps, the longest %g", ps.Phase, x, len(durs), durs[len(durs)-1])
	}
	is("p50", &x.P50, durs, 0.5, 1)
	is("p95", x.P95, durs, 0.95, 20)
	is("p99", x.P99, durs, 0.99, 100)
	if ps.Phase == "decode" {
		is("TPOT p50", &ps.TPOT.P50, tokens, 0.5, 1)
		is("TPOT p95", ps.TPOT.P95, tokens, 0.95, 20)
		is("TPOT p99", ps.TPOT.P99, tokens, 0.99, 100)
	} else if ps.TPOT != nil {
		t.Errorf("%s has a TPOT", ps.Phase)
	}
	return compared
}
