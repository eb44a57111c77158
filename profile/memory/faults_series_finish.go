// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/num"
)

// Finish returns the series; nil where faults were not recorded. h is what the replay returned.
func (b *SeriesBuilder) Finish(h *profile.Header) *Series {
	if !b.on && h.Meta.Extra["faults"] == "" {
		return nil
	}
	s := &Series{SchemaVersion: FaultSeriesSchema, Timed: h.Meta.Extra["fault_times"] != "off",
		Phases: []FaultSteps{}, Names: []FaultRow{},
		Experts: []FaultExperts{}, Operators: []DelayedOperator{}, OpsLeft: b.opLeft, Files: b.files.Maps()}
	for _, p := range b.order {
		s.Phases = append(s.Phases, *b.phases[p])
	}
	slices.SortStableFunc(s.Phases, func(x, y FaultSteps) int {
		return cmp.Compare(phaseOrder(x.Phase), phaseOrder(y.Phase))
	})
	b.finishNames(s)
	b.finishExperts(s)
	b.finishOperators(s)
	if !s.Timed {
		s.untimed()
	}
	s.Marks = b.marks.finish(h.First)
	return s
}

func (b *SeriesBuilder) finishNames(s *Series) {
	for _, r := range b.names {
		slices.SortFunc(r.Layers, func(x, y FaultCell) int { return cmp.Compare(x.Layer, y.Layer) })
		if r.Layers == nil {
			r.Layers = []FaultCell{}
		}
		s.Names = append(s.Names, r.FaultRow)
	}
	slices.SortFunc(s.Names, func(x, y FaultRow) int { return byFaultWait(x.FaultSum, y.FaultSum) })
	s.NamesLeft = b.left + max(0, len(s.Names)-maxFaultRows)
	s.Names = s.Names[:min(len(s.Names), maxFaultRows)]
}

func (b *SeriesBuilder) finishOperators(s *Series) {
	for _, r := range b.rows {
		if r.faulted == 0 && r.read == 0 {
			continue
		}
		wait, delay := r.wait, r.delay
		s.Operators = append(s.Operators,
			DelayedOperator{Phase: string(r.phase), InStep: r.in, Key: r.key, Type: r.typ, Weight: r.weight,
				Calls: r.calls, Faulted: r.faulted, Dur: r.dur, Major: r.major, Wait: &wait, Delay: &delay,
				Share: num.Share(delay, r.dur), Read: r.read})
	}
	slices.SortFunc(s.Operators, func(x, y DelayedOperator) int {
		return cmp.Or(cmp.Compare(*y.Delay, *x.Delay), cmp.Compare(y.Major, x.Major),
			cmp.Compare(y.Read, x.Read), cmp.Compare(x.Key, y.Key),
			cmp.Compare(x.Type, y.Type), cmp.Compare(x.Phase, y.Phase))
	})
	s.OpsLeft += max(0, len(s.Operators)-maxFaultRows)
	s.Operators = s.Operators[:min(len(s.Operators), maxFaultRows)]
}

// finishExperts adds what is known of experts that no fault hit, and how much of them was in memory.
func (b *SeriesBuilder) finishExperts(s *Series) {
	for pid, p := range b.files.procs {
		p.q.LearnInto(&p.where)
		in := p.expertsInFiles()
		unknown := map[*FaultExpertLayer]bool{} // one of its weights is in no file
		seen := map[string]bool{}
		for i := range p.where.Leaves() {
			t := &p.where.Leaves()[i]
			name := t.Place.Tensor
			if t.Plane == 0 || t.Experts <= 0 || t.Experts > maxExpertsOfLayer || seen[name] {
				continue
			}
			seen[name] = true
			l := b.experts(faultLayer{pid, p.words.WeightLayer(name)}, int(t.Experts))
			if l == nil {
				continue
			}
			if unknown[l] = unknown[l] || len(in[name]) != int(t.Experts) || l.Bytes > 0 &&
				len(l.InEnd) != int(t.Experts); unknown[l] {
				l.InEnd = nil
			} else if l.InEnd == nil {
				l.InEnd = slices.Clone(in[name])
			} else {
				for e, v := range in[name] {
					l.InEnd[e] += v
				}
			}
			l.Bytes += int64(t.Plane)
		}
	}
	byPID := map[int32]*FaultExperts{}
	for k, l := range b.expert {
		x := byPID[k.pid]
		if x == nil {
			x = &FaultExperts{PID: k.pid}
			byPID[k.pid] = x
		}
		x.Experts = max(x.Experts, len(l.Major))
		x.Layers = append(x.Layers, *l)
	}
	for k := range b.lost {
		if x := byPID[k.pid]; x != nil {
			x.Left++
		}
	}
	for _, x := range byPID {
		slices.SortFunc(x.Layers, func(a, b FaultExpertLayer) int { return cmp.Compare(a.Layer, b.Layer) })
		s.Experts = append(s.Experts, *x)
	}
	slices.SortFunc(s.Experts, func(a, b FaultExperts) int { return cmp.Compare(a.PID, b.PID) })
}

// expertsInFiles returns, for each tensor with experts, how much of each was in memory at the end. It leaves
// out names that stand for several tensors.
func (p *residentProc) expertsInFiles() map[string][]int64 {
	out := map[string][]int64{}
	for _, k := range p.order {
		for _, t := range p.file(0, k).Tensors {
			if t.Experts == nil {
				continue
			}
			if _, ok := out[t.Tensor]; ok {
				out[t.Tensor] = nil
				continue
			}
			out[t.Tensor] = t.Experts
		}
	}
	return out
}

// untimed removes times, which are unknown.
func (s *Series) untimed() {
	for i := range s.Phases {
		for k := range s.Phases[i].Steps {
			p := &s.Phases[i].Steps[k]
			p.Wait, p.Wall = nil, nil
		}
	}
	for i := range s.Names {
		s.Names[i].Wait = nil
		for k := range s.Names[i].Layers {
			s.Names[i].Layers[k].Wait = nil
		}
	}
	for i := range s.Experts {
		for k := range s.Experts[i].Layers {
			s.Experts[i].Layers[k].Wait = nil
		}
	}
	for i := range s.Operators {
		o := &s.Operators[i]
		o.Wait, o.Delay, o.Share = nil, nil, nil
	}
}
