// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/internal/sketch"
)

// Collector is the state of a [Builder].
type Collector struct {
	profile.BaseSink
	Most       int // requests kept
	kept       int
	every      int64 // keeps one of this many requests
	keepRounds bool
	KeepSteps  bool // keeps verifying steps, as points over time
	book       facts.Book
	procs      map[int32]*processSum
	nContexts  int
	nSeqs      int
	requests   int64
	atOnce     int
	runs       []seqRun // of the step in progress
	First      firstTokens
	waiting    []*profile.Step // starting with the first one whose results are not there
	unseen     bool            // for the step in progress: it was not seen when its results were there
}

// firstTokens sums up the first tokens of all requests, including those that are not kept.
type firstTokens struct {
	Ttft             DistSum
	Unknown, Pending int64
}

func (f *firstTokens) merge(o *firstTokens) {
	f.Ttft.Merge(&o.Ttft)
	f.Unknown += o.Unknown
	f.Pending += o.Pending
}

// processSum is a process while it is followed.
type processSum struct {
	byCtx    map[uint64]*contextSum
	contexts []*contextSum // its first contexts
}

// contextSums counts what a context has done so far.
type contextSums struct {
	steps, decodes int64 // decodes: with one token per sequence
	dur            int64
}

// contextSum is one engine context while it is followed.
type contextSum struct {
	contextSums
	pid     int32
	ctx     uint64
	number  int
	model   *facts.ModelWeights
	seqs    map[int32]*openRequest
	decoded bool           // a batch without prompts was seen
	real    bool           // a request came that is not a warm-up
	drafts  bool           // its requests are guesses for another context
	ended   []*openRequest // thinned
	seen    int64
	firsts  [3]firstTokens // by certainty
	warmups int64
	gaps    sketch.Histogram
	gapSum  float64
	gapMin  int64
	gapMax  int64
	spec    speculation
}

// Whether the begin of a request was seen.
const (
	beginSeen   = iota
	beginUnsure // it was, if the recording began with the process
	beginWarmup // it looks like a warm-up, and is one if the recording began with the process
)

// seqRun is one sequence's part of a step.
type seqRun struct {
	seq         int32
	n, pos, out int64 // 64 bits: sums of a trace's numbers cannot overflow
}

// openRequest is a request in progress.
type openRequest struct {
	Request
	model   *facts.ModelWeights
	unsure  bool // its begin was seen only if the recording began with the process
	hidden  bool // its begin was not seen even then
	early   bool // only warm-ups came before it in its context
	first   bool // its first logits were requested
	untold  bool // it was not seen when its first logits were there
	blind   bool // the yield of some batch in between is unknown
	prompt  int64
	cached  int64 // -1: unknown
	from    int64 // end of the step with the first token seen
	last    int64 // end of the step with the last known token
	pos     int64 // of its last batch; -1: unknown
	n       int64
	gaps    sketch.Histogram
	gapMax  int64
	round   Round // in progress, if Drafted is not 0
	at      int64 // number of its step among the verifying steps of the context
	rounds  [4]int64
	atLeast int64 // further tokens of a batch whose outcome was not seen
}

// Op takes an operator, which identifies the model.
func (b *Collector) Op(o *profile.Op) error {
	b.book.Op(o)
	return nil
}

// Graph takes a graph execution, which identifies the model.
func (b *Collector) Graph(g *profile.Graph) error {
	b.book.Graph(g)
	return nil
}

// Step takes one step.
func (b *Collector) Step(s *profile.Step) error {
	b.AddStep(s, &b.book)
	return nil
}

// Result takes a step that handed graphs over.
func (b *Collector) Result(*profile.Step) error {
	b.AddResult(&b.book)
	return nil
}

// AddStep takes a step, whose results may come later: requests are followed in step order.
func (b *Collector) AddStep(s *profile.Step, models *facts.Book) {
	if b.waiting = append(b.waiting, s); len(b.waiting) > limits.Pending {
		b.rest(models) // a recording whose steps have no results
	}
	b.AddResult(models)
}

// AddResult follows the steps up to the first one whose results are not there.
func (b *Collector) AddResult(models *facts.Book) {
	n := 0
	for _, s := range b.waiting {
		if s.HandedOver && !s.Told {
			break
		}
		b.follow(s, models)
		n++
	}
	b.waiting = slices.Delete(b.waiting, 0, n)
}

// rest follows all remaining steps.
func (b *Collector) rest(models *facts.Book) {
	for _, s := range b.waiting {
		b.follow(s, models)
	}
	b.waiting = nil
}

// KeepRounds makes the builder keep the rounds of speculative decoding individually.
func (b *Builder) KeepRounds() { b.keepRounds = true }

func (b *Collector) context(s *profile.Step) (*processSum, *contextSum) {
	p := b.procs[s.PID]
	if p == nil {
		if b.procs == nil {
			b.procs = map[int32]*processSum{}
		}
		p = &processSum{byCtx: map[uint64]*contextSum{}}
		b.procs[s.PID] = p
	}
	c := p.byCtx[s.Ctx]
	if c == nil {
		if b.nContexts >= maxContexts {
			return p, nil
		}
		b.nContexts++
		c = &contextSum{pid: s.PID, ctx: s.Ctx, number: b.nContexts, seqs: map[int32]*openRequest{}}
		p.byCtx[s.Ctx] = c
		if len(p.contexts) < maxContextsOf {
			p.contexts = append(p.contexts, c)
		}
	}
	return p, c
}

// joined returns a step's sequences, without duplicates.
func (b *Collector) joined(s *profile.Step) []seqRun {
	b.runs = b.runs[:0]
	at := map[int32]int{}
	if len(s.Seqs) <= 8 {
		at = nil
	}
	for i := range s.Seqs {
		q := &s.Seqs[i]
		if q.NTokens <= 0 {
			continue
		}
		j, ok := 0, false
		if at != nil {
			j, ok = at[q.Seq]
		} else {
			j = slices.IndexFunc(b.runs, func(r seqRun) bool { return r.seq == q.Seq })
			ok = j >= 0
		}
		if ok {
			r := &b.runs[j]
			r.n += int64(q.NTokens)
			r.out += int64(q.Outputs)
			if q.Pos >= 0 {
				r.pos = min(r.pos, int64(q.Pos))
			}
			continue
		}
		if at != nil {
			at[q.Seq] = len(b.runs)
		}
		b.runs = append(b.runs, seqRun{q.Seq, int64(q.NTokens), int64(q.Pos), int64(q.Outputs)})
	}
	return b.runs
}

// follow follows the sequences of one step. The step lasts until its results are there or, where that was not
// seen, as long as its call.
func (b *Collector) follow(s *profile.Step, models *facts.Book) {
	if s.Phase == profile.Encode || len(s.Seqs) == 0 || s.Graphs == 0 && s.Incomplete != "" {
		return // the last: a call that failed computes nothing and is repeated
	}
	p, c := b.context(s)
	if c == nil {
		return
	}
	s, known := s.WithResults()
	b.unseen = !known
	if m := models.At(s.PID, s.Ctx); m != nil {
		c.model = m
	}
	runs := b.joined(s)
	b.atOnce = max(b.atOnce, len(runs))
	prompts, decode, kind := false, true, batchPlain
	for _, r := range runs {
		e := c.seqs[r.seq]
		begins := e == nil || e.begins(r)
		if begins && e == nil && b.nSeqs >= limits.Sequences {
			continue
		}
		if begins {
			if e == nil {
				b.nSeqs++
			}
			b.end(c, e)
			e = b.begin(c, s, r, e != nil)
		}
		kind = max(kind, b.take(c, e, s, r))
		prompts = prompts || r.n > r.out
		decode = decode && r.n == 1
	}
	if !prompts {
		c.decoded = true
	}
	c.steps++
	c.dur += s.Dur
	if decode {
		c.decodes++
	}
	switch kind {
	case batchAgain:
		c.spec.Again++
		c.spec.VerifyDur += s.Dur
		c.spec.over.again(s)
		return // the draft's time since the previous step counts with the next one
	case batchVerifies:
		c.verified(s, p, b.KeepSteps)
		if n := c.spec.Steps; n >= 4 && n&(n-1) == 0 {
			if d, _ := c.draft(); d != nil && !d.drafts {
				b.forget(d)
			}
		}
	}
	c.mark(p)
}

// begins reports whether a batch begins another request than the one in progress on its sequence.
func (e *openRequest) begins(r seqRun) bool {
	switch {
	case r.pos == 0:
		return true
	case !e.first: // the prompt continues, or another one replaced it
		return r.pos >= 0 && e.pos >= 0 && r.pos != e.pos+e.n
	case r.n > r.out:
		return true
	case r.pos < 0 || e.pos < 0:
		return false
	case e.round.Drafted > 0 && r.pos == e.pos && r.n <= e.n:
		return false // computed again
	}
	return r.pos <= e.pos || e.round.Drafted == 0 && r.pos < e.pos+e.n
}

// begin opens a request.
func (b *Collector) begin(c *contextSum, s *profile.Step, r seqRun, before bool) *openRequest {
	b.requests++
	e := &openRequest{model: c.model, early: !c.real, cached: r.pos, pos: -1}
	e.Request = Request{ID: b.requests, PID: s.PID, Ctx: s.Ctx, Seq: r.seq, Step: s.ID, Start: s.Start}
	// A batch without prompts has room: if this request had begun before, it would have been in it.
	e.unsure = !before && r.pos != 0 && !c.decoded
	// A first token at a later position, with its logits requested: from a prompt computed for several
	// sequences.
	e.hidden = e.unsure && r.n == r.out
	c.seqs[r.seq] = e
	return e
}

// What a batch is to its sequence.
type batchKind uint8

const (
	batchPlain    batchKind = iota
	batchAgain              // computes again what was accepted
	batchVerifies           // verifies drafted tokens
)

// take adds one batch to its request.
func (b *Collector) take(c *contextSum, e *openRequest, s *profile.Step, r seqRun) batchKind {
	end := s.Start + s.Dur
	e.model = c.model
	e.LastStep, e.End = s.ID, end
	e.Steps++
	if !e.warmup(r) {
		c.real = true
	}
	follows := e.pos >= 0 && r.pos >= 0
	drafted := int64(0)
	switch {
	case !e.first:
		e.prompt += r.n
		if r.out > 0 {
			e.first = true
			e.from, e.last = end, end
			e.untold = b.unseen
			// The prompt's last token can be followed by drafted ones.
			if e.Steps > 1 && r.n > 1 && r.out == r.n {
				drafted = r.n - 1
				e.prompt -= drafted
			}
		}
	case e.round.Drafted > 0 && follows && r.pos == e.pos:
		// The state was rolled back, and what was accepted is computed again: the round continues.
		e.round.Start, e.round.Dur = s.Start, s.Dur
		e.n = r.n
		return batchAgain
	default:
		switch {
		case e.round.Drafted > 0 && follows && r.pos <= e.pos+e.n:
			b.settle(c, e, r.pos-e.pos-1)
		case e.round.Drafted > 0:
			b.settle(c, e, -1)
			e.blind = true
		case follows && r.pos != e.pos+e.n:
			e.blind = true // batches in between were not seen
		}
		drafted = b.batch(c, e, s, r)
	}
	e.pos, e.n = r.pos, r.n
	if drafted == 0 {
		return batchPlain
	}
	if e.Rounds == nil {
		e.Rounds, e.Drafted, e.Accepted, e.Unseen = &e.rounds[0], &e.rounds[1], &e.rounds[2], &e.rounds[3]
	}
	e.at = c.spec.Steps
	e.round = Round{Step: s.ID, PID: s.PID, Ctx: s.Ctx, Seq: r.seq, Pos: r.pos, Drafted: drafted,
		Start: s.Start, Dur: s.Dur}
	return batchVerifies
}

// batch adds a batch after the prompt. It returns how many of its tokens were drafted.
func (b *Collector) batch(c *contextSum, e *openRequest, s *profile.Step, r seqRun) int64 {
	if r.n == 1 && r.out > 0 {
		b.yield(c, e, s.Start, s.Dur, 1)
	}
	return r.n - 1
}

// warmup reports whether a request looks like the engine's warm-up so far.
func (e *openRequest) warmup(r seqRun) bool {
	return e.Seq == 0 && e.Steps == 1 && r.pos <= 0 && r.n <= 2
}

// settle ends the current round; accepted is -1 where its outcome is unknown.
func (b *Collector) settle(c *contextSum, e *openRequest, accepted int64) {
	r := &e.round
	first := r.Start+r.Dur == e.from // with the prompt's last token
	switch {
	case accepted >= 0 && first:
		e.Tokens += accepted
	case accepted >= 0:
		b.yield(c, e, r.Start, r.Dur, accepted+1)
	case !first:
		e.atLeast++
	}
	if accepted < 0 {
		e.AtLeast = true
	}
	b.round(c, e, accepted)
}

// yield adds n tokens that a step produced.
func (b *Collector) yield(c *contextSum, e *openRequest, start, dur, n int64) {
	d := max(0, start+dur-e.last) / n
	e.last = start + dur
	e.Tokens += n
	e.InSteps += dur
	if c.gaps.N == 0 || d < c.gapMin {
		c.gapMin = d
	}
	e.gaps.AddTimes(d, n)
	c.gaps.AddTimes(d, n)
	e.gapMax, c.gapMax = max(e.gapMax, d), max(c.gapMax, d)
	c.gapSum += float64(d) * float64(n)
}

// end handles a finished request.
func (b *Collector) end(c *contextSum, e *openRequest) {
	if e == nil {
		return
	}
	delete(c.seqs, e.Seq)
	if e.round.Drafted > 0 {
		b.settle(c, e, -1)
	}
	if e.first {
		n := e.Tokens + 1 + e.atLeast
		e.Generated = &n
		e.AtLeast = e.AtLeast || e.blind
	} else {
		e.Generated = new(int64)
	}
	if e.Tokens > 0 && !e.blind {
		e.TPOT = num.Ratio(float64(e.last-e.from), float64(e.Tokens))
	}
	if e.gaps.N > 0 && !e.blind {
		p := min(e.gaps.Quantile(0.95), float64(e.gapMax))
		e.P95 = &p
	}
	e.gaps = sketch.Histogram{}
	e.Warmup = e.early && e.Steps == 1 && e.Seq == 0 && e.cached <= 0 && e.prompt <= 2
	c.seen++
	e.count(c)
	if c.drafts || b.every > 1 && (c.seen-1)%b.every != 0 {
		return
	}
	c.ended = append(c.ended, e)
	if b.kept++; b.kept > b.Most {
		b.thin()
	}
}

// count adds a finished request to the sums of its context.
func (e *openRequest) count(c *contextSum) {
	f := &c.firsts[beginSeen]
	switch {
	case e.Warmup:
		c.warmups++
		f = &c.firsts[beginWarmup]
	case e.hidden:
		f.Unknown++
		return
	case e.unsure:
		f = &c.firsts[beginUnsure]
	}
	switch {
	case e.untold:
		f.Unknown++
	case e.first:
		f.Ttft.Add(e.from - e.Start)
	default:
		f.Pending++
	}
}

// thin drops every second finished request.
func (b *Collector) thin() {
	b.every = 2 * max(1, b.every)
	b.kept = 0
	for _, p := range b.procs {
		for _, c := range p.byCtx {
			for i := 0; i < len(c.ended); i += 2 {
				c.ended[i/2] = c.ended[i]
			}
			n := (len(c.ended) + 1) / 2
			clear(c.ended[n:])
			c.ended = c.ended[:n]
			b.kept += n
		}
	}
}

// forget drops the apparent requests of a context that drafts.
func (b *Collector) forget(c *contextSum) {
	c.drafts = true
	b.kept -= len(c.ended)
	c.ended = nil
}
