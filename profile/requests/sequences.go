// SPDX-License-Identifier: Apache-2.0

// Package requests follows sequences through the steps of a server: requests, their time to first token and
// between tokens, and rounds of speculative decoding.
package requests

// MaxRequests bounds the requests that a Stat lists: beyond it, every second one is left out.
const MaxRequests = 4096

// Sequences describes the requests of a run, by sequence. Times are nanoseconds; a nil pointer is an unknown
// value.
//
// A request is a prompt on one sequence of one engine context with the tokens that follow it. Only batches
// are seen: positions, and how many logits each requests. A request begins where a sequence appears, where
// its positions fall back, and where a batch has more tokens than requested logits after the sequence had its
// first logits. It ends with the last batch before the next request on that sequence.
type Sequences struct {
	// Requests in the order of their begins. If there are too many, every Every-th of a context is listed;
	// Seen counts all but Warmups. Contexts that only draft have none.
	Requests []Request `json:"requests"`
	Every    int64     `json:"every"`
	Seen     int64     `json:"seen"`
	Warmups  int64     `json:"warmups"`
	// Sequences counts those that had a request; AtOnce is the most that shared a batch.
	Sequences int `json:"sequences"`
	AtOnce    int `json:"max_sequences_per_batch"`
	// Over the requests listed, without warm-ups; nil where no request has the figure.
	TTFT *Spread `json:"ttft"`
	TPOT *Spread `json:"tpot"` // of the requests' means
	// TTFTByPrompt is the same by classes of computed prompt tokens, the shortest first.
	TTFTByPrompt []PromptClass `json:"ttft_by_prompt"`
	// TokenGap is the inter-token latency, over the tokens of all requests.
	TokenGap *Spread `json:"itl"`
	// Speculation lists the contexts whose batches verify drafted tokens, the one with most rounds first.
	Speculation []Speculation `json:"speculation"`
	// relative error of the tokens' p95; those over requests are exact
	MaxError float64 `json:"quantile_max_error"`
}

// Request is a prompt with its answer, on one sequence.
type Request struct {
	ID       int64  `json:"id"` // number in the run by order of begin, from 1; 0: a warm-up
	PID      int32  `json:"pid"`
	Ctx      uint64 `json:"ctx"` // the engine context
	Seq      int32  `json:"seq"`
	Model    *int   `json:"model"` // index in Stat.Models; nil: unknown
	Step     int64  `json:"step"`  // first one
	LastStep int64  `json:"last_step"`
	Steps    int64  `json:"steps"`
	Start    int64  `json:"start_ns"` // of its first step, boottime
	// of its last step; a step ends when its results were there, where that was seen
	End int64 `json:"end_ns"`
	// Prompt is how many tokens were computed before the first logits. Cached is how many positions precede
	// them: computed for an earlier request, or for another sequence. nil: its begin was not seen.
	Prompt *int64 `json:"prompt"`
	Cached *int64 `json:"cached"`
	// TTFT is from the start of its first step to the end of the first step that requests its logits. It
	// excludes earlier queueing time. nil: its begin was not seen, or when its first logits were there, or it
	// got none.
	TTFT *int64 `json:"ttft_ns"`
	// Generated counts tokens: the one from the prompt's logits, and those that followed. AtLeast: there can
	// be more, because its begin, a batch in between or the last acceptance was not seen. nil: unknown.
	Generated *int64 `json:"generated"`
	AtLeast   bool   `json:"at_least"`
	// TPOT is the time from the first token to the last known one, divided by the tokens after the first. It
	// is measured between ends of steps, so it includes what the engine does between them (sampling, steps of
	// others). nil for fewer than two.
	TPOT *float64 `json:"tpot_ns"`
	P95  *float64 `json:"tpot_p95_ns"` // over its tokens
	// Tokens counts those after the first that TPOT is the mean of. InSteps is the part of their time in the
	// request's own steps.
	Tokens  int64 `json:"tokens"`
	InSteps int64 `json:"in_steps_ns"`
	// InShare is InSteps divided by that time; nil where TPOT is nil.
	InShare *float64 `json:"in_steps_share"`
	// Rounds counts those in which drafted tokens were verified; nil: the context does not speculate.
	// Accepted counts accepted tokens in rounds whose outcome was seen, Unseen the tokens drafted in the
	// others.
	Rounds   *int64 `json:"rounds"`
	Drafted  *int64 `json:"drafted"`
	Accepted *int64 `json:"accepted"`
	Unseen   *int64 `json:"unseen"`
	// Warmup: one or two tokens at position 0 that nothing followed, before all other requests of its
	// context. llama.cpp warms up like this. It is in no figure over requests.
	Warmup bool `json:"warmup"`
}

// Builder computes Sequences while a run is replayed into it. Its memory is bounded by the sequences in
// progress and by the requests that it may list.
type Builder struct{ Collector }

// New returns an empty builder that lists at most most requests, or rounds where KeepRounds is called; 0: as
// many as in a Stat.
func New(most int) *Builder {
	if most <= 0 {
		most = MaxRequests
	}
	b := &Builder{}
	b.Most = most
	return b
}
