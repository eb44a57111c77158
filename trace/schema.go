// SPDX-License-Identifier: Apache-2.0

// Package trace is profinfer's file: blocks of hits, marks, scheduling events and
// definitions, append-only and readable up to its last whole block. It needs no eBPF
// and reads on any system.
//
// A recording is raw: what the probes saw, when and on which thread. What follows
// from it (operators, their times) is computed by package profile.
//
// [Create] begins a recording, [Open] reads one block by block. The format is described
// in docs/trace-format.md, for readers in other languages too.
package trace

// All times are nanoseconds of CLOCK_BOOTTIME, all sizes bytes.

// HitKind says what a thread did.
type HitKind uint8

const (
	HitOpBegin   HitKind = 1 // begins the operator of the tensor at Arg
	HitOpFused   HitKind = 2 // begins a fused operator whose first node is at Arg
	HitFusedWith HitKind = 3 // directly after HitOpFused: the second node is at Arg
	HitOpEnd     HitKind = 4 // arrives at the barrier that ends an operator; Arg tells thread pools apart
)

// Hit is one operator-level event of one thread.
type Hit struct {
	Time int64
	Arg  uint64
	PID  int32
	TID  int32
	CPU  uint16
	Ith  uint16 // number of the thread in its team, of a begin
	Nth  uint16 // size of the team, of a begin
	Kind HitKind
}

// MarkKind says what a mark is.
type MarkKind uint8

const (
	MarkStepBegin  MarkKind = 1
	MarkStepEnd    MarkKind = 2
	MarkSchedBegin MarkKind = 3
	MarkSchedEnd   MarkKind = 4
	MarkGraphBegin MarkKind = 5
	MarkGraphEnd   MarkKind = 6
	MarkCopyBegin  MarkKind = 7
	MarkCopyEnd    MarkKind = 8
	MarkSyncBegin  MarkKind = 9
	MarkSyncEnd    MarkKind = 10

	// Queues of a device, by its own interface.
	MarkSubmitBegin MarkKind = 11 // work is handed over
	MarkSubmitEnd   MarkKind = 12
	MarkWaitBegin   MarkKind = 13 // a thread waits for it
	MarkWaitEnd     MarkKind = 14
	MarkDone        MarkKind = 15 // what a handle stands for is known to be done
)

// StepSeq is one sequence's part of a step's batch. It belongs to the step begin mark with
// the same Time and TID.
type StepSeq struct {
	Time    int64
	TID     int32
	Seq     int32
	NTokens int32
	Pos     int32 // position of its first token in the batch; -1: not told
	Outputs int32 // tokens whose logits are asked for
}

// SchedKind tells switches from wake-ups.
type SchedKind uint8

const (
	SchedSwitch SchedKind = 1
	SchedWakeup SchedKind = 2
	// SchedLook tells who has a CPU, as a thread that waited could have had it. Prev is Next, so that a
	// reader that does not know it may take it for a switch.
	SchedLook SchedKind = 3
)

// Sched is one scheduler event on a CPU or thread that matters.
//
// Of a switch: Prev left the CPU in state PrevState, Next runs now. Of a wake-up: Prev
// is the waker, Next the thread woken, CPU the one the waker runs on.
type Sched struct {
	Time      int64
	CPU       uint16
	Kind      SchedKind
	PrevState uint32 // task state as the kernel has it; 0: still runnable (preempted)
	PrevTID   int32
	PrevPID   int32 // thread group; 0 if not known
	PrevComm  string
	PrevPrio  int32
	NextTID   int32
	NextPID   int32
	NextComm  string
	NextPrio  int32
	// Held is how long, ns, Prev has had the CPU (switch), or Next (look); 0: an earlier record tells, or it
	// is not known.
	Held int64 `json:",omitempty"`
	// PrevKernel and NextKernel: it is a thread of the kernel.
	PrevKernel, NextKernel bool `json:",omitempty"`
}

// SampleKind says where counters were read.
type SampleKind uint8

const (
	SampleBegin SampleKind = 1 // at the operator's begin of the same thread and time
	SampleEnd   SampleKind = 2 // at its arrival
	SampleOff   SampleKind = 3 // where the thread left its CPU
	SampleOn    SampleKind = 4 // where it got one
)

// NoValue stands where a counter could not be read.
const NoValue = ^uint64(0)

// Sample is what the counters of Meta.Counters were for a thread. Those of a CPU count whatever runs there: a
// thread's part is the sum over its spans from one sample to the next on the same CPU, those between
// SampleOff and SampleOn left out.
type Sample struct {
	Time int64 // of the hit that it belongs to, or of the switch
	PID  int32
	TID  int32
	CPU  uint16
	Kind SampleKind
	// Torn: the thread lost its CPU while they were read; values can be another's.
	Torn bool
	// Values of each counter of a CPU, where it is scaled followed by the ns that it was enabled and that it
	// counted; then, except at switches, of each counter of threads.
	Values []uint64
}

// Counter is one column of the samples.
type Counter struct {
	Name string `json:"name"` // as perf has it
	// Role is what it stands for whatever it is called on a CPU: see package pmu. Empty: not known.
	Role string `json:"role,omitempty"`
	// Void says why its values are no counts; empty: they are.
	Void string `json:"void,omitempty"`
	// PMU that counts it, empty for one of threads, which the kernel counts.
	PMU string `json:"pmu,omitempty"`
	// Scaled: more counters were asked for than the hardware has, so each counted for a part of the time.
	Scaled bool   `json:"scaled,omitempty"`
	Code   string `json:"code,omitempty"` // "cpu/event=0x3c/": what was opened
	User   bool   `json:"user,omitempty"` // counts user space only
	Unit   string `json:"unit,omitempty"` // "ns", "bytes"; empty: a number
	// Slots is how many slots for instructions a cycle has, of a counter of slots; 0: not told.
	Slots int `json:"slots,omitempty"`
}

// PerThread tells counters of threads from those of CPUs.
func (c *Counter) PerThread() bool { return c.PMU == "" }

// Meta describes the recording. It is written at the start, and again when something in it
// became known.
type Meta struct {
	SchemaVersion int               `json:"schema_version"`
	Tool          string            `json:"tool"` // profinfer's version
	Command       []string          `json:"command,omitempty"`
	Start         int64             `json:"start_ns"`
	Realtime      int64             `json:"realtime_ns"` // CLOCK_REALTIME at Start
	BootID        string            `json:"boot_id"`
	Host          string            `json:"host"`
	Kernel        string            `json:"kernel"`
	Arch          string            `json:"arch"`
	CPU           string            `json:"cpu"`
	Cores         int               `json:"cores"`
	MemBytes      int64             `json:"mem_bytes"`
	Level         string            `json:"level"`
	ProbeCost     map[string]int64  `json:"probe_cost_ns,omitempty"` // by cost class, measured at start
	Notes         []string          `json:"notes,omitempty"`         // what is degraded, in words
	Extra         map[string]string `json:"extra,omitempty"`
	// Counters are what samples hold: those of CPUs first.
	Counters []Counter `json:"counters,omitempty"`
}

// Site is a probe site as recorded.
type Site struct {
	File    int    `json:"file"`
	Offset  uint64 `json:"offset"`
	Where   string `json:"where"`
	Insn    string `json:"insn"`
	Class   string `json:"class"`
	Role    Role   `json:"role"`
	Return  bool   `json:"return,omitempty"`
	Entry   string `json:"entry,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Covers  Covers `json:"covers,omitempty"`
	Backend string `json:"backend,omitempty"`
	Warning string `json:"warning,omitempty"`
}

// File is an ELF file of the engine.
type File struct {
	Path    string `json:"path"`
	BuildID string `json:"build_id,omitempty"`
	Role    string `json:"role"`
}

// Finding is how a fact about the engine was found.
type Finding struct {
	What   string `json:"what"`
	Value  string `json:"value"`
	How    string `json:"how"`
	Differ string `json:"differ,omitempty"`
}

// Process is one profiled process and how it was probed.
type Process struct {
	PID           int32     `json:"pid"`
	StartTime     uint64    `json:"start_time"` // clock ticks since boot: tells a reused PID apart
	Comm          string    `json:"comm"`
	Cmdline       []string  `json:"cmdline"`
	Engine        string    `json:"engine"`
	EngineVersion string    `json:"engine_version,omitempty"`
	GGMLVersion   string    `json:"ggml_version,omitempty"`
	GGMLCommit    string    `json:"ggml_commit,omitempty"`
	Files         []File    `json:"files"`
	Sites         []Site    `json:"sites"`
	Findings      []Finding `json:"findings"`
	Warnings      []string  `json:"warnings,omitempty"`
	// when the latest of its probes stood, but for those of steps' begins
	Attached int64 `json:"attached_ns"`
}

// Thread is one thread seen.
type Thread struct {
	PID  int32  `json:"pid"`
	TID  int32  `json:"tid"`
	Comm string `json:"comm"`
	// CPUs that it may use when this was told, as in "0-3,7"; empty: not known.
	CPUs string `json:"cpus,omitempty"`
}

// Node is one tensor of a graph shape.
type Node struct {
	Name      string    `json:"name"`
	Op        string    `json:"op"`
	Type      string    `json:"type"`
	Ne        [4]int64  `json:"ne"`
	Nb        [4]uint64 `json:"nb"`
	Src       []int32   `json:"src,omitempty"` // node numbers: nodes first, leaves numbered on
	ViewSrc   int32     `json:"view_src"`      // node number; -1: no view, or of a tensor outside the shape
	Addr      uint64    `json:"addr"`          // the tensor's own address
	Data      uint64    `json:"data"`
	Leaf      bool      `json:"leaf,omitempty"`
	Executes  bool      `json:"executes,omitempty"`
	BlockSize int64     `json:"block_size,omitempty"` // elements of the type's block
	TypeSize  int64     `json:"type_size,omitempty"`  // its bytes
	Params    []int32   `json:"params,omitempty"`
}

// Shape is the definition of a graph: its nodes in graph order, then its leaves.
type Shape struct {
	PID    int32  `json:"pid"`
	ID     uint64 `json:"id"`
	NNodes int    `json:"n_nodes"`
	Nodes  []Node `json:"nodes"`
	// Incomplete says what is missing of the definition, empty if nothing.
	Incomplete string `json:"incomplete,omitempty"`
	// Order says what the n-th arrival of a thread at the operators' barrier ends: the nodes of
	// the operator, fused ones after the first; none for an arrival that ends nothing. It was learned
	// from begins and arrivals of a graph of the same structure. nil: not known.
	Order [][]int32 `json:"order,omitempty"`
	// First is the least time that the main thread was seen to take for the graph's first operator, ns: where
	// only arrivals are seen, nothing else tells when that began, as starting threads takes its time.
	First int64 `json:"first_ns,omitempty"`
}

// What is seen of operators.
const (
	WatchBoth     = "both"     // begins and arrivals
	WatchArrivals = "arrivals" // arrivals only: what they end is told by Shape.Order
	WatchOff      = "off"
)

// Watch says what is seen of a process's operators from a time on. Before the first one, it is
// both.
type Watch struct {
	PID  int32  `json:"pid"`
	Time int64  `json:"time_ns"`
	Ops  string `json:"ops"` // WatchBoth, WatchArrivals, WatchOff
	// Why it changed: WhyLearning, "following", "unmatched" (arrivals did not fit), "two hits" (begins are
	// needed), "budget", "speed" (the floor for service).
	Why string `json:"why,omitempty"`
}

// Loss is a span that was not fully seen.
type Loss struct {
	Start  int64  `json:"start_ns"`
	End    int64  `json:"end_ns"`
	Why    string `json:"why"` // WhyLost, ...
	Events uint64 `json:"events"`
	What   string `json:"what,omitempty"` // LostHits, ...
	CPU    int    `json:"cpu"`            // -1: not of one CPU
	// Of names what it is of, where that is one process: which, and what went wrong.
	Of string `json:"of,omitempty"`
}

// Exit is the end of a profiled process.
type Exit struct {
	PID  int32 `json:"pid"`
	Time int64 `json:"time_ns"`
}

// End closes a recording in good order. A trace without it was cut.
type End struct {
	Time   int64  `json:"time_ns"`
	Reason string `json:"reason"` // "interrupted", "the command ended", "the process ended", "duration", ...
	Status int    `json:"status"` // of the command, -1 if there was none
	// Hits and Lost are the totals of operator-level events.
	Hits uint64 `json:"hits"`
	Lost uint64 `json:"lost"`
}
