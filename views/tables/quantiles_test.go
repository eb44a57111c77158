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

// uneven records steps of which no two take the same time: another process has a CPU for ever longer.
func uneven(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	sh := &profiletest.Other{TID: 77, Comm: "sh", Prio: 120}
	c := &profiletest.Crowd{PID: 500, Threads: 2, CPUs: 2, Steps: n, Work: 10,
		Seats: func(tick int) []profiletest.Seat {
			s := []profiletest.Seat{{Thread: 1}, {Thread: 2}}
			if tick%90 < tick/90*2%85 {
				s[1] = profiletest.Seat{Other: sh}
			}
			return s
		}}
	if err := profiletest.Record(&b, func(*profiletest.Recorder) {},
		func(r *profiletest.Recorder, _ *profiletest.Player) error { return c.Play(r) }); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestQuantiles compares the distributions of steps in the statistics with the exported steps, sorted.
func TestQuantiles(t *testing.T) {
	for _, c := range []struct{ steps, tails int }{{5, 0}, {15, 0}, {20, 2}, {60, 2}, {99, 2}, {150, 4}} {
		b := uneven(t, c.steps)
		r, err := trace.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		s := stat.New(stat.Options{})
		h, err := profile.Replay(r, s)
		if err != nil {
			t.Fatal(err)
		}
		st := s.Finish(h)
		compared := 0
		for i := range st.Phases {
			compared += quantiles(t, &st.Phases[i], rows(t, export(t, b, "steps", "ndjson")))
		}
		if compared != c.tails {
			t.Errorf("%d steps: %d tails compared, want %d", c.steps, compared, c.tails)
		}
	}
}

// quantiles returns how many tails it compared.
func quantiles(t *testing.T, ps *summary.Phase, steps []map[string]any) (compared int) {
	t.Helper()
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
