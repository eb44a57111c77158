// SPDX-License-Identifier: Apache-2.0

// Package timeline lays a run out over time, in chunks of columns that the HTML report loads on demand.
package timeline

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// TimelineSchema is the version of a Timeline's JSON form and of its chunks.
const TimelineSchema = 1

// Limits of a timeline. What is beyond is counted, never dropped silently.
const (
	chunkSpans  = 1 << 14 // approximate number of operator spans per chunk
	maxTracks   = 1024    // threads
	maxRunners  = 1 << 15 // threads that ran on CPUs
	maxStrings  = 1 << 12
	maxSchedLog = 96 << 20 // bytes of scheduling events while they are kept
	maxLosses   = 4096
)

// Options choose how a Timeline is built. The zero value is ready to use.
type Options struct {
	// ChunkSpans is the maximum number of spans of operators on threads per chunk; 0: 16384. A chunk ends
	// with a step if one ends after half of that.
	ChunkSpans int
	// Pack compresses each chunk when it is finished, so that memory holds no uncompressed ones; nil: they
	// stay as they are.
	Pack func([]byte) ([]byte, error)
	// Trim chooses which chunks stay (Chunk.Kept) once those there are together have more than Limit bytes,
	// packed: it bounds memory. It is called with half of that as its limit, and times are not yet relative
	// to Start. 0: all stay.
	Limit int
	Trim  func(t *Timeline, limit int)
	Book  *facts.Book // shared with other sinks of the replay; nil: none
}

// Timeline is what ran when. Times are nanoseconds from Start, sizes bytes. Numerous items (spans of
// operators, states of CPUs and threads) are in chunks of bounded size, so that a reader unpacks only what is
// viewed; the Overview covers the rest. For the columns see stepColumns, graphColumns and the files that fill
// them.
type Timeline struct {
	SchemaVersion int       `json:"schema_version"`
	Start         int64     `json:"start_ns,string"`   // boottime: it does not fit a float64 exactly
	Dur           int64     `json:"dur_ns"`            // to the last event
	From          int64     `json:"from_ns,omitempty"` // when what is shown begins, where it is a part of the run
	Level         string    `json:"level"`
	Processes     []Process `json:"processes"`
	// Threads of the engines. Chunks refer to them by their index here, which is not in order of tid.
	Threads []Thread `json:"threads"`
	CPUs    []int    `json:"cpus"` // for which scheduling events were seen
	Runners []Runner `json:"runners"`
	Ops     []Op     `json:"ops"`
	Strings []string `json:"strings"` // referred to by index in the columns of steps and graphs
	Chunks  []Chunk  `json:"chunks"`
	Losses  []Loss   `json:"losses"` // in time order
	// HasSched: scheduling was recorded, so empty tracks of CPUs and states are meaningful.
	HasSched bool  `json:"has_sched"`
	Spans    int64 `json:"spans"` // operators on threads
	Operator int64 `json:"operators"`
	// Left out because of limits: spans of more threads than tracks, scheduling events, losses.
	SpansLeftOut  int64 `json:"spans_left_out"`
	SchedLeftOut  int64 `json:"sched_left_out"`
	LossesLeftOut int   `json:"losses_left_out"`
	// The same for copies between memories and for device spans.
	CopiesLeftOut  int64 `json:"copies_left_out,omitempty"`
	DevicesLeftOut int64 `json:"device_spans_left_out,omitempty"`
	// Counters were read at operators, and come in the order of the chunks' columns; absent if there were
	// none.
	Counters []summary.Counter `json:"counters,omitempty"`

	Overview Overview `json:"overview"`

	Steps  []byte `json:"-"` // columns, see stepColumns
	Graphs []byte `json:"-"` // columns, see graphColumns
	// Copies and Devices are columns, see copyColumns and deviceColumns.
	Copies  []byte `json:"-"`
	Devices []byte `json:"-"`
	Bins    []byte `json:"-"` // of Overview, see overview.go
	Marks   []Mark `json:"-"` // every step, in the order in which they ended
}

// Mark is a step's phase and span, used to choose what to keep.
type Mark struct {
	Phase      profile.Phase
	Start, Dur int64
}

// Process is one profiled process.
type Process struct {
	PID    int32  `json:"pid"`
	Comm   string `json:"comm"`
	Engine string `json:"engine"`
}

// Thread is one thread of an engine, with the sums over its operators.
type Thread struct {
	PID    int32  `json:"pid"`
	TID    int32  `json:"tid"`
	Comm   string `json:"comm"`
	Role   string `json:"role"`
	Ops    int64  `json:"operators"`
	Busy   int64  `json:"busy_ns"`
	Wait   int64  `json:"wait_ns"`
	OffCPU int64  `json:"off_cpu_ns"`
}

// Runner is a thread that ran on a CPU. The first one stands for unknown threads.
type Runner struct {
	TID    int32  `json:"tid"`
	Comm   string `json:"comm"`
	Thread int    `json:"thread"` // index in Timeline.Threads; -1: not an engine thread
}

// Op is what repeated executions of an operator have in common.
type Op struct {
	Name        string    `json:"name"`
	Op          string    `json:"op"`
	Label       string    `json:"label"` // the key of its row in a Stat by weight
	Kind        int       `json:"kind"`  // index in ops.Kinds
	Type        string    `json:"type"`
	Ne          [4]int64  `json:"ne"`
	Layer       *int      `json:"layer"`
	Block       ops.Block `json:"block"`
	Weight      string    `json:"weight"`
	WeightType  string    `json:"weight_type"`
	Bytes       *int64    `json:"bytes"`
	BytesAtMost bool      `json:"bytes_at_most"`
	Flops       *int64    `json:"flops"`
	Node        int32     `json:"node"` // -1: unknown
	Calls       int64     `json:"calls"`
	First       int64     `json:"first_ns"` // start of the first execution
	FirstID     int64     `json:"first_op"`
}

// Kinds of chunks.
const (
	ChunkOps   = "ops"
	ChunkSched = "sched"
)

// Chunk describes one chunk without its data.
type Chunk struct {
	Kind    string `json:"kind"`
	Start   int64  `json:"start_ns"` // of its earliest span
	Dur     int64  `json:"dur_ns"`   // to the end of its latest
	Base    int64  `json:"base_ns"`  // its first delta is relative to this
	Spans   int    `json:"spans"`
	FirstOp int64  `json:"first_op,omitempty"` // lowest and highest number of its operators
	LastOp  int64  `json:"last_op,omitempty"`
	// Kept is false for a chunk that was left out because the page would be too large with it.
	Kept bool   `json:"kept"`
	Data []byte `json:"-"`
}

// Loss is an interval that was not fully seen.
type Loss struct {
	Start  int64  `json:"start_ns"`
	Dur    int64  `json:"dur_ns"`
	Why    string `json:"why"`
	What   string `json:"what"`
	Events uint64 `json:"events"`
	CPU    int    `json:"cpu"` // -1: no single CPU
}

// Builder collects a Timeline while a run is replayed into it. Its memory grows with the contents of the run,
// packed: some bytes per span.
type Builder struct {
	profile.BaseSink
	opts Options
	book *facts.Book
	t    Timeline

	threads map[threadID]int
	defs    map[opKey]int32 // by their derived facts
	same    map[opContent]int32
	strings map[string]int64

	packed   int // bytes of all chunks
	ops      opChunk
	steps    columns
	late     []int64               // stepColLate, which is known only later
	awaited  map[*profile.Step]int // steps whose results are not there yet
	graphs   columns
	lastStep Mark
	stepID   int64
	graphID  int64
	graphEnd int64
	sched    schedLog
	bins     overview
	devices  timeDevices
}

type threadID struct{ pid, tid int32 }

// opKey identifies operators quickly: what is derived for a graph definition's node is one object.
type opKey struct {
	d  *facts.Derived
	sh *profile.Shape
	op string
}

// opContent identifies them by content: graphs of the same model share most.
type opContent struct {
	name, op, typ, weight, weightType string
	ne                                [4]int64
	layer                             int
	block                             ops.Block
	bytes, flops                      int64 // -1: unknown
	atMost                            bool
	node                              int32
}

// New returns an empty builder.
func New(opts Options) *Builder {
	if opts.ChunkSpans <= 0 {
		opts.ChunkSpans = chunkSpans
	}
	b := &Builder{opts: opts, book: facts.BookOf(opts.Book), threads: map[threadID]int{},
		defs: map[opKey]int32{}, same: map[opContent]int32{}, strings: map[string]int64{},
		awaited: map[*profile.Step]int{}}
	b.steps.init(stepColumns)
	b.graphs.init(graphColumns)
	b.ops.init()
	b.sched.init()
	b.devices.init()
	return b
}

// thread returns a thread's index, -1 if there are too many.
func (b *Builder) thread(pid, tid int32) int {
	k := threadID{pid, tid}
	if i, ok := b.threads[k]; ok {
		return i
	}
	i := len(b.t.Threads)
	if i >= maxTracks {
		return -1
	}
	b.threads[k] = i
	b.t.Threads = append(b.t.Threads, Thread{PID: pid, TID: tid})
	return i
}

// text returns a string's index. The first is the empty string, which also stands for those beyond the limit.
func (b *Builder) text(s string) int64 {
	if len(b.t.Strings) == 0 {
		b.t.Strings = append(b.t.Strings, "")
		b.strings[""] = 0
	}
	i, ok := b.strings[s]
	if !ok && len(b.t.Strings) < maxStrings {
		i = int64(len(b.t.Strings))
		b.strings[s] = i
		b.t.Strings = append(b.t.Strings, s)
	}
	return i
}

// Columns of steps, in the order in which they ended.
const (
	stepColID    = iota // difference to the previous one
	stepColStart        // difference to the end of the previous one; the first: to the run's start
	stepColDur
	stepColPhase // index in timelinePhases
	stepColThread
	stepColTokens // -1: unknown, as for the two that follow
	stepColSeqs
	stepColOutputs
	stepColPos // of its first token; -1: unknown
	stepColCtx // Strings: the engine context, hexadecimal
	stepColGraphs
	stepColOps
	stepColOpsDur
	stepColIncomplete // Strings: what was not seen
	stepColUntraced   // Strings: why its operators were not recorded
	stepColEntry      // Strings
	stepColLate       // from the end of its call to when its results were there, ns; -1: not seen
	stepColumns
)

// timelinePhases maps the phases to numbers.
var timelinePhases = []profile.Phase{profile.Unknown, profile.Prefill, profile.Decode, profile.Encode}

// Step takes a finished step.
func (b *Builder) Step(s *profile.Step) error {
	pos := int64(-1)
	for i := range s.Seqs {
		if p := int64(s.Seqs[i].Pos); p >= 0 && (pos < 0 || p < pos) {
			pos = p
		}
	}
	c := &b.steps
	c.put(stepColID, s.ID-b.stepID)
	c.put(stepColStart, s.Start-(b.lastStep.Start+b.lastStep.Dur))
	c.put(stepColDur, s.Dur)
	c.put(stepColPhase, int64(max(0, slices.Index(timelinePhases, s.Phase))))
	c.put(stepColThread, int64(b.thread(s.PID, s.TID)))
	c.put(stepColTokens, int64(s.NTokens))
	c.put(stepColSeqs, int64(s.NSeqs))
	c.put(stepColOutputs, int64(s.Outputs))
	c.put(stepColPos, pos)
	c.put(stepColCtx, b.text(num.Hex(s.Ctx)))
	c.put(stepColGraphs, int64(s.Graphs))
	c.put(stepColOps, int64(s.Ops))
	c.put(stepColOpsDur, s.OpsDur)
	c.put(stepColIncomplete, b.text(s.Incomplete))
	c.put(stepColUntraced, b.text(s.Untraced))
	c.put(stepColEntry, b.text(s.Entry))
	if s.HandedOver { // until Result is called
		b.awaited[s] = c.rows
		b.late = append(b.late, -1)
	} else {
		b.late = append(b.late, 0)
	}
	c.rows++
	b.stepID = s.ID
	b.lastStep = Mark{s.Phase, s.Start, s.Dur}
	b.t.Marks = append(b.t.Marks, b.lastStep)
	if b.ops.spans >= b.opts.ChunkSpans/2 {
		return b.cutOps()
	}
	return nil
}

// Result takes a step that handed graphs over.
func (b *Builder) Result(s *profile.Step) error {
	if i, ok := b.awaited[s]; ok {
		delete(b.awaited, s)
		if d, seen := s.EndToEnd(); seen {
			b.late[i] = d - s.Dur
		}
	}
	return nil
}

// Columns of graphs, in the order in which they ended.
const (
	graphColID    = iota // difference to the previous one
	graphColStep         // number of its step; 0: none
	graphColStart        // difference to the end of the previous one; the first: to the run's start
	graphColDur
	graphColThread
	graphColSplit
	graphColBackend // Strings
	graphColNodes
	graphColOps
	graphColShape    // Shape.Index; 0: unknown
	graphColFlags    // 1: reused, 2: aborted
	graphColUntraced // Strings
	graphColCaller   // number of the other process's graph that it was computed for; 0: none
	graphColumns
)

// Graph takes a finished graph.
func (b *Builder) Graph(g *profile.Graph) error {
	var shape, flags int64
	if g.Shape != nil {
		shape = g.Shape.Index
	}
	if g.Reused {
		flags |= 1
	}
	if g.Aborted {
		flags |= 2
	}
	c := &b.graphs
	c.put(graphColID, g.ID-b.graphID)
	c.put(graphColStep, g.Step)
	c.put(graphColStart, g.Start-b.graphEnd)
	c.put(graphColDur, g.Dur)
	c.put(graphColThread, int64(b.thread(g.PID, g.TID)))
	c.put(graphColSplit, int64(g.Split))
	c.put(graphColBackend, b.text(g.Backend))
	c.put(graphColNodes, int64(g.NNodes))
	c.put(graphColOps, int64(g.Ops))
	c.put(graphColShape, shape)
	c.put(graphColFlags, flags)
	c.put(graphColUntraced, b.text(g.Untraced))
	var caller int64
	if g.Caller != nil {
		caller = g.Caller.ID
	}
	c.put(graphColCaller, caller)
	c.rows++
	b.graphID, b.graphEnd = g.ID, g.Start+g.Dur
	return nil
}

// Finish returns the timeline. h is what the replay returned.
func (b *Builder) Finish(h *profile.Header) (*Timeline, error) {
	if err := b.cutOps(); err != nil {
		return nil, err
	}
	t := &b.t
	t.SchemaVersion, t.Start, t.Dur, t.Level = TimelineSchema, h.First, max(0, h.Last-h.First), h.Meta.Level
	if h.Part != nil {
		t.From = h.Part.From - h.First
	}
	t.Counters = summary.CountersOf(h.Meta.Counters)
	t.Counters = t.Counters[:min(len(t.Counters), maxCountColumns)]
	for i := range h.Processes {
		p := &h.Processes[i]
		t.Processes = append(t.Processes, Process{PID: p.PID, Comm: p.Comm, Engine: p.Engine})
	}
	for i := range h.Threads {
		n := &h.Threads[i]
		if k, ok := b.threads[threadID{n.PID, n.TID}]; ok {
			t.Threads[k].Comm, t.Threads[k].Role = n.Comm, n.Role
		}
	}
	if err := b.finishSched(h.Last); err != nil {
		return nil, err
	}
	for i := range t.Ops {
		t.Ops[i].First -= t.Start
	}
	for i := range t.Chunks {
		t.Chunks[i].Start -= t.Start
		t.Chunks[i].Base -= t.Start
		t.Chunks[i].Kept = t.Chunks[i].Data != nil
	}
	for i := range t.Marks {
		t.Marks[i].Start -= t.Start
	}
	b.losses(h)
	for _, v := range b.late {
		b.steps.put(stepColLate, v)
	}
	// The first start of a column of differences is relative to boottime 0.
	t.Steps = b.steps.encode(stepColStart, t.Start)
	t.Graphs = b.graphs.encode(graphColStart, t.Start)
	t.Copies = b.devices.copies.encode(copyColStart, t.Start)
	t.Devices = b.devices.devices.appendTo(nil)
	t.Overview, t.Bins = b.bins.encode(t.Start)
	return t, nil
}

func (b *Builder) losses(h *profile.Header) {
	// Losses of switches beyond the limit remove nothing from what is drawn of the engine.
	all := slices.DeleteFunc(slices.Clone(h.Losses), func(l trace.Loss) bool { return l.OfOthers() })
	if n := len(all) - maxLosses; n > 0 { // the longest are kept
		slices.SortStableFunc(all, func(x, y trace.Loss) int {
			return cmp.Compare(y.End-y.Start, x.End-x.Start)
		})
		all, b.t.LossesLeftOut = all[:maxLosses], n
	}
	slices.SortStableFunc(all, func(x, y trace.Loss) int { return cmp.Compare(x.Start, y.Start) })
	for i := range all {
		l := &all[i]
		b.t.Losses = append(b.t.Losses, Loss{Start: l.Start - h.First, Dur: max(0, l.End-l.Start), Why: l.Why,
			What: l.What, Events: l.Events, CPU: l.CPU})
	}
}
