// SPDX-License-Identifier: Apache-2.0

// Package merge sorts the events of a trace by time, because recorders drain one ring after the other.
package merge

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/trace"
)

// Merger sorts the events of a trace by time. A recorder drains one ring after the other, so events come as
// runs by CPU. A drain's watermark guarantees that everything older has been written. A program can be
// preempted between taking the time and writing, so events are held back for one more drain.
//
// Events with equal times keep the order in which they came, after scheduling and boundary events.
type Merger struct {
	Runs  hitMerge
	marks []trace.Mark
	sched []trace.Sched
	fault []trace.Fault
	// switches are samples of threads that leave or get a CPU; samples of hits do not come here.
	switches []trace.Sample
	choices  []trace.Experts
	seqs     map[batchKey][]trace.StepSeq
	Held     int64 // watermark of the previous drain
}

type batchKey struct {
	time int64
	tid  int32
}

// Handler receives events in time order.
type Handler interface {
	Hit(*trace.Hit) error
	Mark(*trace.Mark, []trace.StepSeq) error
	Switched(*trace.Sched) error
	Sampled(*trace.Sample)
	Faulted(*trace.Fault) error
	Choose(*trace.Experts) // before the hits of the same span between other events
}

// Add takes a block's events. Its hits belong to the merger until it calls Runs.Free with them.
func (m *Merger) Add(b *trace.Block) {
	m.Runs.add(b.Hits)
	m.marks = append(m.marks, b.Marks...)
	m.sched = append(m.sched, b.Sched...)
	m.fault = append(m.fault, b.Faults...)
	for i := range b.Samples {
		if k := b.Samples[i].Kind; k == trace.SampleOff || k == trace.SampleOn {
			m.switches = append(m.switches, b.Samples[i])
		}
	}
	m.choices = append(m.choices, b.Experts...)
	m.addSeqs(b.StepSeqs)
}

func (m *Merger) addSeqs(s []trace.StepSeq) {
	if len(s) > 0 && m.seqs == nil {
		m.seqs = make(map[batchKey][]trace.StepSeq)
	}
	for _, q := range s {
		k := batchKey{q.Time, q.TID}
		m.seqs[k] = append(m.seqs[k], q)
	}
}

// Drained emits all events older than the previous watermark.
func (m *Merger) Drained(watermark int64, to Handler) error {
	limit := m.Held
	m.Held = watermark
	return m.emit(limit, to)
}

const EndOfTime = int64(^uint64(0) >> 1)

// Rest emits all remaining events.
func (m *Merger) Rest(to Handler) error { return m.emit(EndOfTime, to) }

func (m *Merger) emit(limit int64, to Handler) error {
	slices.SortStableFunc(m.marks, func(a, b trace.Mark) int { return cmp.Compare(a.Time, b.Time) })
	slices.SortStableFunc(m.sched, func(a, b trace.Sched) int { return cmp.Compare(a.Time, b.Time) })
	slices.SortStableFunc(m.switches, func(a, b trace.Sample) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Kind, b.Kind))
	})
	sortFaults(m.fault)
	m.sortChoices()
	var k, s, c, f int
	for {
		tk, ts, tc, tf := EndOfTime, EndOfTime, EndOfTime, EndOfTime
		if f < len(m.fault) {
			tf = m.fault[f].Time
		}
		if c < len(m.switches) {
			tc = m.switches[c].Time
		}
		if k < len(m.marks) {
			tk = m.marks[k].Time
		}
		if s < len(m.sched) {
			ts = m.sched[s].Time
		}
		t := min(tk, ts, tc, tf, limit)
		m.emitChoices(t, to)
		if err := m.Runs.emit(t, to); err != nil {
			return err
		}
		if t >= limit {
			break
		}
		var err error
		switch t { // a thread is on its CPU before it does anything
		case ts:
			err = to.Switched(&m.sched[s])
			s++
		case tc:
			to.Sampled(&m.switches[c])
			c++
		case tf:
			err = to.Faulted(&m.fault[f])
			f++
		default:
			mk := &m.marks[k]
			var seqs []trace.StepSeq
			if mk.Kind == trace.MarkStepBegin {
				key := batchKey{mk.Time, mk.TID}
				seqs = m.seqs[key]
				delete(m.seqs, key)
			}
			err = to.Mark(mk, seqs)
			k++
		}
		if err != nil {
			return err
		}
	}
	m.marks = slices.Delete(m.marks, 0, k)
	m.sched = slices.Delete(m.sched, 0, s)
	m.switches = slices.Delete(m.switches, 0, c)
	m.fault = slices.Delete(m.fault, 0, f)
	return nil
}

// emitChoices emits choices up to a time, in time order.
func (m *Merger) emitChoices(limit int64, to Handler) {
	if len(m.choices) == 0 {
		return
	}
	i := 0
	for i < len(m.choices) && m.choices[i].Time < limit {
		to.Choose(&m.choices[i])
		i++
	}
	m.choices = slices.Delete(m.choices, 0, i)
}

func (m *Merger) sortChoices() {
	slices.SortStableFunc(m.choices, func(a, b trace.Experts) int { return cmp.Compare(a.Time, b.Time) })
}

func sortFaults(fs []trace.Fault) {
	slices.SortStableFunc(fs, func(a, b trace.Fault) int { return cmp.Compare(a.Time, b.Time) })
}
