// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Finish computes the statistics. Header is what Replay returned; the builder takes no more.
func (b *StatBuilder) Finish(h *Header) *Stat {
	s := &Stat{SchemaVersion: StatSchema, By: b.opts.By, MaxError: histogramError,
		HasSched: b.sched.any, HasOffCPU: b.sched.any || b.offCPU,
		Models: b.models.list(), Phases: []PhaseStat{}, Threads: []ThreadStat{}}
	s.Counters = statCounters(h.Meta.Counters)
	b.counters = len(s.Counters)
	f := h.Meta.Extra["filter"]
	b.filtered = strings.Contains(f, "op=") || strings.Contains(f, "tid=")
	b.finishRun(s, h)
	s.Faults = b.faults.finish(h)
	s.Run.Filter = f
	s.Run.Budget, s.Run.MinTPS = h.Meta.Extra["budget"], h.Meta.Extra["min_tps"]
	whole, part := b.byModel(b.whole), b.byModel(b.part)
	for _, p := range []Phase{Prefill, Decode, Encode, Unknown} {
		for m := -1; m < len(b.models.models); m++ {
			k := modelKey{p, m}
			g, only := whole[k], false
			if g == nil || g.steps == 0 {
				g, only = part[k], true
			}
			if g == nil || g.steps == 0 {
				continue // none, or steps that never ended
			}
			ps := b.phase(p, g)
			ps.OnlyPartial = only
			if m >= 0 {
				ps.Model = &m
			}
			if o := part[k]; o != nil {
				ps.Partial = o.steps
			}
			s.Lost.StepRows += g.dropped
			s.Phases = append(s.Phases, ps)
			b.addThreads(s, h, g)
		}
	}
	s.Offload = b.offload.finish()
	s.Remote = b.finishRemote(s)
	b.finishThreads(s)
	if b.outside.ops > 0 {
		o := &OutsideStat{Ops: b.outside.ops, OpsDur: b.outside.opsDur}
		o.Rows, _, _ = b.rows(&b.outside)
		s.Outside = o
	}
	q := b.requests.finish(h, &b.models)
	if q.Seen > 0 || q.Warmups > 0 {
		s.Sequences = q
	}
	t := &b.requests.first
	s.TTFT = TTFT{Sequences: t.ttft.hist.n, Unknown: t.unknown, Pending: t.pending}
	if n := t.ttft.hist.n; n > 0 {
		s.TTFT.Mean = share(t.ttft.sum, n)
		s.TTFT.Max = &t.ttft.max
		p95 := min(t.ttft.hist.quantile(0.95), float64(t.ttft.max))
		s.TTFT.P95 = &p95
	}
	s.ByThreads = b.teams.finish(&b.statState, s)
	b.work.judge(s, b.opts.Peaks, b.sched.mayUse())
	return s
}

// byModel joins groups whose models turned out to be one.
func (b *StatBuilder) byModel(groups map[groupKey]*group) map[modelKey]*group {
	out := map[modelKey]*group{}
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b groupKey) int { return cmp.Compare(groups[a].number, groups[b].number) })
	for _, k := range keys {
		g := groups[k]
		m := modelKey{k.phase, b.models.index(k.model)}
		if out[m] == nil {
			out[m] = &group{}
		}
		out[m].merge(g)
	}
	return out
}

func (b *StatBuilder) finishRun(s *Stat, h *Header) {
	m := &h.Meta
	s.Run = StatRun{Tool: m.Tool, Command: list(m.Command), Host: m.Host, Kernel: m.Kernel, Arch: m.Arch,
		CPU: m.CPU, Cores: m.Cores, Level: m.Level, Steps: b.steps, Operators: b.ops,
		Dur: max(0, b.last-b.first), Notes: list(m.Notes), Processes: []StatProcess{}}
	if m.Realtime > 0 {
		s.Run.Recorded = &m.Realtime
	}
	if h.Last > h.First && b.opts.PID == 0 {
		s.Run.Dur = h.Last - h.First
	}
	for i := range h.Processes {
		p := &h.Processes[i]
		if b.opts.PID != 0 && p.PID != b.opts.PID {
			continue
		}
		q := StatProcess{PID: p.PID, Comm: p.Comm, Engine: p.Engine, EngineVersion: p.EngineVersion,
			GGMLVersion: p.GGMLVersion, Command: list(p.Cmdline), Warnings: list(p.Warnings)}
		if st := b.procs[p.PID]; st != nil {
			q.Threads, q.Steps, q.CPUVariant = st.team, st.steps, cpuVariant(st.library)
			if st.library == "" && len(p.Files) == 1 {
				q.CPUVariant = cpuVariant(p.Files[0].Path)
			}
		}
		s.Run.Processes = append(s.Run.Processes, q)
	}
	s.Run.ProbeShare = b.probeShare(h)
	l := &s.Lost
	*l = b.lost
	l.Untraced = []UntracedSteps{}
	for why, n := range b.why {
		l.Untraced = append(l.Untraced, UntracedSteps{why, n})
	}
	slices.SortFunc(l.Untraced, func(a, b UntracedSteps) int { return cmp.Or(cmp.Compare(b.Steps, a.Steps), cmp.Compare(a.Why, b.Why)) })
	l.Torn, l.Cut, l.Spans, l.ByWhy = h.Torn, h.End == nil, len(h.Losses), []LostBy{}
	for i := range h.Losses {
		x := &h.Losses[i]
		if x.Why == "lost" {
			l.Events += x.Events
		}
		d := max(0, x.End-x.Start)
		if x.Why == "throttled" {
			l.ThrottledNs += d
		}
		at := slices.IndexFunc(l.ByWhy, func(e LostBy) bool { return e.Why == x.Why && e.What == x.What })
		if at < 0 {
			at = len(l.ByWhy)
			l.ByWhy = append(l.ByWhy, LostBy{Why: x.Why, What: x.What})
		}
		e := &l.ByWhy[at]
		e.Spans++
		e.Events += x.Events
		e.Dur += d
	}
}

// cpuVariant returns "sapphirerapids" of ".../libggml-cpu-sapphirerapids.so".
func cpuVariant(library string) string {
	v, ok := strings.CutPrefix(path.Base(library), "libggml-cpu-")
	if !ok {
		return ""
	}
	v, _, _ = strings.Cut(v, ".so")
	return v
}

// probeShare estimates the part of the threads' time in operators that their probes took: each
// operator and thread hits a begin and an end, at the cost measured when the recording started.
func (b *StatBuilder) probeShare(h *Header) *float64 {
	if b.threadTime <= 0 || len(h.Meta.ProbeCost) == 0 {
		return nil
	}
	var cost float64
	for _, role := range []string{"operator begin", "operator end"} {
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
		if role == "operator begin" {
			hits -= b.followed
		}
		cost += float64(dearest) * float64(hits)
	}
	return ratio(cost, float64(b.threadTime))
}

// phase computes one phase's figures.
func (b *StatBuilder) phase(p Phase, g *group) PhaseStat {
	ps := PhaseStat{Phase: string(p), Traced: g.traced, TracedDur: g.tracedDur, Ops: g.ops}
	fillSteps(&ps, g)
	if p == Unknown {
		ps.Phase = "unknown"
	}
	ps.Experts = g.experts.finish()
	ps.Backends = []BackendStat{}
	for name, e := range g.backends {
		ps.Backends = append(ps.Backends, BackendStat{Backend: name, Graphs: e.graphs, Dur: e.dur, Share: share(e.dur, g.tracedDur)})
	}
	slices.SortFunc(ps.Backends, func(a, b BackendStat) int {
		return cmp.Or(cmp.Compare(b.Dur, a.Dur), cmp.Compare(a.Backend, b.Backend))
	})
	if len(g.backends) > 0 {
		ps.BackendDur, ps.Backend = &g.elsewhere, share(g.elsewhere, g.tracedDur)
	}
	if g.ops > 0 {
		overlap, gap := g.opsDur-g.covered, g.tracedDur-g.covered-g.elsewhere
		ps.OpsDur, ps.Overlap, ps.Probe = &g.opsDur, &overlap, &g.probe
		ps.MatMul, ps.Attn = share(g.matmul, g.tracedDur), share(g.attn, g.tracedDur)
		if !b.filtered { // else what is missing is no time outside operators
			ps.Gap = &gap
			ps.Other = share(g.opsDur-g.probe-g.matmul-g.attn, g.tracedDur)
			ps.GapShare = share(gap, g.tracedDur)
			ps.ProbeShare = share(g.probe, g.tracedDur)
		}
		all := g.busy + g.wait + g.off
		ps.Wait = share(g.wait, all)
		if b.sched.any || b.offCPU {
			ps.OffCPU = share(g.off, all)
		}
		ps.GBps = perSecond(g.bytes, g.bytesDur)
		ps.MatMulGBps = perSecond(g.mmBytes, g.mmDur)
	}
	if ps.Rows = []StatRow{}; b.opts.By != ByExpert {
		ps.Rows, ps.Rest, ps.RestRows = b.rows(g)
	}
	return ps
}

// rows returns a group's rows in the order they are read: by time; layers and steps by number.
func (b *StatBuilder) rows(g *group) (rows []StatRow, rest *StatRow, left int) {
	all := make([]*rowSum, 0, len(g.rows))
	for _, r := range g.rows {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *rowSum) int {
		return cmp.Or(cmp.Compare(b.row.Dur, a.row.Dur), cmp.Compare(a.row.Key, b.row.Key), cmp.Compare(a.row.Type, b.row.Type))
	})
	if b.opts.Top > 0 && len(all) > b.opts.Top {
		var r rowSum
		for _, o := range all[b.opts.Top:] {
			r.merge(o)
		}
		left = len(all) - b.opts.Top
		all = all[:b.opts.Top]
		v := b.row(&r, g)
		v.Key = "other"
		rest = &v
	}
	if b.opts.By == ByLayer || b.opts.By == ByStep {
		slices.SortFunc(all, func(a, b *rowSum) int {
			x, errX := strconv.ParseInt(a.row.Key, 10, 64)
			y, errY := strconv.ParseInt(b.row.Key, 10, 64)
			if errX != nil || errY != nil { // "none" comes last
				return cmp.Compare(a.row.Key, b.row.Key)
			}
			return cmp.Compare(x, y)
		})
	}
	rows = make([]StatRow, len(all))
	for i, r := range all {
		rows[i] = b.row(r, g)
	}
	return rows, rest, left
}

func (b *StatBuilder) row(r *rowSum, g *group) StatRow {
	v := r.row
	net := v.Dur - v.Probe
	if g.traced > 0 {
		v.CallsPerStep = float64(v.Calls) / float64(g.traced)
		v.DurPerStep = float64(net) / float64(g.traced)
	}
	v.Share = share(net, g.tracedDur)
	if b.opts.By == ByStep {
		v.Share = share(net, g.dur)
	}
	if v.Calls > 0 {
		v.Mean = float64(net) / float64(v.Calls)
		v.P95 = r.hist.quantile(0.95)
		v.Counts = r.statCounts(b.counters)
	}
	if r.hasBytes {
		v.Bytes = &r.bytes
		v.BytesAtMost = r.atMost
		v.GBps = perSecond(r.bytes, r.bytesDur)
	}
	if r.hasFlop {
		v.Flops = &r.flops
		v.GFlops = perSecond(r.flops, r.flopsDur)
	}
	if r.hasBoth {
		v.Intensity = share(r.both, r.bothBytes)
	}
	all := v.Busy + v.Wait + v.OffCPU
	v.WaitShare = share(v.Wait, all)
	if b.sched.any || b.offCPU {
		v.OffShare = share(v.OffCPU, all)
	}
	if r.allBusy > 0 {
		im := max(0, r.maxBusy/float64(r.allBusy)-1)
		v.Imbalance = &im
	}
	return v
}

// dropShortest removes all rows but the keep longest, and returns how many.
func dropShortest(rows map[string]*rowSum, keep int) int64 {
	keys := make([]string, 0, len(rows))
	for k := range rows {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(rows[b].row.Dur, rows[a].row.Dur), cmp.Compare(a, b))
	})
	for _, k := range keys[min(keep, len(keys)):] {
		delete(rows, k)
	}
	return int64(max(0, len(keys)-keep))
}

// addThreads adds a phase's threads to the whole run's.
func (b *StatBuilder) addThreads(s *Stat, h *Header, g *group) {
	for tid, t := range g.threads {
		at := slices.IndexFunc(s.Threads, func(e ThreadStat) bool { return e.TID == tid && e.PID == t.pid })
		if at < 0 {
			at = len(s.Threads)
			e := ThreadStat{PID: t.pid, TID: tid}
			for i := range h.Threads {
				if h.Threads[i].TID == tid && h.Threads[i].PID == t.pid {
					e.Comm, e.Role = h.Threads[i].Comm, h.Threads[i].Role
				}
			}
			s.Threads = append(s.Threads, e)
		}
		e := &s.Threads[at]
		e.Ops += t.ops
		e.Busy += t.busy
		e.Wait += t.wait
		e.OffCPU += t.off
		e.Steps += t.steps
	}
}

func (b *StatBuilder) finishThreads(s *Stat) {
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
		t.Util = share(t.Busy, t.Steps)
		// Threads can come and go with each graph, so busy is compared as a share of the steps
		// that a thread took part in.
		if m := teams[t.PID]; m.busy > 0 && t.Util != nil {
			v := *t.Util*float64(m.steps)/float64(m.busy) - 1
			t.Imbalance = &v
		}
		t.Instead, t.WokenBy = []Culprit{}, []Culprit{}
		if w := b.sched.threads[t.TID]; w != nil && b.sched.any {
			t.Preempted, t.Slept, t.Runnable = &w.preempted, &w.slept, &w.runnable
			t.Instead, t.WokenBy = culprits(w.instead, 5), culprits(w.wokenBy, 5)
		}
	}
	slices.SortFunc(s.Threads, func(a, b ThreadStat) int {
		main := func(t ThreadStat) int {
			if t.Role == "main" {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(main(a), main(b)), cmp.Compare(b.Ops, a.Ops), cmp.Compare(a.TID, b.TID))
	})
}
