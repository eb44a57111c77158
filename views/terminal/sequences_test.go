// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// slots is a server with two slots whose answers a draft speeds up, and that answers n further requests
// without one.
func slots(t *testing.T, n int) *summary.Stat {
	t.Helper()
	b := stat.New(stat.Options{})
	id, now := int64(0), int64(1e9)
	step := func(ctx uint64, ms float64, parts ...trace.StepSeq) {
		id++
		s := &profile.Step{ID: id, PID: 7, TID: 7, Ctx: ctx, Phase: profile.Decode, Start: now,
			Dur: int64(ms * 1e6), Graphs: 1, NSeqs: int32(len(parts)), Seqs: parts}
		for _, p := range parts {
			s.NTokens += p.NTokens
			if p.NTokens > 1 {
				s.Phase = profile.Prefill
			}
		}
		now += s.Dur + 200_000
		if err := b.Step(s); err != nil {
			t.Fatal(err)
		}
	}
	q := func(seq, n, pos, out int32) trace.StepSeq {
		return trace.StepSeq{Seq: seq, NTokens: n, Pos: pos, Outputs: out}
	}
	step(1, 12, q(0, 2, 0, 1))
	step(1, 120, q(0, 40, 0, 1), q(1, 60, 0, 1))
	step(2, 10, q(0, 40, 0, 0), q(1, 60, 0, 1))
	pos := []int32{40, 60}
	for i := range int32(4) {
		for k := range int32(3) {
			step(2, 2, q(0, 1, pos[0]+k, 1), q(1, 1, pos[1]+k, 1))
		}
		step(1, 24, q(0, 4, pos[0], 4), q(1, 4, pos[1], 4))
		pos[0] += i%4 + 1
		pos[1] += 3
	}
	step(1, 80, q(0, 30, 10, 1), q(1, 1, pos[1], 1))
	step(1, 20, q(0, 1, 40, 1))
	for i := range n {
		step(1, float64(10+i), q(1, 8, 0, 1))
		step(1, 20, q(1, 1, 8, 1))
	}
	return b.Finish(&profile.Header{Meta: trace.Meta{Command: []string{"llama-server"}}, End: &trace.End{}})
}

func TestSequencesGolden(t *testing.T) {
	wide := Options{File: "run.pinf", Width: 140, Unicode: true}
	all := wide
	all.Verbose = true
	for _, c := range []struct {
		name string
		n    int
		o    Options
	}{{"slots", 0, wide}, {"slots-60", 0, Options{File: "run.pinf", Width: 60}}, {"slots-many", 12,
		wide}, {"slots-all", 12, all}} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := Stat(&b, slots(t, c.n), c.o.full()); err != nil {
				t.Fatal(err)
			}
			golden(t, "sequences-"+c.name+".txt", b.Bytes())
			checkPrintable(t, b.String(), c.o)
		})
	}
}
