// SPDX-License-Identifier: Apache-2.0

// Package perfetto converts a run to a trace for the Perfetto user interface and its trace_processor: steps,
// graphs and operators as nested slices on the threads that ran them, waiting as separate slices, the CPUs'
// schedule, and rates as counters.
package perfetto

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/klauspost/compress/gzip"

	"github.com/profinfer/profinfer/internal/beside"
	"github.com/profinfer/profinfer/internal/clean"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/experts"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/trace"
)

// maxGraphs bounds the graphs kept until their step is known.
const maxGraphs = 1 << 14

// quiet is the pause between two steps, in ns, after which a rate falls to 0.
const quiet = 20_000_000

// Export writes a run, gzipped, as replay feeds it. replay is [profile.Replay] of a reader. Memory is
// bounded: slices are written as operators come. It returns errors of replay and w.
func Export(w io.Writer, replay func(profile.Sink) (*profile.Header, error)) error {
	z, err := gzip.NewWriterLevel(w, level)
	if err != nil {
		return err
	}
	out := beside.New(z, chunk)
	err = write(out, replay)
	// What could not be written is the reason that the rest failed.
	if e := out.Close(); e != nil {
		return e
	}
	if err != nil {
		return err
	}
	return z.Close()
}

func write(out *beside.Writer, replay func(profile.Sink) (*profile.Header, error)) error {
	e := newExporter(out)
	h, err := replay(e)
	if err != nil {
		return err
	}
	return e.finish(h)
}

// level of compression: it keeps up with the encoding of packets. The library's own default makes files 6 to
// 10 % smaller and takes 1.6 times the time, level 1 neither.
const level = 2

// chunk is how much is compressed at once, bytes.
const chunk = 64 << 10

// exporter is a profile.Sink.
type exporter struct {
	profile.BaseSink
	p      *packets
	t      *tracks
	sched  *scheduling
	derive facts.Deriver
	// Graphs of steps for which nothing was written yet.
	waiting map[int64][]*profile.Graph
	nWait   int
	sums    map[*profile.Step]*stepSum
	sumStep *profile.Step // of sum: the latest one
	sum     *stepSum
	texts   []opText // by facts.Derived.ID
	fixed   fixedNames
	rates   map[counterKey]int64 // end of the last step by counter
	dims    map[[4]int64]string
	last    int64
	counts  counts
	experts experts.Steps
	devices devices

	requests *requests.Builder
}

// stepSum is the sum over a step's operators.
type stepSum struct {
	bytes, bytesDur int64
	counts          []int64
}

func newExporter(w *beside.Writer) *exporter {
	p := newPackets(w)
	return &exporter{p: p, t: newTracks(p), sched: newScheduling(p), waiting: map[int64][]*profile.Graph{},
		sums: map[*profile.Step]*stepSum{}, rates: map[counterKey]int64{}, dims: map[[4]int64]string{},
		requests: requests.New(maxRequests)}
}

// Sched takes a scheduling event.
func (e *exporter) Sched(s *trace.Sched) error {
	e.sched.add(s)
	return e.p.err()
}

// openStep opens a step's slice unless it is open, and draws the graphs that waited for it.
func (e *exporter) openStep(s *profile.Step) *track {
	k := e.t.thread(s.PID, s.TID)
	if k.depth(s) >= 0 {
		return k
	}
	e.t.endTo(k, s.Start, 0) // a step that never ended
	e.t.begin(k, s.Start, s, "step", stepName(s), nil)
	for _, g := range e.waiting[s.ID] {
		e.drawGraph(g)
	}
	e.nWait -= len(e.waiting[s.ID])
	delete(e.waiting, s.ID)
	return k
}

// stepName returns the name of a step's slice.
func stepName(s *profile.Step) string {
	if s.Phase == profile.Unknown {
		return "step"
	}
	return string(s.Phase)
}

// openGraph opens a graph's slice unless it is open.
func (e *exporter) openGraph(g *profile.Graph) *track {
	k := e.t.thread(g.PID, g.TID)
	if k.depth(g) >= 0 {
		return k
	}
	// Open slices inside a step are operators or graphs that never ended.
	keep := 0
	for keep < len(k.open) {
		if _, ok := k.open[keep].what.(*profile.Step); !ok {
			break
		}
		keep++
	}
	e.t.endTo(k, g.Start, keep)
	e.t.begin(k, g.Start, g, "graph", graphName(g), e.toDevice(g, e.flow(g)))
	return k
}

func graphName(g *profile.Graph) string {
	if g.Backend == "" {
		return "graph"
	}
	return "graph " + g.Backend
}

// drawGraph draws a finished graph; its operators are drawn already.
func (e *exporter) drawGraph(g *profile.Graph) {
	k := e.openGraph(g)
	e.t.endTo(k, g.Start+g.Dur, k.depth(g)+1)
	n := e.t.notes()
	n.int("graph", g.ID)
	n.int("split", int64(g.Split))
	n.int("nodes", int64(g.NNodes))
	n.int("operators", int64(g.Ops))
	if g.Shape != nil {
		n.int("shape", g.Shape.Index)
	}
	if g.Reused {
		n.text("reused", "yes")
	}
	if g.Aborted {
		n.text("aborted", "yes")
	}
	n.caller(g)
	e.t.end(k, g.Start+g.Dur, n)
}

// Graph takes a finished graph.
func (e *exporter) Graph(g *profile.Graph) error {
	e.last = max(e.last, g.Start+g.Dur)
	k := e.t.thread(g.PID, g.TID)
	if g.Step == 0 || k.depth(g) >= 0 || e.stepOpen(k, g.Step) || e.nWait >= maxGraphs {
		e.drawGraph(g)
	} else {
		e.waiting[g.Step] = append(e.waiting[g.Step], g)
		e.nWait++
	}
	return e.p.err()
}

func (e *exporter) stepOpen(k *track, id int64) bool {
	for i := range k.open {
		if s, ok := k.open[i].what.(*profile.Step); ok && s.ID == id {
			return true
		}
	}
	return false
}

// Meta takes the recording's metadata.
func (e *exporter) Meta(m *trace.Meta) { e.counts.set(m.Counters) }

// Step takes a finished step.
func (e *exporter) Step(s *profile.Step) error {
	end := s.Start + s.Dur
	e.last = max(e.last, end)
	k := e.openStep(s)
	e.t.endTo(k, end, k.depth(s)+1)
	n := e.t.notes()
	n.int("step", s.ID)
	n.text("entry", s.Entry)
	n.text("context", "0x"+strconv.FormatUint(s.Ctx, 16))
	if s.NTokens >= 0 {
		n.int("tokens", int64(s.NTokens))
	}
	if s.NSeqs >= 0 {
		n.int("sequences", int64(s.NSeqs))
	}
	if s.Outputs >= 0 {
		n.int("outputs", int64(s.Outputs))
	}
	n.int("operators", int64(s.Ops))
	n.text("incomplete", s.Incomplete)
	e.t.end(k, end, n)
	if !s.HandedOver {
		e.tokenRate(s)
	}
	phase := stepName(s)
	if sum := e.sums[s]; sum != nil {
		if sum.bytesDur > 0 {
			e.rate(s, end, phase+" GB/s", "GB/s", float64(sum.bytes)/float64(sum.bytesDur))
		}
		if ipc, ok := e.counts.ipc(sum.counts); ok {
			e.rate(s, end, phase+" IPC", "instructions per cycle", ipc)
		}
		delete(e.sums, s)
		e.sumStep, e.sum = nil, nil
	}
	e.drawExperts(s)
	if err := e.requests.Step(s); err != nil {
		return err
	}
	return e.p.err()
}

// Result takes a step that handed graphs over: its token rate is based on when its results were there.
func (e *exporter) Result(s *profile.Step) error {
	e.last = max(e.last, s.Done)
	e.tokenRate(s)
	if err := e.requests.Result(s); err != nil {
		return err
	}
	return e.p.err()
}

// tokenRate sets a step's tokens per second, if it is known when its results were there.
func (e *exporter) tokenRate(s *profile.Step) {
	if d, ok := s.EndToEnd(); ok && d > 0 && s.NTokens >= 0 {
		e.rate(s, s.Start+d, stepName(s)+" t/s", "token/s", float64(s.NTokens)*1e9/float64(d))
	}
}

// rate sets a counter for the duration of a step, up to an end. It falls to 0 if the next step is long in
// coming.
func (e *exporter) rate(s *profile.Step, until int64, name, unit string, v float64) {
	k := e.t.counter(s.PID, s.Ctx, name, unit)
	key := counterKey{s.PID, s.Ctx, name}
	if end := e.rates[key]; end > 0 && s.Start-end > quiet {
		e.t.value(k, end, 0)
	}
	e.t.value(k, s.Start, v)
	e.rates[key] = until
}

// finish closes open slices and writes the names.
func (e *exporter) finish(h *profile.Header) error {
	for _, id := range slices.Sorted(maps.Keys(e.waiting)) { // graphs of steps that never ended
		for _, g := range e.waiting[id] {
			e.drawGraph(g)
		}
	}
	e.sched.flushAll()
	e.counts.finish(e.t)
	e.last = max(e.last, h.Last)
	threads := make([]threadKey, 0, len(e.t.threads))
	for k := range e.t.threads {
		threads = append(threads, k)
	}
	slices.SortFunc(threads, compareThreads)
	for _, k := range threads {
		e.t.endTo(e.t.threads[k], e.last, 0)
	}
	// the same recording gives the same file
	for _, key := range slices.SortedFunc(maps.Keys(e.rates), compareCounters) {
		e.t.value(e.t.counters[key], e.rates[key], 0)
	}
	e.drawRequests(h)
	if h.Part != nil {
		k := e.t.global("a part of the recording")
		e.t.begin(k, h.Part.From, nil, "part", h.Part.String(), nil)
		e.t.end(k, h.Part.To, nil)
	}
	e.losses(h)
	e.names(h, threads)
	e.p.flush()
	return e.p.err()
}

// losses draws the intervals that were not fully seen on a track of their own.
func (e *exporter) losses(h *profile.Header) {
	spans := slices.Clone(h.Losses)
	slices.SortStableFunc(spans, func(a, b trace.Loss) int { return cmp.Compare(a.Start, b.Start) })
	for i := range spans {
		l := &spans[i]
		k := e.t.global("not seen: " + clean.Perfetto(l.Why))
		n := e.t.notes()
		n.text("what", l.What)
		n.text("why", l.Why)
		if l.Events <= 1<<62 {
			n.int("events", int64(l.Events))
		}
		if l.CPU >= 0 {
			n.int("cpu", int64(l.CPU))
		}
		name := "not seen"
		if l.Events > 0 {
			name = fmt.Sprintf("%d %s not seen", l.Events, l.What)
		}
		e.t.begin(k, l.Start, nil, "loss", name, n)
		e.t.end(k, max(l.End, l.Start), nil)
	}
}

// names writes the names of threads and processes, once they are known, and the machine.
func (e *exporter) names(h *profile.Header, threads []threadKey) {
	comms := map[threadKey]string{}
	for i := range h.Threads {
		t := &h.Threads[i]
		name := t.Comm
		if t.Role != "" && t.Role != "other" {
			name += " (" + t.Role + ")"
		}
		comms[threadKey{t.PID, t.TID}] = name
	}
	tree := message(nil)
	for i := range h.Processes {
		p := &h.Processes[i]
		m := message(nil).int(1, int64(p.PID))
		for _, a := range p.Cmdline {
			m = m.str(3, clean.Perfetto(a))
		}
		tree = tree.sub(treeProcess, m)
		if k := e.t.processes[p.PID]; k != nil {
			e.t.describeProcess(k, p.PID, p.Comm)
		}
	}
	for _, k := range threads {
		if name := comms[k]; name != "" {
			e.t.describeThread(e.t.threads[k], k.pid, k.tid, name)
		}
	}
	tids := slices.Sorted(maps.Keys(e.sched.tasks))
	for _, tid := range tids {
		t := e.sched.tasks[tid]
		tree = tree.sub(treeThread, message(nil).int(1, int64(tid)).str(2, clean.Perfetto(t.comm)).int(3,
			int64(t.pid)))
	}
	from, _ := h.Shown()
	first := uint64(max(0, from))
	if len(tree) > 0 {
		e.p.write(message(nil).uint(packetTimestamp, first).uint(packetSequence,
			schedSequence).sub(packetProcessTree, tree))
	}
	uts := message(nil).str(1, "Linux").str(2, "").str(3, clean.Perfetto(h.Meta.Kernel)).str(4,
		machine(h.Meta.Arch))
	e.p.write(message(nil).uint(packetTimestamp, first).uint(packetSequence, schedSequence).
		sub(packetSystemInfo, message(nil).sub(infoUtsname, uts)))
}

// machine returns uname's name for Go's architecture.
func machine(arch string) string {
	switch arch {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return clean.Perfetto(arch)
}
