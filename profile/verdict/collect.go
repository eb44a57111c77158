// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"maps"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/sched"
)

// maxCells bounds the groups of operators kept separately for a phase's verdict; further ones are summed up
// as "(others)".
const maxCells = 1 << 16

// Collector collects what verdicts and findings need in addition to the statistics' rows, for all phases,
// shown or not: one phase shows what the machine can do, another what it does.
type Collector struct {
	Book        *facts.Book
	cells       []workCellOf // by Derived.ID
	whole, part map[facts.PhaseKey]*workGroup
	disturbed   map[facts.PhaseKey]*workGroup // complete steps that [Disturbed] says it of
	ends        map[ctxKey]*profile.Step      // the last of each context
	// Of the run, set before Judge: its first event, and what tells how long culprits had CPUs.
	Start   int64
	SetHeld func([]sched.Culprit)
}

// workCellOf caches the cell that counts operators of one Derived, for the last group and op.
type workCellOf struct {
	of   *facts.Derived
	in   *workGroup
	op   string
	cell *workCell
}

type ctxKey struct {
	pid int32
	ctx uint64
}

// workGroup sums up the steps of one phase of one model.
type workGroup struct {
	number              int
	traced, tracedDur   int64
	steps, dur, inGraph int64
	graphSteps          int64 // steps in which a graph was seen
	cells               map[cellKey]*workCell
	ordered             []*workCell // the cells, once all operators have come
	team                int
	instead             map[sched.CulpritKey]*sched.Culprit
	between, betweens   int64 // time between a step and the next of its context, and their number
	growth              num.Growth
	attn                int64 // of the step being added
	thOff               int64 // threads' off-CPU time in operators
	thBlocked           int64 // the part of it in uninterruptible sleep

	wayList []workKind // once all operators have come
	waySums map[workKind]workCell
	disk    diskSum
}

func newWorkGroup() *workGroup {
	return &workGroup{cells: map[cellKey]*workCell{}, instead: map[sched.CulpritKey]*sched.Culprit{}}
}

type cellKey struct {
	name, typ string
	kind      ops.Class
	chosen    bool // of experts, by token: computed in another way than other matmuls
	layer     int  // -1: none
	op        string
	block     ops.Block
	team      int // threads
}

// workCell sums up the operators of one name in one layer. dur = work + wait + off + disk.
type workCell struct {
	cellKey
	weight       bool
	calls        int64
	dur          int64 // without the time of the probes
	work         int64 // the threads' mean busy time
	wait         int64 // beyond it, until the last thread arrived
	off          int64 // beyond that, because a thread had lost its CPU
	bytes, flops int64
	bytesDur     int64 // of operators whose bytes are known
	flopsDur     int64
	thBusy       int64
	thWait       int64
	counts       []cellCount
	faults       int64 // major page faults, where they were recorded one by one
	faultDelay   int64 // part of dur: delay of its last thread by faults that waited for the disk
	blocked      int64 // part of off: because the last thread was in uninterruptible sleep
	// Set once the run has ended, and the counter that has them is known (judge.disk):
	majors int64 // major faults
	// part of dur: excess of operators with such faults over those without, or else time that a thread was
	// blocked
	disk int64
}

// AddStep takes one step with its operators and graphs. instead is who ran in place of threads since the
// previous step, disturbed what [Disturbed] says of it.
func (w *Collector) AddStep(s *profile.Step, ops []*profile.Op, graphs []*profile.Graph,
	instead []sched.Culprit, disturbed bool) {
	g := w.group(s)
	if disturbed {
		g = groupIn(&w.disturbed, w.keyOf(s))
	}
	g.steps++
	g.dur += s.Dur
	g.disk.step(s)
	if len(graphs) > 0 {
		var in int64
		for _, x := range graphs {
			in += x.Dur
		}
		g.graphSteps++
		g.inGraph += min(in, s.Dur)
	}
	w.pause(w.group(s), s)
	for i := range instead {
		sched.AddCulprit(g.instead, &instead[i])
	}
	if s.Untraced != "" {
		return
	}
	g.traced++
	g.tracedDur += s.Dur
	g.attn = 0
	w.add(g, ops)
	if s.Phase == profile.Decode && len(ops) > 0 {
		pos := int32(-1)
		for i := range s.Seqs {
			if q := &s.Seqs[i]; q.Pos >= 0 && q.NTokens >= 0 {
				pos = max(pos, q.Pos+q.NTokens) // after its last token, as in all views
			}
		}
		if pos >= 0 {
			g.growth.Add(pos, g.attn)
		}
	}
}

// pause counts the time since the last step of the same context, if the gap is short enough for the steps to
// belong to one answer.
func (w *Collector) pause(g *workGroup, s *profile.Step) {
	k := ctxKey{s.PID, s.Ctx}
	last, ok := w.ends[k]
	if ok && last.Phase == s.Phase {
		took, seen := last.EndToEnd()
		near := s.Dur
		if last.HandedOver {
			near = took
		}
		if d := s.Start - last.Start - took; seen && d >= 0 && d < near {
			g.between += d
			g.betweens++
		}
	}
	if !ok && len(w.ends) >= limits.Models {
		return
	}
	if w.ends == nil {
		w.ends = map[ctxKey]*profile.Step{}
	}
	w.ends[k] = s
}

func (w *Collector) group(s *profile.Step) *workGroup {
	in := &w.whole
	if s.Incomplete != "" {
		in = &w.part
	}
	return groupIn(in, w.keyOf(s))
}

func (w *Collector) keyOf(s *profile.Step) facts.PhaseKey {
	return facts.PhaseKey{Phase: s.Phase, Model: w.Book.At(s.PID, s.Ctx)}
}

func groupIn(groups *map[facts.PhaseKey]*workGroup, k facts.PhaseKey) *workGroup {
	if *groups == nil {
		*groups = map[facts.PhaseKey]*workGroup{}
	}
	in := *groups
	if in[k] == nil && len(in) >= limits.Models {
		k.Model = nil
	}
	g := in[k]
	if g == nil {
		g = newWorkGroup()
		g.number = len(in)
		in[k] = g
	}
	return g
}

// Early takes operators of a step before its end is known, because too many wait for theirs.
func (w *Collector) Early(s *profile.Step, ops []*profile.Op) { w.add(w.group(s), ops) }

func (w *Collector) add(g *workGroup, in []*profile.Op) {
	for _, o := range in {
		d := w.Book.Derive(o)
		c := w.cell(g, d, o.Op, len(o.Threads))
		if c.kind == ops.ClassAttention {
			g.attn += o.Dur - o.Probe
		}
		g.team = max(g.team, len(o.Threads))
		g.thOff += o.OffCPU
		for i := range o.Threads {
			g.thBlocked += o.Threads[i].Blocked
		}
		c.add(d, o)
	}
}

func (w *Collector) cell(g *workGroup, d *facts.Derived, op string, team int) *workCell {
	if d.ID >= len(w.cells) {
		w.cells = append(w.cells, make([]workCellOf, d.ID+1-len(w.cells))...)
	}
	last := &w.cells[d.ID]
	if last.of == d && last.in == g && last.op == op && last.cell.team == team {
		return last.cell
	}
	k := cellKey{typ: d.WeightType, kind: d.Class, chosen: d.ChoosesExperts, layer: -1, op: op,
		block: d.Block, team: team}
	var weight bool
	k.name, weight = facts.RowKey(facts.ByWeight, d, op)
	if !weight {
		k.typ = ""
	}
	if d.Layer != nil {
		k.layer = *d.Layer
	}
	c := g.cells[k]
	if c == nil && len(g.cells) >= maxCells {
		k = cellKey{name: "(others)", layer: -1}
		c = g.cells[k]
	}
	if c == nil {
		c = &workCell{cellKey: k, weight: weight}
		g.cells[k] = c
	}
	if c.team == team {
		*last = workCellOf{d, g, op, c}
	}
	return c
}

// add adds one operator. If its threads had kept their CPUs, it would have ended at the last arrival minus
// that thread's off-CPU time; if its work had been spread evenly, after the mean of their busy times.
func (c *workCell) add(d *facts.Derived, o *profile.Op) {
	dur := max(0, o.Dur-o.Probe)
	work := dur
	var off, blocked int64
	if n := int64(len(o.Threads)); n > 0 {
		work = min(dur, max(0, o.Busy/n-o.Probe))
		if o.OffCPU > 0 {
			off, blocked = lostBy(o, dur)
		}
	}
	c.calls++
	c.dur += dur
	c.work += work
	c.off += off
	c.blocked += blocked
	c.wait += dur - work - off
	c.thBusy += o.Busy
	c.thWait += o.Wait
	c.count(o.Counts, dur)
	c.faults += o.MajorFaults
	c.faultDelay += min(o.FaultDelay, dur)
	if d.Bytes != nil {
		c.bytes += *d.Bytes
		c.bytesDur += dur
	}
	if d.Flops != nil {
		c.flops += *d.Flops
		c.flopsDur += dur
	}
}

func (c *workCell) merge(o *workCell) {
	c.weight = c.weight || o.weight
	c.calls += o.calls
	c.dur += o.dur
	c.work += o.work
	c.wait += o.wait
	c.off += o.off
	c.blocked += o.blocked
	c.bytes += o.bytes
	c.flops += o.flops
	c.bytesDur += o.bytesDur
	c.flopsDur += o.flopsDur
	c.thBusy += o.thBusy
	c.thWait += o.thWait
	c.mergeCounts(o)
	c.faults += o.faults
	c.faultDelay += o.faultDelay
	c.majors += o.majors
	c.disk += o.disk
}

func (g *workGroup) merge(o *workGroup) {
	g.traced += o.traced
	g.tracedDur += o.tracedDur
	g.steps += o.steps
	g.dur += o.dur
	g.inGraph += o.inGraph
	g.graphSteps += o.graphSteps
	g.team = max(g.team, o.team)
	g.between += o.between
	g.betweens += o.betweens
	g.thOff += o.thOff
	g.thBlocked += o.thBlocked
	g.disk.merge(&o.disk)
	g.growth.Merge(&o.growth)
	for _, c := range o.instead {
		sched.AddCulprit(g.instead, c)
	}
	for k, c := range o.cells {
		if g.cells[k] == nil {
			g.cells[k] = &workCell{cellKey: k}
		}
		g.cells[k].merge(c)
	}
}

// sums merges the cells that pass into one.
func (g *workGroup) sums(pass func(*workCell) bool) (sum workCell) { return sumOf(g.of(pass)) }

// inOrder returns the cells in a deterministic order, because floating-point sums depend on it. It may be
// called only after all operators have come.
func (g *workGroup) inOrder() []*workCell {
	if len(g.ordered) != len(g.cells) {
		g.ordered = slices.SortedFunc(maps.Values(g.cells), compareCells)
	}
	return g.ordered
}

// of returns the cells that pass.
func (g *workGroup) of(pass func(*workCell) bool) (out []*workCell) {
	for _, c := range g.inOrder() {
		if pass(c) {
			out = append(out, c)
		}
	}
	return out
}

// sumOf is the sum of cells, without a name.
func sumOf(cells []*workCell) (sum workCell) {
	for _, c := range cells {
		sum.merge(c)
	}
	return sum
}

// rows merges cells of one name and type over the layers, the longest first.
func (g *workGroup) rows(pass func(*workCell) bool) []*workCell {
	by := map[cellKey]*workCell{}
	for _, c := range g.of(pass) {
		k := c.cellKey
		k.layer, k.op, k.block, k.team = -1, "", "", 0
		if by[k] == nil {
			by[k] = &workCell{cellKey: k}
		}
		by[k].merge(c)
	}
	return slices.SortedFunc(maps.Values(by), compareCells)
}

func compareCells(a, b *workCell) int {
	return cmp.Or(cmp.Compare(b.dur, a.dur), cmp.Compare(a.name, b.name), cmp.Compare(a.typ, b.typ),
		cmp.Compare(a.kind, b.kind), cmp.Compare(a.layer, b.layer),
		cmp.Compare(a.op, b.op), cmp.Compare(a.block, b.block), cmp.Compare(a.team, b.team))
}

// joined returns the groups by model, with those of the incomplete steps where there are no others. Disturbed
// steps are in them but for the phases of which without says otherwise; these are in apart.
func (w *Collector) joined(without func(facts.ModelKey) bool) (all, apart map[facts.ModelKey]*workGroup) {
	all, apart = map[facts.ModelKey]*workGroup{}, map[facts.ModelKey]*workGroup{}
	var whole map[facts.ModelKey]*workGroup
	for at, groups := range []map[facts.PhaseKey]*workGroup{w.whole, w.disturbed, w.part} {
		keys := slices.SortedFunc(maps.Keys(groups), func(a, b facts.PhaseKey) int {
			return cmp.Compare(groups[a].number, groups[b].number)
		})
		if at == 2 {
			whole = maps.Clone(all)
		}
		for _, k := range keys {
			m := facts.ModelKey{Phase: k.Phase, Model: w.Book.Index(k.Model)}
			if whole[m] != nil || groups[k].steps == 0 {
				continue // complete, or steps that never ended
			}
			to := all
			if at == 1 && without(m) {
				to = apart
			}
			if to[m] == nil {
				to[m] = newWorkGroup()
			}
			to[m].merge(groups[k])
		}
	}
	return all, apart
}
