// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/requests"
)

// SequenceRow is one request on a sequence: a prompt with what followed it.
type SequenceRow struct {
	Request   *int64   `parquet:"request,optional" doc:"number in the run, from 1; null: the engine's warm-up"`
	PID       int64    `parquet:"pid"`
	Ctx       *uint64  `parquet:"ctx,optional" doc:"address of the engine context"`
	Seq       int64    `parquet:"seq" doc:"the sequence's number in its context: a server's slot"`
	FirstStep int64    `parquet:"first_step"`
	LastStep  int64    `parquet:"last_step"`
	Steps     int64    `parquet:"steps"`
	StartNs   int64    `parquet:"start_ns" doc:"of its first step"`
	EndNs     int64    `parquet:"end_ns" doc:"of its last step"`
	Prompt    *int64   `parquet:"prompt_tokens,optional" doc:"computed before the first logits; null: its begin was not seen"`
	Cached    *int64   `parquet:"cached_tokens,optional" doc:"positions before its first token: computed for an earlier request or another sequence"`
	Generated *int64   `parquet:"generated_tokens,optional"`
	AtLeast   bool     `parquet:"generated_at_least" doc:"there can be more: its begin, a batch in between or what was accepted last was not seen"`
	TTFTNs    *int64   `parquet:"ttft_ns,optional" doc:"from the start of its first step to the end of the first step that asks for its logits"`
	TPOTNs    *float64 `parquet:"tpot_ns,optional" doc:"from its first token to its last known one, by the tokens after the first"`
	TPOTP95Ns *float64 `parquet:"tpot_p95_ns,optional" doc:"over its tokens, within 1 %"`
	InStepsNs *int64   `parquet:"in_steps_ns,optional" doc:"part of the time from its first token to its last that lay in its own steps"`
	Rounds    *int64   `parquet:"rounds,optional" doc:"of speculative decoding; null: its context does not speculate"`
	Drafted   *int64   `parquet:"drafted_tokens,optional"`
	Accepted  *int64   `parquet:"accepted_tokens,optional" doc:"of the drafted ones less unseen_tokens"`
	Unseen    *int64   `parquet:"unseen_tokens,optional" doc:"drafted in rounds whose outcome was not seen"`
}

// RoundRow is one sequence's drafted tokens in one batch of the target.
type RoundRow struct {
	Step     int64   `parquet:"step" doc:"of the target, that verifies the tokens"`
	PID      int64   `parquet:"pid"`
	Ctx      *uint64 `parquet:"ctx,optional" doc:"address of the target's context"`
	DraftCtx *uint64 `parquet:"draft_ctx,optional" doc:"of the draft's; null: none was seen"`
	Seq      int64   `parquet:"seq"`
	Pos      *int64  `parquet:"pos,optional" doc:"position of the batch's first token of the sequence"`
	Drafted  int64   `parquet:"drafted"`
	Accepted *int64  `parquet:"accepted,optional" doc:"null: no batch followed that tells"`
	StartNs  int64   `parquet:"start_ns" doc:"of the step"`
	DurNs    int64   `parquet:"dur_ns" doc:"of the step, which other sequences can share"`
}

// mostSequences bounds the requests and the rounds in a table.
const mostSequences = 1 << 18

// sequences follows the requests for the tables that need them.
func (e *exporter) sequences() *requests.Builder {
	if e.requests == nil && (e.name == "sequences" || e.name == "rounds") {
		e.requests = requests.New(mostSequences)
		if e.name == "rounds" {
			e.requests.KeepRounds()
		}
	}
	return e.requests
}

// writeSequences writes the tables of requests and rounds.
func (e *exporter) writeSequences(h *profile.Header) error {
	b := e.sequences()
	s := b.Finish(h)
	if e.name == "rounds" {
		rounds, _ := b.Rounds()
		for i := range rounds {
			r := &rounds[i]
			if err := e.out.Write(&RoundRow{Step: r.Step, PID: int64(r.PID), Ctx: some(r.Ctx, 0),
				DraftCtx: some(r.DraftCtx, 0), Seq: int64(r.Seq),
				Pos: some(r.Pos, -1), Drafted: r.Drafted, Accepted: some(r.Accepted,
					-1), StartNs: r.Start, DurNs: r.Dur}); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range s.Requests {
		r := &s.Requests[i]
		if err := e.out.Write(&SequenceRow{Request: some(r.ID, 0), PID: int64(r.PID), Ctx: some(r.Ctx, 0),
			Seq: int64(r.Seq), FirstStep: r.Step, LastStep: r.LastStep,
			Steps: r.Steps, StartNs: r.Start, EndNs: r.End, Prompt: r.Prompt, Cached: r.Cached,
			Generated: r.Generated, AtLeast: r.AtLeast,
			TTFTNs: r.TTFT, TPOTNs: r.TPOT, TPOTP95Ns: r.P95, InStepsNs: when(r.TPOT != nil, r.InSteps),
			Rounds: r.Rounds, Drafted: r.Drafted, Accepted: r.Accepted, Unseen: r.Unseen}); err != nil {
			return err
		}
	}
	return nil
}
