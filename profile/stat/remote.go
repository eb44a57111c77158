// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/limits"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/summary"
)

// remoteKey identifies what is summed up together.
type remoteKey struct {
	phase          profile.Phase
	client, server int32
	backend        string
}

type remoteSum struct {
	steps                            int64
	graphs, sent, queued, computed   int64
	waited, whole, answered, ofWhole int64
	ops                              Group
	last                             *profile.Step // the latest step
	until, stepDur, stepsDone        int64         // of last: when all results were there
	tokens                           int64
	noTokens                         bool
}

// remoteSums collects the data of [summary.Remote].
type remoteSums struct {
	sums   map[remoteKey]*remoteSum
	handed map[remoteKey]int64 // graphs that were handed over and not linked; no phase, server 0
	copies map[remoteKey]*remoteCopies
}

// remoteCopies counts the bytes that steps copied to a backend and from it; server 0.
type remoteCopies struct {
	step, steps     int64
	to, from        int64
	toAny, fromAny  bool
	toHole, fromHol bool // the bytes of some copies are unknown
}

func (m *remoteSums) sum(k remoteKey) *remoteSum {
	if m.sums == nil {
		m.sums = map[remoteKey]*remoteSum{}
	}
	s := m.sums[k]
	if s == nil {
		if len(m.sums) >= limits.Models {
			return nil
		}
		s = &remoteSum{}
		m.sums[k] = s
	}
	return s
}

// keyFor returns the key of a graph that was computed for another process.
func keyFor(client, server *profile.Graph) remoteKey {
	k := remoteKey{client: client.PID, server: server.PID, backend: client.Backend}
	if server.CallerStep != nil {
		k.phase = server.CallerStep.Phase
	}
	return k
}

func (b *statState) remoteWanted(k remoteKey) bool {
	return (b.opts.PID == 0 || b.opts.PID == k.client || b.opts.PID == k.server) &&
		(b.wanted == nil || b.wanted[k.phase])
}

// remoteOp takes an operator that was computed for another process.
func (b *statState) remoteOp(o *profile.Op) {
	k := keyFor(o.Graph.Caller, o.Graph)
	if !b.remoteWanted(k) {
		return
	}
	if s := b.remote.sum(k); s != nil {
		var step int64
		if o.Graph.CallerStep != nil {
			step = o.Graph.CallerStep.ID
		}
		s.ops.op(b, o, step)
	}
}

// Remote takes a graph that one process computed for another.
func (b *statState) Remote(r *profile.Remote) error {
	k := keyFor(r.Client, r.Server)
	b.remote.unlinked(r.Client, -1)
	if !b.remoteWanted(k) {
		return nil
	}
	s := b.remote.sum(k)
	if s == nil {
		return nil
	}
	step := r.Server.CallerStep
	if step == nil || step != s.last {
		s.stepOver()
		s.steps++
		s.last, s.until = step, 0
	}
	s.graphs++
	s.sent += r.Sent()
	s.queued += r.Queued
	s.computed += r.Server.Dur
	if a, ok := r.Answered(); ok {
		s.waited++
		s.answered += a
		s.whole += r.Done - r.Client.Start
		s.ofWhole += r.Server.Dur + r.Queued
		s.until = max(s.until, r.Done)
	}
	return nil
}

// stepOver adds the end-to-end time of the latest step.
func (s *remoteSum) stepOver() {
	if s.last == nil || s.until == 0 {
		return
	}
	s.stepDur += max(s.until, s.last.Start+s.last.Dur) - s.last.Start
	s.stepsDone++
	if s.last.NTokens < 0 {
		s.noTokens = true
	} else {
		s.tokens += int64(s.last.NTokens)
	}
	s.last = nil
}

// unlinked counts graphs that were handed over to an unknown server.
func (m *remoteSums) unlinked(g *profile.Graph, n int64) {
	if !g.HandedOver() {
		return
	}
	if m.handed == nil {
		m.handed = map[remoteKey]int64{}
	}
	if k := (remoteKey{client: g.PID, backend: g.Backend}); len(m.handed) < limits.Models ||
		m.handed[k] != 0 {
		m.handed[k] += n
	}
}

// remoteCopied takes a copy of a step.
func (b *statState) remoteCopied(c *profile.Copy) {
	words := c.Vocabulary()
	to, from := words.HandsOver(c.To), words.HandsOver(c.From)
	if c.Step == nil || c.Step.Incomplete != "" || to == from {
		return
	}
	k := remoteKey{phase: c.Step.Phase, client: c.PID, backend: c.To}
	if from {
		k.backend = c.From
	}
	m := &b.remote
	if m.copies == nil {
		m.copies = map[remoteKey]*remoteCopies{}
	}
	x := m.copies[k]
	if x == nil {
		if len(m.copies) >= limits.Models {
			return
		}
		x = &remoteCopies{}
		m.copies[k] = x
	}
	if x.step != c.Step.ID {
		x.step = c.Step.ID
		x.steps++
	}
	if to {
		x.toAny, x.toHole = true, x.toHole || c.Bytes < 0
		x.to += max(0, c.Bytes)
	} else {
		x.fromAny, x.fromHol = true, x.fromHol || c.Bytes < 0
		x.from += max(0, c.Bytes)
	}
}

// finishRemote computes the statistics of what was handed over, most computed first, with the groups that
// hold their rows.
func (b *Builder) finishRemote(s *summary.Stat) (out []summary.Remote, groups []*Group) {
	type computed struct {
		summary.Remote
		g *Group
	}
	var all []computed
	comm := func(pid int32) string {
		for i := range s.Run.Processes {
			if s.Run.Processes[i].PID == pid {
				return s.Run.Processes[i].Comm
			}
		}
		return ""
	}
	for k, x := range b.remote.sums {
		if x.graphs == 0 {
			continue
		}
		x.stepOver()
		n := float64(x.graphs)
		own := remoteKey{phase: k.phase, client: k.client, backend: k.backend}
		r := summary.Remote{Phase: k.phase, Backend: k.backend, ClientPID: k.client, ServerPID: k.server,
			ClientComm: comm(k.client), ServerComm: comm(k.server),
			Steps: x.steps, Graphs: x.graphs, Unlinked: max(0,
				b.remote.handed[remoteKey{client: k.client, backend: k.backend}]), Sent: float64(x.sent) / n,
			Queued:   float64(x.queued) / n,
			Computed: float64(x.computed) / n, Waited: x.waited, Client: num.Share(x.whole,
				x.waited), Answered: num.Share(x.answered, x.waited),
			Wire: num.Share(x.whole-x.ofWhole, x.waited), StepDur: num.Share(x.stepDur, x.stepsDone)}
		if x.stepDur > 0 && !x.noTokens {
			r.TokensPerS = num.Ratio(float64(x.tokens)*1e9, float64(x.stepDur))
		}
		g := &x.ops
		if g.Ops > 0 {
			r.Operators = num.Share(g.OpsDur-g.Probe, x.graphs)
			all := g.Busy + g.Wait + g.Off
			r.WaitShare = num.Share(g.Wait, all)
			if b.sched.Any || b.offCPU {
				r.OffCPU = num.Share(g.Off, all)
			}
		}
		if c := b.remote.copies[own]; c != nil && c.steps > 0 {
			if c.toAny && !c.toHole {
				r.ToServer = num.Share(c.to, c.steps)
			}
			if c.fromAny && !c.fromHol {
				r.FromServer = num.Share(c.from, c.steps)
			}
		}
		g.Traced, g.TracedDur, g.dur = x.steps, x.computed, x.computed
		all = append(all, computed{r, g})
	}
	slices.SortFunc(all, func(x, y computed) int {
		return cmp.Or(cmp.Compare(y.Computed*float64(y.Graphs), x.Computed*float64(x.Graphs)),
			cmp.Compare(x.Phase, y.Phase), cmp.Compare(x.ClientPID, y.ClientPID),
			cmp.Compare(x.ServerPID, y.ServerPID), cmp.Compare(x.Backend, y.Backend))
	})
	for _, x := range all {
		out, groups = append(out, x.Remote), append(groups, x.g)
	}
	return out, groups
}
