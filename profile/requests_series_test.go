// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"testing"

	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/profile/series"
)

// both plays steps into the series and into what Stat has of requests.
func both(t *testing.T, play func(*batches)) (*series.Series, *requests.Sequences) {
	t.Helper()
	s, q := series.New(nil), requests.New(0)
	play(&batches{t: t, sink: s, now: 1000})
	play(&batches{t: t, sink: q, now: 1000})
	return s.Finish(launched), q.Finish(launched)
}

// Each step that verifies is a point, and their sums are what Speculation says.
func TestRequestSeriesOfSpeculation(t *testing.T) {
	s, all := both(t, func(p *batches) {
		p.step(1, 0, 50, q{0, 2, 0, 1})
		p.step(2, 0, 50, q{0, 2, 0, 1})
		speculative(p, 1, 2, 3, 0, 2, 3, 1)
	})
	if len(s.Requests.Speculation) != 1 || len(all.Speculation) != 1 {
		t.Fatalf("%+v", s.Requests)
	}
	x := s.Requests.Speculation[0]
	if x.Ctx != 1 || x.PID != 7 || x.StepsPerPoint != 1 || len(x.Points) != 5 {
		t.Fatalf("%+v", x)
	}
	// As on paper: the first draft has its prompt's step before it, 20 and three of 10; others 5 for what the
	// target computed.
	want := [][5]float64{{3, 3, 1, 4, 50}, {0, 3, 0, 1, 35}, {2, 3, 2. / 3, 3, 35}, {3, 3, 1, 4, 35},
		{0, 0, -1, -1, 35}}
	for i, w := range want {
		p := x.Points[i]
		got := [5]float64{float64(p.Accepted), float64(p.SeenDrafted), told(p.Rate), told(p.TokensPerRound),
			told(p.Draft)}
		if got != w || p.Steps != 1 || p.Rounds != 1 || p.Verify != 50 || p.Step != p.LastStep ||
			p.End != p.Start+50 {
			t.Errorf("point %d: %+v is %v, want %v", i, p, got, w)
		}
	}
	// Two neighbours on each side; the last round, which was not seen, counts nowhere.
	for i, w := range []float64{5 / 9., 8 / 12., 8 / 12., 5 / 9., 5 / 6.} {
		if !near(x.Points[i].Near, w) {
			t.Errorf("around point %d: %v, want %v", i, told(x.Points[i].Near), w)
		}
	}
	sumsUp(t, &x, &all.Speculation[0])
	// The one request's mean, and its tokens' gaps: three rounds of 85 ns gave 1, 3 and 4 tokens, the first 3
	// with the prompt's.
	if d := s.Requests.TPOT; d == nil || d.N != 1 || d.Min != 3*85/11 {
		t.Errorf("TPOT: %+v", d)
	}
	if d := s.Requests.TokenGap; d == nil || d.N != 8 || d.Min != 85/4 || d.Max != 85 ||
		d.N != all.TokenGap.N || d.Max != int64(all.TokenGap.Max) {
		t.Errorf("token gaps: %+v, %+v", d, all.TokenGap)
	}
}

// sumsUp checks that the points' sums are the context's figures.
func sumsUp(t *testing.T, x *requests.SpeculationSeries, c *requests.Speculation) {
	t.Helper()
	var s requests.SpeculationPoint
	draft := int64(0)
	for i := range x.Points {
		p := &x.Points[i]
		s.Steps += p.Steps
		s.Rounds += p.Rounds
		s.Seen += p.Seen
		s.SeenDrafted += p.SeenDrafted
		s.Accepted += p.Accepted
		s.Verify += p.Verify
		if p.Draft != nil {
			draft += *p.Draft
		}
		if i > 0 && p.Step <= x.Points[i-1].LastStep {
			t.Errorf("point %d begins with step %d, the one before ends with %d", i, p.Step,
				x.Points[i-1].LastStep)
		}
	}
	if s.Steps != c.Steps || s.Rounds != c.Rounds || s.Seen != c.Seen || s.SeenDrafted != c.SeenDrafted ||
		s.Accepted != c.Accepted || s.Verify != c.VerifyDur {
		t.Errorf("the points sum up to %+v, the context has %+v", s, c)
	}
	if c.DraftDur != nil && draft != *c.DraftDur || c.DraftDur == nil && draft != 0 {
		t.Errorf("the points have %d ns of the draft, the context %v", draft, told(c.DraftDur))
	}
}

// Long runs are thinned, and nothing of them is lost; rounds whose outcome comes later go to the point of
// their step, in batches of several sequences too, and what is computed again belongs to the step before it.
func TestRequestSeriesThinned(t *testing.T) {
	const rounds = 3000
	s, all := both(t, func(p *batches) {
		p.step(1, 0, 100, q{0, 8, 0, 1}, q{1, 6, 0, 1})
		pos := [2]int32{8, 6}
		for i := range int32(rounds) {
			p.step(2, 1, 10, q{0, 1, pos[0], 1}, q{1, 1, pos[1], 1})
			if i%3 == 1 { // somebody else's: too seldom for a draft
				p.step(3, 1, 1000, q{0, 1, i, 1})
			}
			if i%2 == 1 { // the second sequence rests in each second step: its outcome comes a step later
				p.step(1, 1, 40, q{0, 3, pos[0], 3}, q{1, 2, pos[1], 2})
				pos[1] += 1 + i/2%2
			} else {
				p.step(1, 1, 40, q{0, 3, pos[0], 3})
			}
			if i%7 == 3 { // what was accepted is computed once more
				p.step(1, 1, 5, q{0, 2, pos[0], 2})
				pos[0] += 2
			} else {
				pos[0] += 1 + i%3
			}
		}
	})
	x := s.Requests.Speculation[0]
	if len(x.Points) > 512 || len(x.Points) < 256 || x.StepsPerPoint != 8 {
		t.Fatalf("%d points of %d steps", len(x.Points), x.StepsPerPoint)
	}
	for i, p := range x.Points[:len(x.Points)-1] {
		if p.Steps != x.StepsPerPoint || 2*p.Rounds != 3*p.Steps || p.Seen != p.Rounds ||
			*p.Draft != 10*p.Steps {
			t.Fatalf("point %d: %+v", i, p)
		}
	}
	c := all.Speculation[0]
	// The first point: 0, 1, 2 accepted in turn, but 1 in the fourth step; of the second sequence 0 and 1.
	if p := x.Points[0]; p.Accepted != 0+1+2+1+1+2+0+1+0+1+0+1 || p.SeenDrafted != 8*2+4 ||
		p.Verify != 8*40+5 {
		t.Errorf("%+v", p)
	}
	if c.Steps != rounds || c.Again == 0 || c.DraftDur == nil {
		t.Fatalf("%+v", c)
	}
	sumsUp(t, &x, &c)
}

// Without a draft its time is not known, and without speculation there is nothing; the tokens of several
// requests are in one distribution, those of a text's logits in none.
func TestRequestSeriesWithoutDraft(t *testing.T) {
	s, all := both(t, func(p *batches) {
		p.step(1, 0, 100, q{0, 7, 0, 1})
		p.step(1, 0, 50, q{0, 4, 7, 4})
		p.step(1, 0, 50, q{0, 4, 9, 4})
		p.step(1, 0, 50, q{0, 1, 13, 1})
	})
	x := s.Requests.Speculation[0]
	if len(x.Points) != 2 || x.Points[0].Draft != nil || x.Points[0].Accepted != 1 ||
		x.Points[1].Accepted != 3 {
		t.Errorf("%+v", x)
	}
	sumsUp(t, &x, &all.Speculation[0])

	s, _ = both(t, func(p *batches) {
		for i := range int32(4) {
			p.step(1, 0, 100, q{0, 256, i * 256, 256})
		}
	})
	if r := s.Requests; len(r.Speculation) != 0 || r.TPOT != nil || r.TokenGap != nil {
		t.Errorf("%+v", r)
	}

	s, all = both(t, func(p *batches) {
		p.step(1, 0, 100, q{0, 10, 0, 1}, q{1, 5, 0, 1})
		p.step(1, 0, 30, q{0, 1, 10, 1}, q{1, 1, 5, 1})
		p.step(3, 0, 500, q{0, 10, 0, 1}) // another context
		p.step(3, 0, 7, q{0, 1, 10, 1})
		p.step(1, 3, 30, q{0, 1, 11, 1})
	})
	if d := s.Requests.TokenGap; d.N != 4 || d.Min != 7 || d.Max != 540 || d.Mean != (30+30+7+540)/4. ||
		d.N != all.TokenGap.N || d.Mean != *all.TokenGap.Mean {
		t.Errorf("token gaps: %+v, %+v", d, all.TokenGap)
	}
	// A third and 570 / 2 by two requests, 7 by the third.
	if d := s.Requests.TPOT; d.N != 3 || d.Min != 7 || d.Max != 285 {
		t.Errorf("TPOT: %+v", d)
	}
	// In its steps: 60 of 570 ns.
	if v := all.Requests[0].InShare; !near(v, 60./570) {
		t.Errorf("in steps: %v", told(v))
	}
	if len(all.Requests) != 3 || all.Requests[2].InShare == nil {
		t.Errorf("%+v", all.Requests)
	}
}
