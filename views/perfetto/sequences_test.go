// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"bytes"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// Each sequence has a track with its requests: the prompt until the first token, then the answer.
func TestRequests(t *testing.T) {
	draw := func(second bool) *checked {
		var b bytes.Buffer
		err := Export(&b, func(s profile.Sink) (*profile.Header, error) {
			id, now := int64(0), int64(1_000_000)
			step := func(dur int64, parts ...trace.StepSeq) {
				id++
				st := &profile.Step{ID: id, PID: 7, TID: 7, Ctx: 0xabc, Phase: profile.Decode, Start: now,
					Dur: dur, NTokens: int32(len(parts)), Seqs: parts}
				now += dur + 100
				if err := s.Step(st); err != nil {
					t.Fatal(err)
				}
			}
			step(1000, trace.StepSeq{Seq: 0, NTokens: 8, Outputs: 1})
			if second {
				step(500, trace.StepSeq{Seq: 0, NTokens: 1, Pos: 8, Outputs: 1},
					trace.StepSeq{Seq: 3, NTokens: 5, Outputs: 1})
			}
			step(200, trace.StepSeq{Seq: 0, NTokens: 1, Pos: 9, Outputs: 1})
			return &profile.Header{First: 1_000_000, Last: now}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return check(t, b.Bytes())
	}
	c := draw(true)
	for _, want := range []struct {
		track, name string
		start, dur  int64
		depth       int
	}{{"sequence 0", "request 1", 1_000_000, 1900, 0}, {"sequence 0", "prompt", 1_000_000, 1000,
		1}, {"sequence 0", "answer", 1_001_000, 900, 1},
		{"sequence 3", "request 2", 1_001_100, 500, 0}, {"sequence 3", "prompt", 1_001_100, 500, 1}} {
		found := false
		for _, s := range c.named(want.name) {
			if c.tracks[s.track].name == want.track {
				found = s.start == want.start && s.dur == want.dur && s.depth == want.depth &&
					s.cat == "request"
			}
		}
		if !found {
			t.Errorf("%+v is not among %+v", want, c.named(want.name))
		}
	}
	if r := c.named("request 1"); len(r) == 1 &&
		(r[0].notes["generated"] != "3" || r[0].notes["prompt"] != "8" || r[0].notes["ttft_ns"] != "1000" ||
			r[0].notes["tpot_ns"] != "450") {
		t.Errorf("%+v", r)
	}
	if n := len(draw(false).named("request 1")); n != 0 {
		t.Error("a single request has a track")
	}
}
