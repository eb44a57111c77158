// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/num"
)

// Speculation is what speculative decoding did in one context, the target: a draft guesses the next tokens of
// a sequence, and one batch of the target verifies them. Such a batch has several tokens of a sequence and
// requests the logits of each. How many were accepted follows from the position of the sequence's next batch:
//
//	accepted = next position - position - 1
//
// So it is unknown for the last round of a request. A context speculates if another one decodes between its
// batches, or if some tokens were not accepted: otherwise nothing distinguishes such batches from those of
// programs that want the logits of a whole text.
type Speculation struct {
	PID   int32  `json:"pid"`
	Ctx   uint64 `json:"ctx"`
	Model *int   `json:"model"`
	// DraftCtx is the context that drafts; nil: none was seen, the tokens are guessed in another way (from
	// the text so far).
	DraftCtx   *uint64 `json:"draft_ctx"`
	DraftModel *int    `json:"draft_model"`

	// A round is one sequence's drafted tokens in one batch; Steps counts the batches. Again counts batches
	// that only computed again what was accepted, as happens with models whose state cannot be rolled back by
	// a token.
	Steps  int64 `json:"steps"`
	Again  int64 `json:"recomputed_steps"`
	Rounds int64 `json:"rounds"`
	// Drafted counts all tokens verified. Accepted counts those of the Seen rounds, which verified
	// SeenDrafted.
	Drafted     int64 `json:"drafted"`
	Seen        int64 `json:"rounds_seen"`
	SeenDrafted int64 `json:"seen_drafted"`
	Accepted    int64 `json:"accepted"`
	// Rate is Accepted / SeenDrafted; TokensPerRound is the yield of a round: the accepted tokens and the one
	// that the target samples after them.
	Rate           *float64 `json:"accepted_share"`
	TokensPerRound *float64 `json:"tokens_per_round"`
	// ByAccepted[k] counts the rounds seen that accepted k tokens; the last element is for k or more.
	ByAccepted []int64 `json:"by_accepted"`

	// VerifyDur is the time of the Steps and of the Again steps. DraftDur is that of the draft's steps
	// between the target's previous step and each of them, DraftSteps their number.
	VerifyDur  int64  `json:"verify_ns"`
	DraftDur   *int64 `json:"draft_ns"`
	DraftSteps int64  `json:"draft_steps"`
}

// Round is one sequence's drafted tokens in one batch of the target.
type Round struct {
	Step     int64 // the verifying step
	PID      int32
	Ctx      uint64
	DraftCtx uint64 // 0: none was seen
	Seq      int32
	Pos      int64 // of the batch's first token
	Drafted  int64
	Accepted int64 // -1: not seen
	Start    int64 // of the step, ns, boottime; if it was computed again, of that step
	Dur      int64
}

const (
	// maxByAccepted bounds Speculation.ByAccepted.
	maxByAccepted = 17
	// maxContexts bounds the contexts followed.
	maxContexts = 1 << 10
	// maxContextsOf bounds the contexts of a process among which a draft is searched.
	maxContextsOf = 16
)

// speculation is what is known of a context's rounds so far.
type speculation struct {
	Speculation
	rewinds int64 // rounds that were not fully accepted
	rounds  []Round
	dropped int64
	drafts  map[*contextSum]*draftSum
	at      []contextAt // the process's contexts at the last step of this one
	over    verifiedSteps
}

// draftSum is what a context did before verifying steps.
type draftSum struct{ rounds, steps, dur int64 }

// contextAt is how far a context had come.
type contextAt struct {
	ctx *contextSum
	contextSums
}

// verified counts a batch of the target that verifies drafted tokens.
func (c *contextSum) verified(s *profile.Step, p *processSum, keep bool) {
	c.spec.Steps++
	c.spec.VerifyDur += s.Dur
	if keep {
		c.spec.over.add(s)
	}
	for _, d := range p.contexts {
		if d == c || d.decodes == 0 {
			continue
		}
		var before contextSums
		if i := slices.IndexFunc(c.spec.at, func(a contextAt) bool { return a.ctx == d }); i >= 0 {
			before = c.spec.at[i].contextSums
		}
		if d.decodes == before.decodes {
			continue
		}
		if c.spec.drafts == nil {
			c.spec.drafts = map[*contextSum]*draftSum{}
		}
		e := c.spec.drafts[d]
		if e == nil {
			e = &draftSum{}
			c.spec.drafts[d] = e
		}
		e.rounds++
		e.steps += d.steps - before.steps
		e.dur += d.dur - before.dur
		c.spec.over.draft(d, d.dur-before.dur)
	}
}

// mark notes how far the other contexts of the process have come.
func (c *contextSum) mark(p *processSum) {
	c.spec.at = c.spec.at[:0]
	for _, d := range p.contexts {
		if d != c {
			c.spec.at = append(c.spec.at, contextAt{d, d.contextSums})
		}
	}
}

// draft returns the context that drafts for this one: the one that decoded before most of the verifying
// steps, and before at least half of them. nil: there is none.
func (c *contextSum) draft() (*contextSum, *draftSum) {
	var best *contextSum
	for d, e := range c.spec.drafts {
		if 2*e.rounds < c.spec.Steps || d.spec.Steps > 0 && d.spec.rewinds > 0 {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(e.rounds, c.spec.drafts[best].rounds),
			cmp.Compare(best.number, d.number)) > 0 {
			best = d
		}
	}
	return best, c.spec.drafts[best]
}

// speculates reports whether the batches with several logits were drafts.
func (c *contextSum) speculates() bool {
	if c.spec.Steps == 0 {
		return false
	}
	d, _ := c.draft()
	return d != nil || c.spec.rewinds > 0
}

// round handles a round whose outcome is known; accepted is -1 where it is not.
func (b *Collector) round(c *contextSum, e *openRequest, accepted int64) {
	r := e.round
	e.round = Round{}
	r.Accepted = accepted
	c.spec.Rounds++
	c.spec.Drafted += r.Drafted
	*e.Rounds++
	*e.Drafted += r.Drafted
	if accepted < 0 {
		*e.Unseen += r.Drafted
	} else {
		*e.Accepted += accepted
		c.spec.Seen++
		c.spec.SeenDrafted += r.Drafted
		c.spec.Accepted += accepted
		if c.spec.ByAccepted == nil {
			c.spec.ByAccepted = make([]int64, maxByAccepted)
		}
		c.spec.ByAccepted[min(accepted, maxByAccepted-1)]++
		if accepted < r.Drafted {
			c.spec.rewinds++
		}
	}
	c.spec.over.round(e.at, &r)
	if !b.keepRounds {
		return
	}
	if len(c.spec.rounds) >= b.Most {
		c.spec.dropped++
		return
	}
	c.spec.rounds = append(c.spec.rounds, r)
}

// speculation completes the figures of a context that speculates.
func (c *contextSum) speculation(models *facts.Book) Speculation {
	s := c.spec.Speculation
	s.PID, s.Ctx = c.pid, c.ctx
	s.Model = models.IndexOf(c.model)
	if d, sum := c.draft(); d != nil {
		s.DraftCtx, s.DraftModel = &d.ctx, models.IndexOf(d.model)
		s.DraftSteps, s.DraftDur = sum.steps, &sum.dur
	}
	s.Rate = num.Share(s.Accepted, s.SeenDrafted)
	s.TokensPerRound = num.Share(s.Accepted+s.Seen, s.Seen)
	last := 0
	for k, n := range s.ByAccepted {
		if n > 0 {
			last = k + 1
		}
	}
	s.ByAccepted = num.List(s.ByAccepted[:last])
	return s
}
