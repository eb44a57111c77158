// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
)

// batches plays steps into a sink, one after the other.
type batches struct {
	t    *testing.T
	sink profile.Sink
	id   int64
	now  int64
}

// q is one sequence's part of a batch: n tokens from a position on, and for how many logits are asked.
type q struct{ seq, n, pos, out int32 }

// step computes a batch in a context for dur ns, after a pause.
func (b *batches) step(ctx uint64, pause, dur int64, parts ...q) *profile.Step {
	b.t.Helper()
	b.now += pause
	b.id++
	s := &profile.Step{ID: b.id, PID: 7, TID: 7, Ctx: ctx, Phase: profile.Decode, Start: b.now, Dur: dur,
		Graphs: 1, NSeqs: int32(len(parts))}
	for _, p := range parts {
		s.NTokens += p.n
		if p.n > 1 {
			s.Phase = profile.Prefill
		}
		s.Seqs = append(s.Seqs, trace.StepSeq{Seq: p.seq, NTokens: p.n, Pos: p.pos, Outputs: p.out})
	}
	b.now += dur
	if err := b.sink.Step(s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

func newBatches(t *testing.T) (*batches, *requests.Builder) {
	b := requests.New(0)
	return &batches{t: t, sink: b, now: 1000}, b
}

var launched = &profile.Header{Meta: trace.Meta{Command: []string{"llama-server"}}}

func told[T int64 | float64](p *T) float64 {
	if p == nil {
		return -1
	}
	return float64(*p)
}

// wantRequest compares a request: prompt, cached, generated, TTFT, TPOT and p95; -1: not known.
func wantRequest(t *testing.T, r *requests.Request, seq int32, prompt, cached, generated, ttft, tpot,
	p95 float64) {
	t.Helper()
	got := [...]float64{told(r.Prompt), told(r.Cached), told(r.Generated), told(r.TTFT), told(r.TPOT)}
	exp := [...]float64{prompt, cached, generated, ttft, tpot}
	if r.Seq != seq || got != exp {
		t.Errorf("request %d on sequence %d: prompt, cached, generated, TTFT, TPOT are %v, want %v on sequence %d", r.ID, r.Seq, got, exp, seq)
	}
	if p := told(r.P95); max(p-p95, p95-p) > 0.01*max(0, p95) {
		t.Errorf("request %d: p95 is %v, want %v", r.ID, p, p95)
	}
}

// A server with slots: one prompt alone, two that join while the first is decoded, and the first slot's next
// request with a prompt of which a part is cached.
func TestSequencesOfServer(t *testing.T) {
	p, b := newBatches(t)
	p.step(1, 0, 50, q{0, 2, 0, 1}) // warm-up
	p.step(1, 0, 100, q{0, 10, 0, 1})
	p.step(1, 10, 200, q{0, 1, 10, 1}, q{1, 20, 0, 0}, q{2, 5, 0, 1})
	p.step(1, 10, 90, q{0, 1, 11, 1}, q{1, 4, 20, 1}, q{2, 1, 5, 1})
	p.step(1, 10, 40, q{0, 1, 12, 1}, q{1, 1, 24, 1}, q{2, 1, 6, 1})
	p.step(1, 10, 40, q{1, 1, 25, 1}, q{2, 1, 7, 1})
	p.step(1, 100, 60, q{0, 3, 8, 1})
	p.step(1, 10, 30, q{0, 1, 11, 1})
	s := b.Finish(launched)
	if s.Seen != 4 || s.Warmups != 1 || len(s.Requests) != 5 || s.Sequences != 3 || s.AtOnce != 3 ||
		len(s.Speculation) != 0 {
		t.Fatalf("%+v", s)
	}
	r := s.Requests
	if !r[0].Warmup || r[0].ID != 0 {
		t.Errorf("the warm-up is %+v", r[0])
	}
	// 0: first token at the end of the second step; then 210, 100 and 50 ns later.
	wantRequest(t, &r[1], 0, 10, 0, 4, 100, 120, 210)
	// 1: its prompt lies in two steps, 200 + 10 + 90; then 50 and 50.
	wantRequest(t, &r[2], 1, 24, 0, 3, 300, 50, 50)
	wantRequest(t, &r[3], 2, 5, 0, 4, 200, 200./3, 100)
	wantRequest(t, &r[4], 0, 3, 8, 2, 60, 40, 40)
	if r[1].ID != 1 || r[4].ID != 4 || r[1].Step != 2 || r[1].LastStep != 5 || r[1].Steps != 4 ||
		r[1].InSteps != 200+90+40 || r[1].Tokens != 3 {
		t.Errorf("%+v", r[1])
	}
	if d := s.TTFT; d.N != 4 || d.Mean != nil || d.P50 != 100 || d.P95 != nil || d.Max != 300 {
		t.Errorf("TTFT %+v", d)
	}
	if d := s.TPOT; d.N != 4 || d.Max != 120 || d.P50 != 50 {
		t.Errorf("TPOT %+v", d)
	}
	if d := s.TokenGap; d.N != 3+2+3+1 || d.Max != 210 || !near(d.Mean, (360+100+200+40)/9.) {
		t.Errorf("between tokens %+v", d)
	}
	for i := range r {
		if r[i].AtLeast || r[i].Rounds != nil {
			t.Errorf("%+v", r[i])
		}
	}
}

// What a recording that began later can say of the begins: nothing of what was under way, all of what came
// while a batch was seen that had room.
func TestSequencesAttached(t *testing.T) {
	play := func(h *profile.Header) []requests.Request {
		p, b := newBatches(t)
		p.step(1, 0, 100, q{0, 1, 30, 1}, q{1, 8, 64, 0}) // under way: a decode and the middle of a prompt
		p.step(1, 0, 100, q{0, 1, 31, 1}, q{1, 8, 72, 1})
		p.step(1, 0, 100, q{0, 1, 32, 1}, q{1, 1, 80, 1})
		p.step(1, 0, 100, q{2, 4, 16, 1}) // cached by a request that was not seen
		p.step(1, 0, 100, q{2, 1, 20, 1})
		p.step(1, 0, 100, q{0, 2, 20, 1})
		return b.Finish(h).Requests
	}
	r := play(&profile.Header{})
	wantRequest(t, &r[0], 0, -1, -1, 3, -1, 100, 100)
	wantRequest(t, &r[1], 1, -1, -1, 2, -1, 100, 100)
	wantRequest(t, &r[2], 2, 4, 16, 2, 100, 100, 100)
	wantRequest(t, &r[3], 0, 2, 20, 1, 100, -1, -1)
	if !r[0].AtLeast || !r[1].AtLeast || r[2].AtLeast {
		t.Errorf("at least: %+v", r)
	}
	// Where the process began under the recording, a prompt at a later position is whole (its first part was
	// computed for another sequence); of a single token that is not sure.
	r = play(launched)
	wantRequest(t, &r[0], 0, -1, -1, 3, -1, 100, 100)
	wantRequest(t, &r[1], 1, 16, 64, 2, 200, 100, 100)

	// What looks like a warm-up is a request to one who came later.
	p, b := newBatches(t)
	p.step(1, 0, 100, q{0, 2, 0, 1})
	p.step(1, 0, 100, q{0, 9, 0, 1})
	p.step(1, 0, 100, q{0, 2, 0, 1}) // no warm-up: another request came before
	if s := b.Finish(&profile.Header{}); s.Seen != 3 || s.Warmups != 0 || s.Requests[0].ID != 1 ||
		s.TTFT.N != 3 {
		t.Errorf("%+v", s)
	}
	p, b = newBatches(t)
	p.step(1, 0, 100, q{0, 2, 0, 1})
	p.step(1, 0, 100, q{0, 9, 0, 1})
	p.step(1, 0, 100, q{0, 2, 0, 1})
	if s := b.Finish(launched); s.Seen != 2 || s.Warmups != 1 || s.TTFT.N != 2 {
		t.Errorf("%+v", s)
	}
}

// Batches that were not seen, calls that failed, requests without an answer.
func TestSequencesGaps(t *testing.T) {
	p, b := newBatches(t)
	p.step(1, 0, 100, q{0, 8, 0, 1})
	p.step(1, 0, 100, q{0, 1, 8, 1})
	p.step(1, 300, 100, q{0, 1, 12, 1}) // three are missing
	p.step(1, 0, 100, q{0, 8, 0, 0})    // a prompt that was given up
	p.step(1, 0, 100, q{0, 6, 0, 1})
	s := b.Finish(launched)
	wantRequest(t, &s.Requests[0], 0, 8, 0, 3, 100, -1, -1)
	if !s.Requests[0].AtLeast {
		t.Errorf("%+v", s.Requests[0])
	}
	wantRequest(t, &s.Requests[1], 0, 8, 0, 0, -1, -1, -1)
	wantRequest(t, &s.Requests[2], 0, 6, 0, 1, 100, -1, -1)

	p, b = newBatches(t)
	p.now, p.id = 0, 0
	for _, n := range []int32{512, 256} { // the engine finds no room, and asks for less
		st := &profile.Step{ID: 1, PID: 7, Ctx: 1, Phase: profile.Prefill, Dur: 1, NTokens: n,
			Incomplete: "none of its graphs was seen",
			Seqs:       []trace.StepSeq{{NTokens: n, Outputs: 1}}}
		if err := b.Step(st); err != nil {
			t.Fatal(err)
		}
	}
	p.step(1, 0, 100, q{0, 128, 0, 0})
	p.step(1, 0, 100, q{0, 128, 128, 1})
	if s := b.Finish(launched); len(s.Requests) != 1 || told(s.Requests[0].Prompt) != 256 ||
		told(s.Requests[0].TTFT) != 200 {
		t.Errorf("%+v", s.Requests)
	}

	// Positions that are not told: a batch with more tokens than logits begins a request.
	p, b = newBatches(t)
	p.step(1, 0, 100, q{0, 8, -1, 1})
	p.step(1, 0, 100, q{0, 1, -1, 1})
	p.step(1, 0, 100, q{0, 5, -1, 1})
	s = b.Finish(launched)
	if len(s.Requests) != 2 {
		t.Fatalf("%+v", s.Requests)
	}
	wantRequest(t, &s.Requests[0], 0, 8, -1, 2, 100, 100, 100)
	wantRequest(t, &s.Requests[1], 0, 5, -1, 1, 100, -1, -1)
}

// Where requests begin, one pair of batches each.
func TestSequencesBegins(t *testing.T) {
	for _, c := range []struct {
		what          string
		first, second q
		requests      int
		prompt        float64 // of the second request, where there is one
	}{
		{"a prompt in two parts", q{0, 8, 16, 0}, q{0, 6, 24, 1}, 1, 0},
		{"another prompt in its place", q{0, 8, 16, 0}, q{0, 6, 20, 1}, 2, 6},
		{"a decode", q{0, 8, 0, 1}, q{0, 1, 8, 1}, 1, 0},
		{"the same prompt, all of it cached", q{0, 8, 0, 1}, q{0, 1, 7, 1}, 2, 1},
		{"the same token again", q{0, 1, 7, 1}, q{0, 1, 7, 1}, 2, 1},
		{"a further turn", q{0, 8, 0, 1}, q{0, 5, 8, 1}, 2, 5},
		{"a prompt from the start after positions that were not told", q{0, 8, -1, 1}, q{0, 1, 0, 1}, 2, 1},
		{"a token that no logits are asked for", q{0, 8, 0, 1}, q{0, 1, 8, 0}, 2, 1},
	} {
		p, b := newBatches(t)
		p.step(1, 0, 100, c.first)
		p.step(1, 0, 100, c.second)
		s := b.Finish(&profile.Header{})
		if len(s.Requests) != c.requests || c.requests == 2 && told(s.Requests[1].Prompt) != c.prompt {
			t.Errorf("%s: %+v", c.what, s.Requests)
		}
	}
	// Another sequence's prompt can have filled the batch before: this one may have begun earlier.
	p, b := newBatches(t)
	p.step(1, 0, 100, q{0, 512, 0, 0})
	p.step(1, 0, 100, q{1, 8, 64, 1})
	if r := b.Finish(&profile.Header{}).Requests; len(r) != 2 || r[1].Prompt != nil || r[1].TTFT != nil {
		t.Errorf("%+v", r)
	}
}

// A sequence's tokens can lie apart in a batch.
func TestSequencesApart(t *testing.T) {
	p, b := newBatches(t)
	p.step(1, 0, 100, q{0, 3, 4, 0}, q{1, 1, 0, 0}, q{0, 4, 0, 0}, q{1, 1, 1, 1}, q{0, 1, 7, 1})
	for i := range int32(12) { // more than a few
		p.step(1, 0, 10, q{0, 1, 8 + 2*i, 0}, q{2, 1, i, 1}, q{3, 1, i, 1}, q{4, 1, i, 1}, q{5, 1, i, 1},
			q{6, 1, i, 1}, q{7, 1, i, 1}, q{1, 1, 2 + i, 1}, q{0, 1, 9 + 2*i, 1})
	}
	s := b.Finish(launched)
	r := s.Requests
	wantRequest(t, &r[0], 0, 8, 0, 1, 100, -1, -1)
	wantRequest(t, &r[1], 1, 2, 0, 13, 100, 10, 10)
	if s.AtOnce != 8 {
		t.Errorf("at once: %d", s.AtOnce)
	}
}

// Memory is bounded: each second request is left out, all are counted.
func TestSequencesThinned(t *testing.T) {
	b := requests.New(100)
	p := &batches{t: t, sink: b}
	for i := range int64(1000) {
		p.step(1, 0, 100+i, q{0, 4, 0, 1})
	}
	s := b.Finish(launched)
	if s.Seen != 1000 || s.Every != 16 || len(s.Requests) != 63 {
		t.Fatalf("%d requests, each %d-th of %d", len(s.Requests), s.Every, s.Seen)
	}
	for i, r := range s.Requests {
		if r.ID != int64(16*i)+1 || told(r.TTFT) != float64(100+16*i) {
			t.Fatalf("%d: %+v", i, r)
		}
	}
}

// Stat's TTFT is over the requests, and says of how many it is not known.
func TestSequencesTTFT(t *testing.T) {
	for _, c := range []struct {
		h                          *profile.Header
		known, unknown, pending, n int64
	}{{launched, 3, 1, 1, 5}, {&profile.Header{}, 3, 2, 1, 6}} {
		b := stat.New(stat.Options{})
		p := &batches{t: t, sink: b}
		p.step(1, 0, 100, q{0, 2, 0, 1}) // a warm-up, if the process began here
		// the middle of a prompt, or its begin; what is under way
		p.step(1, 0, 100, q{1, 8, 64, 1}, q{2, 1, 30, 1})
		p.step(1, 0, 300, q{0, 8, 0, 1})
		p.step(1, 0, 200, q{3, 8, 0, 1})
		p.step(1, 0, 200, q{4, 8, 0, 0})
		s := b.Finish(c.h)
		f := s.TTFT
		if f.Sequences != c.known || f.Unknown != c.unknown || f.Pending != c.pending ||
			s.Sequences.Seen != c.n || *f.Max != 300 || math.Abs(*f.P50-200) > 2 {
			t.Errorf("%+v, of %d requests; want %+v", f, s.Sequences.Seen, c)
		}
	}
}

// Numbers that no engine has take no time and no memory.
func TestSequencesHostile(t *testing.T) {
	const most = math.MaxInt32
	p, b := newBatches(t)
	p.step(1, 0, 100, q{0, 8, 0, 1})
	for range 20 {
		p.step(1, 0, 100, q{0, most, 8, most})
		p.step(1, 0, 100, q{0, 1, most, 1}, q{0, most, most, most}, q{0, most, most, most})
		p.step(1, 0, math.MaxInt64/64, q{0, 1, most, 1}, q{1, -1, -most, -most}, q{-most, most, -most, -5})
		p.step(1, 0, -5, q{0, 3, most, 3}, q{2, 4, most - 2, 4}, q{2, 4, 1 - most, 4})
	}
	if s := b.Finish(launched); s.Seen == 0 {
		t.Error("nothing was seen")
	}
}

// Whatever batches come, figures stay possible.
func TestSequencesRandom(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := requests.New(16)
		b.KeepRounds()
		p := &batches{t: t, sink: b}
		for range 300 {
			var parts []q
			for range 1 + r.IntN(4) {
				n := int32(1 + r.IntN(5))
				parts = append(parts, q{int32(r.IntN(4)) - 1, n, int32(r.IntN(24)) - 1,
					int32(r.IntN(int(n) + 1))})
				if r.IntN(2) == 0 {
					parts[len(parts)-1].out = n
				}
			}
			p.step(uint64(r.IntN(3)), int64(r.IntN(100)), int64(r.IntN(1000)), parts...)
		}
		s := b.Finish(launched)
		rounds, _ := b.Rounds()
		for _, q := range s.Requests {
			switch {
			case q.Start > q.End || q.Step > q.LastStep || q.Steps <= 0:
			case q.TTFT != nil && (*q.TTFT < 0 || *q.TTFT > q.End-q.Start):
			case q.TPOT != nil && (*q.TPOT < 0 || *q.TPOT*float64(q.Tokens) > float64(q.End-q.Start)):
			case q.Generated != nil && *q.Generated < 0 || q.Prompt != nil && *q.Prompt <= 0:
			case q.Rounds != nil && (*q.Accepted < 0 || *q.Unseen < 0 || *q.Accepted > *q.Drafted-*q.Unseen):
			case q.InSteps > q.End-q.Start:
			default:
				continue
			}
			t.Fatalf("seed %d: %+v", seed, q)
		}
		for _, c := range s.Speculation {
			var n, by int64
			for _, k := range c.ByAccepted {
				by += k
			}
			for _, x := range rounds {
				if x.Ctx == c.Ctx {
					n++
				}
			}
			if c.Accepted > c.SeenDrafted || c.SeenDrafted > c.Drafted || c.Seen > c.Rounds || by != c.Seen ||
				n > c.Rounds {
				t.Fatalf("seed %d: %+v, %d rounds", seed, c, n)
			}
		}
	}
}
