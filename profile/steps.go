// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/trace"
)

// Mark handles the boundary events of steps, scheduler runs and graphs.
func (p *replayer) Mark(m *trace.Mark, seqs []trace.StepSeq) error {
	if p.scout != nil {
		return p.scout.mark(m, func() error { return p.mark(m, seqs) })
	}
	if p.part != nil && !p.seeded && m.Time >= p.part.seed.at {
		p.seeded, p.nextStep, p.nextGraph = true, p.part.seed.step, p.part.seed.graph
	}
	return p.mark(m, seqs)
}

func (p *replayer) mark(m *trace.Mark, seqs []trace.StepSeq) error {
	p.seen(m.Time)
	q := p.proc(m.PID)
	t := q.thread(m.TID)
	if t.copying != nil && m.Kind < trace.MarkCopyBegin {
		if err := p.copyCut(q, t); err != nil {
			return err
		}
	}
	switch m.Kind {
	case trace.MarkCopyBegin:
		return p.copyBegin(q, t, m)
	case trace.MarkCopyEnd:
		return p.copyEnd(q, t, m)
	case trace.MarkSyncBegin:
		backend, _, _ := backendOf(q, m.Site)
		t.sync = syncing{q.waitedFor(backend, m.Backend()), m.Time}
	case trace.MarkSyncEnd:
		return p.syncEnd(q, t, m)
	case trace.MarkSubmitBegin, trace.MarkSubmitEnd, trace.MarkWaitBegin, trace.MarkWaitEnd, trace.MarkDone:
		return p.queueMark(q, t, m)
	case trace.MarkStepBegin:
		return p.stepBegin(q, t, m, seqs)
	case trace.MarkStepEnd:
		return p.stepEnd(q, t, m)
	case trace.MarkSchedBegin:
		return p.schedBegin(q, t, m)
	case trace.MarkSchedEnd:
		t.run = nil
		if s := t.step(); s != nil && s.implicit {
			t.steps = t.steps[:len(t.steps)-1]
			return p.implicitDone(q, t, s, max(m.Time, s.lastEnd))
		}
	case trace.MarkGraphBegin:
		return p.graphBegin(q, t, m)
	case trace.MarkGraphEnd:
		return p.graphEnd(q, t, m)
	}
	return nil
}

func (t *thread) step() *openStep {
	if len(t.steps) == 0 {
		return nil
	}
	return t.steps[len(t.steps)-1]
}

// stepBegin opens a step. An entry point called by another one (such as llama_decode by llama_process) is the
// same step.
func (p *replayer) stepBegin(q *Proc, t *thread, m *trace.Mark, seqs []trace.StepSeq) error {
	if s := t.step(); s != nil && s.implicit {
		t.steps = nil
		if s.lastEnd != 0 {
			if err := p.implicitDone(q, t, s, s.lastEnd); err != nil {
				return err
			}
		}
	}
	if !t.entered {
		t.entered = true
		p.dropTorn(q, t)
	}
	if err := p.flush(t, 0); err != nil {
		return err
	}
	_, entry, phase := backendOf(q, m.Site)
	// No entry point calls itself: the previous end was lost, and maybe that of its graphs.
	if slices.ContainsFunc(t.steps, func(s *openStep) bool { return s.entry == entry }) {
		p.abandon(q, t)
	}
	if len(t.steps) > 0 {
		t.steps = append(t.steps, &openStep{Step: t.steps[0].Step, entry: entry})
		return nil
	}
	t.ranStep = true
	s := &Step{PID: m.PID, TID: m.TID, Ctx: m.Context(), Entry: entry, Start: m.Time,
		NTokens: m.NTokens, NSeqs: -1, Outputs: -1, Seqs: seqs}
	q.stepBegins(s.Ctx, m.Time)
	s.NSeqs, s.Outputs = batchOf(seqs)
	s.Phase = phaseOf(s, phase, m.Entered())
	p.nextStep++
	s.ID = p.nextStep
	t.steps = append(t.steps, &openStep{Step: s, entry: entry})
	return nil
}

// abandon drops and counts what a thread has in progress: its end was not seen.
func (p *replayer) abandon(q *Proc, t *thread) {
	p.cutMarks.add(t.steps[0].Start)
	t.steps = nil
	for _, x := range t.execs {
		x.closed = true
		if x.cur != nil {
			p.cutHits.add(x.cur.Start)
		}
	}
	t.execs = nil
	over := func(x *exec) bool { return x.closed }
	q.open, q.followed = slices.DeleteFunc(q.open, over), slices.DeleteFunc(q.followed, over)
}

// batchOf counts a batch's sequences and the tokens whose logits are requested.
func batchOf(seqs []trace.StepSeq) (n, outputs int32) {
	if len(seqs) == 0 {
		return -1, -1
	}
	ids := make(map[int32]bool, len(seqs))
	for _, q := range seqs {
		ids[q.Seq] = true
		outputs += q.Outputs
	}
	return int32(len(ids)), outputs
}

// phaseOf returns the phase: prefill has more than one token per sequence.
func phaseOf(s *Step, fixed string, typ int32) Phase {
	switch {
	case fixed == "encode" || typ == 0:
		return Encode
	case s.NTokens < 0:
		return Unknown
	}
	tokens := make(map[int32]int32, len(s.Seqs))
	for _, q := range s.Seqs {
		if tokens[q.Seq] += q.NTokens; tokens[q.Seq] > 1 {
			return Prefill
		}
	}
	if len(s.Seqs) == 0 && s.NTokens > 1 {
		return Prefill
	}
	return Decode
}

func (p *replayer) stepEnd(q *Proc, t *thread, m *trace.Mark) error {
	_, entry, _ := backendOf(q, m.Site)
	for i := len(t.steps) - 1; i >= 0; i-- {
		if t.steps[i].entry != entry {
			continue
		}
		s := t.steps[i]
		t.steps = t.steps[:i]
		if i == 0 {
			return p.stepDone(s, m.Time)
		}
		return nil
	}
	if len(t.steps) == 0 {
		p.cutMarks.add(m.Time)
		for range t.pending { // they were parts of it
			p.cutMarks.add(m.Time)
		}
		t.pending = t.pending[:0]
	}
	return nil
}

// tornWithin: a scheduler run that is the first event of a thread within this time after the probes were set
// belongs to a call that had already begun. The return of that call cannot be seen either.
const tornWithin = int64(100e6)

// dropTorn drops the scheduler runs of a call whose begin was not seen.
func (p *replayer) dropTorn(q *Proc, t *thread) {
	if len(q.attached) == 0 {
		return
	}
	until := q.attached[len(q.attached)-1] + tornWithin
	for len(t.pending) > 0 && t.pending[0].Start <= until {
		s := t.pending[0]
		t.pending = t.pending[1:]
		p.cutMarks.add(s.Start)
		until = s.Start + s.Dur + tornWithin
	}
}

// maxWaiting bounds the scheduler runs that may still become steps.
const maxWaiting = 64

// implicitDone completes a step that was made from a scheduler's run. In a process whose entry points are
// probed it waits for the thread's next boundary event: recording may have begun inside a call.
func (p *replayer) implicitDone(q *Proc, t *thread, s *openStep, end int64) error {
	s.Dur = end - s.Start
	t.pending = append(t.pending, s)
	if q.entries {
		return p.flush(t, maxWaiting)
	}
	return p.flush(t, 0)
}

// flush emits all but the last keep of the waiting steps.
func (p *replayer) flush(t *thread, keep int) error {
	for len(t.pending) > keep {
		s := t.pending[0]
		t.pending = t.pending[1:]
		if err := p.stepDone(s, s.Start+s.Dur); err != nil {
			return err
		}
	}
	return nil
}

func (p *replayer) stepDone(s *openStep, end int64) error {
	s.Dur = end - s.Start
	q := p.proc(s.PID)
	if s.Start < q.backends && q.handsOver() { // it may have
		s.HandedOver = true
	}
	switch {
	case s.Incomplete != "":
	case p.lostIn(s.Start, end):
		s.Incomplete = "events were lost in it"
	case p.attachedIn(s.PID, s.Start, end):
		s.Incomplete = "its probes were still being set"
	case s.Start < q.backends:
		s.Incomplete = "graphs of other backends than the CPU were not watched yet"
	case s.Graphs == 0 && p.h.Meta.Level != trace.LevelStep:
		s.Incomplete = "none of its graphs was seen"
	}
	if p.otherPhase(s.Phase) && s.Untraced == "" {
		s.Untraced = trace.WhyFiltered
	}
	if err := p.copiesDone(s); err != nil {
		return err
	}
	if err := p.faults.step(s.Step); err != nil {
		return err
	}
	if err := p.sink.Step(s.Step); err != nil {
		return err
	}
	return p.stepOver(q, s.Step)
}

// otherPhase reports whether the operators of a phase were excluded by the filter.
func (p *replayer) otherPhase(phase Phase) bool {
	of := p.filter.Phases
	return len(of) > 0 && !slices.Contains(of, cmp.Or(string(phase), "unknown"))
}

// attachedIn reports whether probes of a process were set between two times, for example of a library that
// was loaded during the step.
func (p *replayer) attachedIn(pid int32, from, to int64) bool {
	q := p.procs[pid]
	if q == nil {
		return false
	}
	for _, t := range q.attached {
		if t > from && t < to {
			return true
		}
	}
	return false
}

// lostIn reports whether operator or boundary events were lost between two times.
func (p *replayer) lostIn(from, to int64) bool {
	for i := len(p.h.Losses) - 1; i >= 0; i-- {
		l := &p.h.Losses[i]
		if l.End < from {
			return false // they come in time order
		}
		if l.Lost(trace.LostHits, trace.LostMarks) && l.Start <= to && l.End >= from {
			return true
		}
	}
	return false
}

// schedBegin starts a run of the graph scheduler. Outside any known entry point it is a step of its own
// (whisper.cpp, other ggml programs).
func (p *replayer) schedBegin(q *Proc, t *thread, m *trace.Mark) error {
	t.run = &schedRun{ctx: m.Scheduler()}
	s := t.step()
	if s != nil && s.implicit {
		t.steps = t.steps[:len(t.steps)-1]
		if s.lastEnd != 0 {
			if err := p.implicitDone(q, t, s, s.lastEnd); err != nil {
				return err
			}
		}
		s = nil
	}
	if s == nil {
		_, entry, _ := backendOf(q, m.Site)
		t.ranStep = true
		p.nextStep++
		q.stepBegins(m.Scheduler(), m.Time)
		t.steps = append(t.steps, &openStep{implicit: true, entry: entry, Step: &Step{ID: p.nextStep,
			PID: m.PID, TID: m.TID, Ctx: m.Scheduler(), Entry: entry, Start: m.Time, NTokens: -1, NSeqs: -1,
			Outputs: -1}})
	}
	return nil
}

func (p *replayer) graphBegin(q *Proc, t *thread, m *trace.Mark) error {
	backend, _, _ := backendOf(q, m.Site)
	s := t.step()
	g := &Graph{ofEngine: q.ofEngine, PID: m.PID, TID: m.TID, Backend: backend, Start: m.Time,
		NNodes: m.GraphNodes()}
	g.Library = libraryOf(q, m.Site)
	x := &exec{g: g, uid: m.GraphUID(), device: m.Backend(), last: -1}
	if s != nil {
		x.step, g.Step, g.Ctx = s, s.ID, s.Ctx
		s.Graphs++
	}
	if x.step != nil && len(t.steps) > 0 {
		x.step = t.steps[0]
	}
	key := lastKey{}
	if t.run != nil {
		g.Split = t.run.splits
		t.run.splits++
		key = lastKey{t.run.ctx, g.Split}
	} else if s != nil {
		g.Split = s.Graphs - 1
		key = lastKey{s.Ctx, g.Split}
	}
	if t.last == nil {
		t.last = make(map[lastKey]lastGraph)
	}
	prev, now := t.last[key], lastGraph{m.Shape, m.GraphUID()}
	g.Reused = m.Shape != 0 && prev == now
	t.last[key] = now

	p.nextGraph++
	g.ID = p.nextGraph
	if sh := q.Shapes[m.Shape]; sh != nil && (g.NNodes <= 0 || int(g.NNodes) == sh.NNodes) {
		x.shape, g.Shape = sh, sh
	}
	x.watch, x.threads = q.watchAt(m.Time), int(m.Threads)
	if p.h.Meta.Level == trace.LevelOp && q.computes(backend) && p.mayShow(g) {
		g.Untraced = unseen(x, x.watch)
		if g.Untraced == "" && x.shape != nil && x.shape.Order != nil && follows(x.watch, x.shape) {
			p.follow(q, x)
		}
	}
	t.execs = append(t.execs, x)
	q.open = append(q.open, x)
	switch {
	case q.Vocabulary().HandsOver(backend):
		p.remote.call(q, x)
	case s == nil && len(p.remote.queues) > 0:
		return p.serve(q, g)
	}
	return nil
}

// computes reports whether operators of a backend's graphs can be seen: those that the CPU's loop runs.
func (q *Proc) computes(backend string) bool { return !trace.Elsewhere(backend) }

func (p *replayer) graphEnd(q *Proc, t *thread, m *trace.Mark) error {
	if len(t.execs) == 0 {
		p.cutMarks.add(m.Time)
		return nil
	}
	x := t.execs[len(t.execs)-1]
	// of a call that had begun before it was probed
	if backend, _, _ := backendOf(q, m.Site); backend != x.g.Backend {
		p.cutMarks.add(m.Time)
		return nil
	}
	t.execs = t.execs[:len(t.execs)-1]
	x.closed = true
	if p.h.Meta.Level == trace.LevelOp && x.g.Untraced == "" && q.computes(x.g.Backend) {
		x.g.Untraced = q.unseenSince(x, m.Time)
	}
	if x.f != nil && p.part != nil && !p.part.graph(x.g, m.Time) {
		p.unfollow(q, x)
	} else if x.f != nil {
		if err := p.followedDone(q, x); err != nil {
			return err
		}
	} else if err := p.opDone(q, x, m.Time); err != nil {
		return err
	}
	p.unused(x)
	switch x.g.Untraced {
	case trace.WhyThrottled:
		q.skipped(x.g.Start, m.Time)
	case trace.WhyLearning:
		p.learning.add(x.g.Start)
	}
	if x.step != nil && x.step.Untraced == "" {
		x.step.Untraced = x.g.Untraced
	}
	for i := range q.open {
		if q.open[i] == x {
			q.open = slices.Delete(q.open, i, i+1)
			break
		}
	}
	g := x.g
	g.Dur = m.Time - g.Start
	q.submit(x)
	q.handsOut(x)
	if err := p.remoteEnd(x); err != nil {
		return err
	}
	if x.shape != nil && g.Ops > 0 && g.Untraced == "" {
		for i := int(x.last) + 1; i < x.shape.NNodes; i++ {
			if x.shape.Nodes[i].Executes {
				g.Aborted = !p.lostIn(g.Start, m.Time)
				break
			}
		}
	}
	if x.step != nil {
		x.step.lastEnd = m.Time
		if q.copies && len(x.step.graphs) < limits.Copies {
			x.step.graphs = append(x.step.graphs, g)
		}
		if x.shape == nil && x.step.Incomplete == "" {
			x.step.Incomplete = "a graph without a definition"
		}
	}
	if err := p.sink.Graph(g); err != nil {
		return err
	}
	if h := x.handed; h != nil {
		h.closed = true
		if h.subs > 0 { // it may be done already
			return p.handOver(q, []*handed{h})
		}
	}
	return nil
}

func sortThreads(ts []Thread) {
	rank := map[string]int{"main": 0, "worker": 1, "other": 2}
	slices.SortFunc(ts, func(a, b Thread) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(rank[a.Role], rank[b.Role]),
			cmp.Compare(a.TID, b.TID))
	})
}
