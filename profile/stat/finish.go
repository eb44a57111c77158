// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/internal/sketch"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/sched"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// Finish computes the statistics by Options.By. h is what Replay returned; the builder must not be used
// afterwards.
func (b *Builder) Finish(h *profile.Header) *summary.Stat { return b.FinishEach(h)[0] }

// FinishEach computes the statistics of each grouping: by Options.By, then by Options.Further. They share
// what is common to all.
func (b *Builder) FinishEach(h *profile.Header) []*summary.Stat {
	s, groups := b.finish(h)
	out := make([]*summary.Stat, len(b.by))
	for at, by := range b.by {
		v := *s
		v.By, v.Phases, v.Remote = by, slices.Clone(s.Phases), slices.Clone(s.Remote)
		for i := range v.Phases {
			ps := &v.Phases[i]
			if ps.Rows = []summary.Row{}; by != facts.ByExpert {
				ps.Rows, ps.Rest, ps.RestRows = b.rows(groups.phases[i], at)
			}
			if by == facts.ByStep {
				v.Lost.StepRows += groups.phases[i].dropped
			}
		}
		for i := range v.Remote {
			if v.Remote[i].Rows = []summary.Row{}; by != facts.ByExpert {
				v.Remote[i].Rows, _, _ = b.rows(groups.remote[i], at)
			}
		}
		if b.outside.Ops > 0 {
			v.Outside = &summary.Outside{Ops: b.outside.Ops, OpsDur: b.outside.OpsDur}
			v.Outside.Rows, _, _ = b.rows(&b.outside, at)
		}
		out[at] = &v
	}
	var peaks *roof.Peaks
	if b.opts.Peaks != nil {
		peaks = b.opts.Peaks(h)
	}
	b.work.Start, b.work.SetHeld = b.first, b.sched.SetHeld
	b.work.Judge(out, peaks, b.sched.MayUse())
	return out
}

// finished are the groups whose rows are in a Stat, in its order.
type finished struct{ phases, remote []*Group }

// finish computes what does not depend on the grouping.
func (b *Builder) finish(h *profile.Header) (s *summary.Stat, groups finished) {
	s = &summary.Stat{SchemaVersion: summary.Schema, MaxError: sketch.HistogramError,
		HasSched: b.sched.Any, HasOffCPU: b.sched.Any || b.offCPU,
		Models: b.book.List(), Phases: []summary.Phase{}, Threads: []summary.Thread{}}
	s.Counters = summary.CountersOf(h.Meta.Counters)
	b.counters = len(s.Counters)
	f := h.Meta.Filter()
	b.filtered = f.PartOfSteps()
	b.finishRun(s, h)
	s.Faults = b.faults.Finish(h)
	s.Run.Filter = h.Meta.FilterText()
	s.Run.Budget, s.Run.MinTPS = h.Meta.Extra["budget"], h.Meta.Extra["min_tps"]
	whole, part, disturbed := b.byModel(b.whole), b.byModel(b.part), b.byModel(b.disturbed)
	for _, p := range []profile.Phase{profile.Prefill, profile.Decode, profile.Encode, profile.Unknown} {
		for m := -1; m < b.book.Count(); m++ {
			k := facts.ModelKey{Phase: p, Model: m}
			g, only := whole[k], false
			if g == nil || g.Steps == 0 {
				g, only = part[k], true
			}
			if g == nil || g.Steps == 0 {
				continue // none, or steps that never ended
			}
			var outer *summary.Disturbed
			var calm stepSum
			if !only {
				if d := disturbed[k]; d != nil {
					calm = d.stepSum
				}
				outer = b.addDisturbed(g, disturbed[k])
			}
			ps := b.phase(p, g)
			ps.OnlyPartial, ps.Disturbed = only, outer
			undisturbed(&ps, g, &calm)
			if m >= 0 {
				ps.Model = &m
			}
			if o := part[k]; o != nil {
				ps.Partial = o.Steps
			}
			s.Phases = append(s.Phases, ps)
			groups.phases = append(groups.phases, g)
			b.addThreads(s, h, g)
		}
	}
	s.Offload = b.offload.Finish()
	s.Remote, groups.remote = b.finishRemote(s)
	b.finishThreads(s)
	q := b.requests.Summary(h, b.book)
	if q.Seen > 0 || q.Warmups > 0 {
		s.Sequences = q
	}
	t := &b.requests.First
	s.TTFT = summary.TTFT{Sequences: t.Ttft.Hist.N, Unknown: t.Unknown, Pending: t.Pending}
	if n := t.Ttft.Hist.N; n > 0 {
		d := requests.SpreadOf(&t.Ttft.Hist, float64(t.Ttft.Sum), float64(t.Ttft.Max))
		s.TTFT.Mean, s.TTFT.P50, s.TTFT.P95, s.TTFT.P99 = d.Mean, &d.P50, d.P95, d.P99
		s.TTFT.Max = &t.Ttft.Max
		if q.TTFT != nil && q.TTFT.Mean == nil {
			s.TTFT.Mean = nil
		}
	}
	s.CPUUse, s.Batches = b.cpus.finish(b, h.Meta.Cores), b.batches.finish()
	s.ByThreads = b.teams.finish(&b.statState, s)
	return s, groups
}

// byModel merges groups whose models turned out to be one.
func (b *Builder) byModel(groups map[facts.PhaseKey]*Group) map[facts.ModelKey]*Group {
	out := map[facts.ModelKey]*Group{}
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b facts.PhaseKey) int {
		return cmp.Compare(groups[a].Number, groups[b].Number)
	})
	for _, k := range keys {
		g := groups[k]
		m := facts.ModelKey{Phase: k.Phase, Model: b.book.Index(k.Model)}
		if out[m] == nil {
			out[m] = &Group{}
		}
		out[m].Merge(g)
	}
	return out
}

func (b *Builder) finishRun(s *summary.Stat, h *profile.Header) {
	m := &h.Meta
	s.Run = summary.Run{Tool: m.Tool, Command: num.List(m.Command), Host: m.Host, Kernel: m.Kernel,
		Arch: m.Arch,
		CPU:  m.CPU, Cores: m.Cores, Level: m.Level, Steps: b.steps, Operators: b.ops,
		Dur: max(0, b.last-b.first), Notes: num.List(m.Notes), Processes: []summary.Process{}}
	if m.Realtime > 0 {
		s.Run.Recorded = &m.Realtime
	}
	if h.Part != nil {
		s.Run.Part = h.Part.String()
	}
	if from, to := h.Shown(); to > from && b.opts.PID == 0 {
		s.Run.Dur = to - from
	}
	for i := range h.Processes {
		p := &h.Processes[i]
		if b.opts.PID != 0 && p.PID != b.opts.PID {
			continue
		}
		q := summary.Process{PID: p.PID, Comm: p.Comm, Engine: p.Engine, EngineVersion: p.EngineVersion,
			GGMLVersion: p.GGMLVersion, Command: num.List(p.Cmdline), Warnings: num.List(p.Warnings)}
		if st := b.procs[p.PID]; st != nil {
			q.Threads, q.Steps, q.CPUVariant = st.team, st.steps,
				profile.VocabularyOf(p.Engine).Variant(st.library)
			if st.library == "" && len(p.Files) == 1 {
				q.CPUVariant = profile.VocabularyOf(p.Engine).Variant(p.Files[0].Path)
			}
		}
		s.Run.Processes = append(s.Run.Processes, q)
	}
	s.Run.ProbeShare = b.probeShare(h)
	l := &s.Lost
	*l = b.lost
	l.Untraced = []summary.UntracedSteps{}
	for why, n := range b.why {
		l.Untraced = append(l.Untraced, summary.UntracedSteps{Why: why, Steps: n})
	}
	slices.SortFunc(l.Untraced, func(a, b summary.UntracedSteps) int {
		return cmp.Or(cmp.Compare(b.Steps, a.Steps), cmp.Compare(a.Why, b.Why))
	})
	l.Torn, l.Cut, l.Spans, l.ByWhy = h.Torn, h.End == nil, len(h.Losses), []summary.LostBy{}
	for i := range h.Losses {
		x := &h.Losses[i]
		if x.Why == trace.WhyLost {
			l.Events += x.Events
		}
		d := max(0, x.End-x.Start)
		if x.Why == trace.WhyThrottled {
			l.ThrottledNs += d
		}
		at := slices.IndexFunc(l.ByWhy, func(e summary.LostBy) bool {
			return e.Why == x.Why && e.What == x.What
		})
		if at < 0 {
			at = len(l.ByWhy)
			l.ByWhy = append(l.ByWhy, summary.LostBy{Why: x.Why, What: x.What})
		}
		e := &l.ByWhy[at]
		e.Spans++
		e.Events += x.Events
		e.Dur += d
	}
}

// probeShare estimates the fraction of the threads' time in operators that their probes took: each operator
// and thread hits a begin and an end, at the cost measured when the recording started.
func (b *Builder) probeShare(h *profile.Header) *float64 {
	if b.threadTime <= 0 || len(h.Meta.ProbeCost) == 0 {
		return nil
	}
	var cost float64
	for _, role := range []trace.Role{trace.RoleOpBegin, trace.RoleOpEnd} {
		var dearest int64
		for i := range h.Processes {
			for j := range h.Processes[i].Sites {
				if site := &h.Processes[i].Sites[j]; site.Role == role {
					dearest = max(dearest, h.Meta.ProbeCost[site.Class])
				}
			}
		}
		if dearest == 0 {
			return nil
		}
		hits := b.threadHits
		if role == trace.RoleOpBegin {
			hits -= b.followed
		}
		cost += float64(dearest) * float64(hits)
	}
	return num.Ratio(cost, float64(b.threadTime))
}

// phase computes one phase's figures.
func (b *Builder) phase(p profile.Phase, g *Group) summary.Phase {
	ps := summary.Phase{Phase: string(p), Traced: g.Traced, TracedDur: g.TracedDur, Ops: g.Ops}
	fillSteps(&ps, p, g)
	if p == profile.Unknown {
		ps.Phase = "unknown"
	}
	ps.Experts = g.experts.Finish()
	ps.Backends = []summary.Backend{}
	for name, e := range g.backends {
		ps.Backends = append(ps.Backends,
			summary.Backend{Backend: name, Graphs: e.graphs, Dur: e.dur, Share: num.Share(e.dur, g.TracedDur),
				Submits: e.submits})
	}
	slices.SortFunc(ps.Backends, func(a, b summary.Backend) int {
		return cmp.Or(cmp.Compare(b.Dur, a.Dur), cmp.Compare(a.Backend, b.Backend))
	})
	if len(g.backends) > 0 {
		ps.BackendDur, ps.Backend = &g.Elsewhere, num.Share(g.Elsewhere, g.TracedDur)
	}
	if g.Ops > 0 {
		overlap, gap := g.OpsDur-g.Covered, g.TracedDur-g.Covered-g.Elsewhere
		ps.OpsDur, ps.Overlap, ps.Probe = &g.OpsDur, &overlap, &g.Probe
		if g.Unsorted == 0 {
			ps.MatMul, ps.Attn = num.Share(g.Matmul, g.TracedDur), num.Share(g.Attn, g.TracedDur)
		}
		if !b.filtered { // otherwise the missing time is not time outside operators
			ps.Gap = &gap
			if g.Unsorted == 0 {
				ps.Other = num.Share(g.OpsDur-g.Probe-g.Matmul-g.Attn, g.TracedDur)
			}
			ps.GapShare = num.Share(gap, g.TracedDur)
			ps.ProbeShare = num.Share(g.Probe, g.TracedDur)
		}
		all := g.Busy + g.Wait + g.Off
		ps.Wait = num.Share(g.Wait, all)
		if b.sched.Any || b.offCPU {
			ps.OffCPU = num.Share(g.Off, all)
		}
		ps.GBps = num.PerSecond(g.Bytes, g.BytesDur)
		ps.MatMulGBps = num.PerSecond(g.mmBytes, g.mmDur)
	}
	return ps
}

// rows returns a group's rows of a grouping in display order: by time; layers and steps by number.
func (b *Builder) rows(g *Group, at int) (rows []summary.Row, rest *summary.Row, left int) {
	by := b.by[at]
	all := slices.Collect(maps.Values(g.rowsBy(at)))
	slices.SortFunc(all, func(a, b *summary.RowSum) int {
		return cmp.Or(cmp.Compare(b.Row.Dur, a.Row.Dur), cmp.Compare(a.Row.Key, b.Row.Key),
			cmp.Compare(a.Row.Type, b.Row.Type))
	})
	if b.opts.Top > 0 && len(all) > b.opts.Top {
		var r summary.RowSum
		for _, o := range all[b.opts.Top:] {
			r.Merge(o)
		}
		left = len(all) - b.opts.Top
		all = all[:b.opts.Top]
		v := b.row(&r, g, by)
		v.Key = "other"
		rest = &v
	}
	if by == facts.ByLayer || by == facts.ByStep {
		slices.SortFunc(all, func(a, b *summary.RowSum) int {
			x, errX := strconv.ParseInt(a.Row.Key, 10, 64)
			y, errY := strconv.ParseInt(b.Row.Key, 10, 64)
			if errX != nil || errY != nil { // "none" comes last
				return cmp.Compare(a.Row.Key, b.Row.Key)
			}
			return cmp.Compare(x, y)
		})
	}
	rows = make([]summary.Row, len(all))
	for i, r := range all {
		rows[i] = b.row(r, g, by)
	}
	return rows, rest, left
}

func (b *Builder) row(r *summary.RowSum, g *Group, by facts.By) summary.Row {
	v := r.Row
	net := v.Dur - v.Probe
	if g.Traced > 0 {
		v.CallsPerStep = float64(v.Calls) / float64(g.Traced)
		v.DurPerStep = float64(net) / float64(g.Traced)
	}
	v.Share = num.Share(net, g.TracedDur)
	if by == facts.ByStep {
		v.Share = num.Share(net, g.dur)
	}
	if v.Calls > 0 {
		v.Mean = float64(net) / float64(v.Calls)
		v.P50, v.P95 = r.Hist.Quantile(0.5), r.Hist.Quantile(0.95)
		v.Counts = r.StatCounts(b.counters)
	}
	if r.HasBytes {
		v.Bytes = &r.Bytes
		v.BytesAtMost = r.AtMost
		v.GBps = num.PerSecond(r.Bytes, r.BytesDur)
	}
	if r.HasFlop {
		v.Flops = &r.Flops
		v.GFlops = num.PerSecond(r.Flops, r.FlopsDur)
	}
	if r.HasBoth {
		v.Intensity = num.Share(r.Both, r.BothBytes)
	}
	all := v.Busy + v.Wait + v.OffCPU
	v.WaitShare = num.Share(v.Wait, all)
	if b.sched.Any || b.offCPU {
		v.OffShare = num.Share(v.OffCPU, all)
	}
	if r.AllBusy > 0 {
		im := max(0, r.MaxBusy/float64(r.AllBusy)-1)
		v.Imbalance = &im
	}
	return v
}

// dropShortest removes all rows but the keep longest, and returns how many.
func dropShortest(rows map[string]*summary.RowSum, keep int) int64 {
	keys := make([]string, 0, len(rows))
	for k := range rows {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(rows[b].Row.Dur, rows[a].Row.Dur), cmp.Compare(a, b))
	})
	for _, k := range keys[min(keep, len(keys)):] {
		delete(rows, k)
	}
	return int64(max(0, len(keys)-keep))
}

// addThreads adds a phase's threads to those of the whole run.
func (b *Builder) addThreads(s *summary.Stat, h *profile.Header, g *Group) {
	for tid, t := range g.Threads {
		at := slices.IndexFunc(s.Threads, func(e summary.Thread) bool {
			return e.TID == tid && e.PID == t.Pid
		})
		if at < 0 {
			at = len(s.Threads)
			e := summary.Thread{PID: t.Pid, TID: tid}
			for i := range h.Threads {
				if h.Threads[i].TID == tid && h.Threads[i].PID == t.Pid {
					e.Comm, e.Role = h.Threads[i].Comm, h.Threads[i].Role
				}
			}
			s.Threads = append(s.Threads, e)
		}
		e := &s.Threads[at]
		e.Ops += t.Ops
		e.Busy += t.Busy
		e.Wait += t.Wait
		e.OffCPU += t.Off
		e.Steps += t.Steps
	}
}

// taken returns the first five who took CPUs. An idle CPU was taken by nobody: the woken thread was about to run
// there.
func taken(all []sched.Culprit) []sched.Culprit {
	all = slices.DeleteFunc(all, func(c sched.Culprit) bool { return !c.Own && c.Comm == "(idle)" })
	return all[:min(5, len(all))]
}

func (b *Builder) finishThreads(s *summary.Stat) {
	type team struct{ busy, steps int64 }
	teams := map[int32]*team{}
	for i := range s.Threads {
		t := &s.Threads[i]
		m := teams[t.PID]
		if m == nil {
			m = &team{}
			teams[t.PID] = m
		}
		m.busy += t.Busy
		m.steps += t.Steps
	}
	for i := range s.Threads {
		t := &s.Threads[i]
		t.Idle = max(0, t.Steps-t.Busy-t.Wait-t.OffCPU)
		t.Util = num.Share(t.Busy, t.Steps)
		// Threads can come and go with each graph, so busy is compared as a fraction of the steps that a
		// thread took part in.
		if m := teams[t.PID]; m.busy > 0 && t.Util != nil {
			v := *t.Util*float64(m.steps)/float64(m.busy) - 1
			t.Imbalance = &v
		}
		t.Instead, t.WokenBy = []sched.Culprit{}, []sched.Culprit{}
		if w := b.sched.Threads[t.TID]; w != nil && b.sched.Any {
			t.Preempted, t.Slept, t.Runnable = &w.Preempted, &w.Slept, &w.Runnable
			t.Instead, t.WokenBy = taken(sched.TopCulprits(w.Instead, 6)), sched.TopCulprits(w.WokenBy, 5)
			b.sched.SetHeld(t.Instead)
		}
	}
	slices.SortFunc(s.Threads, func(a, b summary.Thread) int {
		main := func(t summary.Thread) int {
			if t.Role == "main" {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(main(a), main(b)), cmp.Compare(b.Ops, a.Ops),
			cmp.Compare(a.TID, b.TID))
	})
}
