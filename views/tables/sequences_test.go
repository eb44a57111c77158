// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

// speculative is a recording of two contexts of which one drafts for the other, which accepts 2 of 3 tokens.
func speculative(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	err := profiletest.Record(&buf, func(r *profiletest.Recorder) {
		r.Level = "step"
	}, func(r *profiletest.Recorder, _ *profiletest.Player) error {
		now := int64(1000)
		step := func(ctx uint64, n, pos, out int32) error {
			now += 100
			return r.Step(&profile.Step{PID: 100, TID: 100, Ctx: ctx, Start: now, Dur: 90, NTokens: n,
				Seqs: []trace.StepSeq{{Time: now, TID: 100, NTokens: n, Pos: pos, Outputs: out}}})
		}
		for _, s := range []struct {
			ctx         uint64
			n, pos, out int32
		}{{1, 8, 0, 1}, {2, 8, 0, 1}, {2, 1, 8, 1}, {2, 1, 9, 1}, {2, 1, 10, 1}, {1, 4, 8, 4}, {2, 4, 8,
			1}, {2, 1, 11, 1}, {1, 2, 11, 2}} {
			if err := step(s.ctx, s.n, s.pos, s.out); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestRounds(t *testing.T) {
	got := rows(t, export(t, speculative(t), "rounds", "ndjson"))
	if len(got) != 2 {
		t.Fatalf("%v", got)
	}
	for i, want := range []map[string]any{
		{"step": 6, "pid": 100, "ctx": 1, "draft_ctx": 2, "seq": 0, "pos": 8, "drafted": 3, "accepted": 2,
			"start_ns": 1600, "dur_ns": 90},
		{"step": 9, "pid": 100, "ctx": 1, "draft_ctx": 2, "seq": 0, "pos": 11, "drafted": 1, "accepted": nil,
			"start_ns": 1900, "dur_ns": 90},
	} {
		for k, v := range want {
			if fmt.Sprint(got[i][k]) != fmt.Sprint(v) {
				t.Errorf("round %d: %s is %v, want %v", i, k, got[i][k], v)
			}
		}
	}
	q := rows(t, export(t, speculative(t), "sequences", "ndjson"))
	if len(q) != 1 {
		t.Fatalf("%v", q)
	}
	for k, v := range map[string]any{"accepted_tokens": 2, "unseen_tokens": 1, "generated_tokens": 5,
		"generated_at_least": true, "ttft_ns": 90, "tpot_ns": 500 / 3.} {
		if fmt.Sprint(q[0][k]) != fmt.Sprint(v) {
			t.Errorf("%s is %v, want %v", k, q[0][k], v)
		}
	}
}
