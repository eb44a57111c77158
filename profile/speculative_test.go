// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile/requests"
)

// What llama-speculative-simple does: the prompt without its last token in both contexts, then rounds of
// three drafted tokens, after each of which the draft's context takes what the target computed.
func speculative(p *batches, target, draft uint64, accepted ...int32) {
	p.step(target, 0, 100, q{0, 9, 0, 0})
	p.step(draft, 0, 20, q{0, 9, 0, 1})
	pos := int32(9)
	for _, a := range accepted {
		for i := range int32(3) {
			p.step(draft, 0, 10, q{0, 1, pos + i, 1})
		}
		p.step(target, 0, 50, q{0, 4, pos, 4})
		p.step(draft, 0, 5, q{0, 4, pos, 1})
		pos += a + 1
	}
}

func TestSpeculative(t *testing.T) {
	p, b := newBatches(t)
	b.KeepRounds()
	p.step(1, 0, 50, q{0, 2, 0, 1})
	p.step(2, 0, 50, q{0, 2, 0, 1})
	speculative(p, 1, 2, 3, 0, 2, 3, 1)
	s := b.Finish(launched)
	if len(s.Speculation) != 1 || s.Seen != 1 || s.Warmups != 1 || len(s.Requests) != 2 {
		t.Fatalf("%+v", s)
	}
	c := s.Speculation[0]
	if c.Ctx != 1 || c.DraftCtx == nil || *c.DraftCtx != 2 || c.Steps != 5 || c.Rounds != 5 ||
		c.Drafted != 15 || c.Seen != 4 || c.SeenDrafted != 12 || c.Accepted != 8 {
		t.Errorf("%+v", c)
	}
	// The first draft has the prompt's step before it, each other one what the target computed.
	if c.VerifyDur != 250 || *c.DraftDur != 50+4*35 || c.DraftSteps != 4*5 || !near(c.Rate, 8/12.) ||
		!near(c.TokensPerRound, 3) || !slices.Equal(c.ByAccepted, []int64{1, 0, 1, 2}) {
		t.Errorf("%+v", c)
	}
	r := &s.Requests[1]
	// Ten tokens of prompt, the last with the first drafted ones. Then 1+3 tokens, and 1, 3, 4 with 85 ns a
	// round; of the last round one is sure.
	wantRequest(t, r, 0, 10, 0, 4+1+3+4+1, 100+20+30+50, 3*85/11., 85)
	if !r.AtLeast || *r.Rounds != 5 || *r.Drafted != 15 || *r.Accepted != 8 || *r.Unseen != 3 ||
		r.Tokens != 11 || r.InSteps != 150 {
		t.Errorf("%+v", r)
	}
	rounds, dropped := b.Rounds()
	if len(rounds) != 5 || dropped != 0 {
		t.Fatalf("%+v", rounds)
	}
	for i, want := range []int64{3, 0, 2, 3, -1} {
		if x := rounds[i]; x.Accepted != want || x.Drafted != 3 || x.Ctx != 1 || x.DraftCtx != 2 ||
			x.Dur != 50 {
			t.Errorf("round %d: %+v, want %d accepted", i, x, want)
		}
	}
}

// A server's slots speculate in one batch; drafts can be short, or none.
func TestSpeculativeSlots(t *testing.T) {
	p, b := newBatches(t)
	p.step(1, 0, 100, q{0, 8, 0, 1}, q{1, 6, 0, 1})
	p.step(2, 0, 10, q{0, 8, 0, 0}, q{1, 6, 0, 1})
	p.step(2, 0, 10, q{0, 1, 8, 1}, q{1, 1, 6, 1})
	p.step(2, 0, 10, q{0, 1, 9, 1})
	p.step(1, 0, 40, q{0, 3, 8, 3}, q{1, 2, 6, 2}) // 2 and 1 drafted
	p.step(2, 0, 10, q{0, 3, 8, 0}, q{1, 2, 6, 1})
	p.step(2, 0, 10, q{0, 1, 9, 1}, q{1, 1, 8, 1})
	p.step(1, 0, 40, q{0, 2, 9, 2}, q{1, 2, 8, 2}) // 0 and 1 accepted
	p.step(2, 0, 10, q{0, 2, 9, 0}, q{1, 2, 8, 1})
	p.step(1, 0, 30, q{0, 1, 11, 1}, q{1, 1, 9, 1}) // 1 and 0; no draft
	p.step(1, 0, 60, q{0, 5, 4, 1})                 // the next request
	s := b.Finish(launched)
	if len(s.Speculation) != 1 || s.Seen != 3 {
		t.Fatalf("%+v", s)
	}
	c := s.Speculation[0]
	if c.Steps != 2 || c.Rounds != 4 || c.Seen != 4 || c.Drafted != 5 || c.Accepted != 2 ||
		!slices.Equal(c.ByAccepted, []int64{2, 2}) || *c.DraftDur != 30+20 {
		t.Errorf("%+v", c)
	}
	wantRequest(t, &s.Requests[0], 0, 8, 0, 5, 100, 170/4., 70)
	wantRequest(t, &s.Requests[1], 1, 6, 0, 5, 100, 170/4., 60)
	wantRequest(t, &s.Requests[2], 0, 5, 4, 1, 60, -1, -1)
	for i, r := range s.Requests[:2] {
		if r.AtLeast || *r.Rounds != 2 || *r.Unseen != 0 || *r.Accepted != 1 {
			t.Errorf("%d: %+v", i, r)
		}
	}
}

// Without a context that drafts, what was not accepted tells that there were drafts; a program that wants all
// logits of a text does not speculate.
func TestSpeculativeWithoutDraft(t *testing.T) {
	p, b := newBatches(t)
	p.step(1, 0, 100, q{0, 7, 0, 1})
	p.step(1, 0, 50, q{0, 1, 7, 1}) // its own decoding makes no draft of it
	p.step(1, 0, 50, q{0, 4, 8, 4})
	p.step(1, 0, 50, q{0, 4, 10, 4})
	p.step(1, 0, 50, q{0, 1, 14, 1})
	s := b.Finish(launched)
	if len(s.Speculation) != 1 || s.Speculation[0].DraftCtx != nil || s.Speculation[0].DraftDur != nil ||
		s.Speculation[0].Accepted != 1+3 {
		t.Fatalf("%+v", s)
	}
	wantRequest(t, &s.Requests[0], 0, 7, 0, 1+1+2+4+1, 100, 200/8., 50)

	p, b = newBatches(t)
	for i := range int32(4) {
		p.step(1, 0, 100, q{0, 256, i * 256, 256})
	}
	s = b.Finish(launched)
	if len(s.Speculation) != 0 || len(s.Requests) != 1 {
		t.Fatalf("%+v", s)
	}
	wantRequest(t, &s.Requests[0], 0, 256, 0, -1, 100, -1, -1)
	if s.Requests[0].Rounds != nil || s.TPOT != nil || s.TokenGap != nil {
		t.Errorf("%+v", s)
	}

	// Its own decoding between them drafts nothing either.
	p, b = newBatches(t)
	p.step(1, 0, 100, q{0, 7, 0, 1})
	for i := range int32(3) {
		p.step(1, 0, 50, q{0, 1, 7 + 5*i, 1})
		p.step(1, 0, 50, q{0, 4, 8 + 5*i, 4})
	}
	if s = b.Finish(launched); len(s.Speculation) != 0 {
		t.Errorf("%+v", s)
	}

	// Two contexts that compute texts and answers in turn: nothing was drafted.
	p, b = newBatches(t)
	for i := range int32(8) {
		p.step(1, 0, 100, q{0, 256, i * 256, 256})
		if i%4 == 3 {
			p.step(2, 0, 10, q{0, 1, i, 1})
		}
	}
	if s = b.Finish(launched); len(s.Speculation) != 0 {
		t.Errorf("%+v", s)
	}
}

// Models whose state cannot be wound back compute once more what was accepted; a batch that was not seen
// leaves the outcome open.
func TestSpeculativeAgain(t *testing.T) {
	p, b := newBatches(t)
	p.step(1, 0, 100, q{0, 8, 0, 1})
	p.step(1, 0, 50, q{0, 4, 8, 4})
	p.step(1, 0, 50, q{0, 2, 8, 2}) // again, with one of the three
	p.step(1, 0, 50, q{0, 4, 10, 4})
	p.step(1, 0, 50, q{0, 4, 12, 4})
	p.step(1, 0, 50, q{0, 1, 20, 1})
	s := b.Finish(launched)
	c := s.Speculation[0]
	if c.Rounds != 3 || c.Seen != 2 || c.Drafted != 9 || c.Accepted != 1+1 || c.Steps != 3 || c.Again != 1 ||
		c.VerifyDur != 200 {
		t.Errorf("%+v", c)
	}
	r := &s.Requests[0]
	if !r.AtLeast || r.TPOT != nil || told(r.Generated) != 1+2+2+1+1 || *r.Unseen != 3 {
		t.Errorf("%+v", r)
	}
}

// A batch that is computed again ends its round later, and the draft's time goes on over it.
func TestSpeculativeAgainWithDraft(t *testing.T) {
	p, b := newBatches(t)
	b.KeepRounds()
	p.step(1, 0, 100, q{0, 8, 0, 1})
	for i := range int32(2) {
		p.step(2, 0, 10, q{0, 1, 8 + 2*i, 1})
		p.step(1, 0, 50, q{0, 4, 8 + 2*i, 4})
		p.step(2, 0, 7, q{0, 4, 8 + 2*i, 1})
		p.step(1, 0, 30, q{0, 2, 8 + 2*i, 2})
		p.step(2, 0, 5, q{0, 2, 8 + 2*i, 1})
	}
	p.step(1, 0, 20, q{0, 1, 12, 1})
	s := b.Finish(launched)
	c := s.Speculation[0]
	if c.Steps != 2 || c.Again != 2 || c.VerifyDur != 160 || *c.DraftDur != 10+7+5+10 || c.Accepted != 2 ||
		c.Drafted != 6 {
		t.Errorf("%+v, draft %d", c, *c.DraftDur)
	}
	// 97 and 102 ns for two tokens each, to the end of what was computed again, and 25 for one.
	wantRequest(t, &s.Requests[0], 0, 8, 0, 6, 100, (97+102+25)/5., 51)
	if r, _ := b.Rounds(); len(r) != 2 || r[0].Dur != 30 || r[0].Accepted != 1 {
		t.Errorf("%+v", r)
	}
	// A position behind what was computed again is not its outcome.
	p, b = newBatches(t)
	p.step(1, 0, 100, q{0, 8, 0, 1})
	p.step(1, 0, 50, q{0, 4, 8, 4})
	p.step(1, 0, 50, q{0, 2, 8, 2})
	p.step(1, 0, 50, q{0, 4, 11, 4})
	p.step(1, 0, 50, q{0, 1, 12, 1})
	if c := b.Finish(launched).Speculation[0]; c.Seen != 1 || c.Rounds != 2 {
		t.Errorf("%+v", c)
	}
}

// The guesses of a context that drafts are dropped while the run goes on: they do not crowd out requests.
func TestSpeculativeLong(t *testing.T) {
	b := requests.New(64)
	p := &batches{t: t, sink: b}
	for range 60 {
		speculative(p, 1, 2, 3, 0, 2, 1, 3, 3, 1)
	}
	s := b.Finish(launched)
	if s.Every != 1 || len(s.Requests) != 60 || s.Seen != 60 {
		t.Errorf("%d requests, each %d-th of %d", len(s.Requests), s.Every, s.Seen)
	}
	if c := s.Speculation[0]; c.Rounds != 60*7 || c.Seen != 60*6 || c.Accepted != 60*12 {
		t.Errorf("%+v", c)
	}
}
