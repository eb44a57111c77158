// SPDX-License-Identifier: Apache-2.0

// Package trace is profinfer's file: blocks of hits, marks, scheduling events and definitions, append-only
// and readable up to its last complete block. It needs no eBPF and can be read on any system.
//
// A recording is raw: what the probes saw, when and on which thread. Package profile computes what follows
// from it (operators, their times).
//
// [Create] begins a recording, [Open] reads one block by block. docs/trace-format.md describes the format,
// for readers in other languages too.
package trace

// All times are nanoseconds of CLOCK_BOOTTIME, all sizes bytes.

// HitKind is what a thread did.
type HitKind uint8

const (
	HitOpBegin   HitKind = 1 // begins the operator of the tensor at Arg
	HitOpFused   HitKind = 2 // begins a fused operator whose first node is at Arg
	HitFusedWith HitKind = 3 // directly after HitOpFused: the second node is at Arg
	HitOpEnd     HitKind = 4 // arrives at the barrier that ends an operator; Arg distinguishes thread pools
)

// Hit is one operator-level event of one thread.
type Hit struct {
	Time int64
	Arg  uint64
	PID  int32
	TID  int32
	CPU  uint16
	Ith  uint16 // number of the thread in its team, for a begin
	Nth  uint16 // size of the team, for a begin
	Kind HitKind
}

// MarkKind is the kind of a mark.
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

	// Queues of a device, through its own interface.
	MarkSubmitBegin MarkKind = 11 // work is submitted
	MarkSubmitEnd   MarkKind = 12
	MarkWaitBegin   MarkKind = 13 // a thread waits for it
	MarkWaitEnd     MarkKind = 14
	MarkDone        MarkKind = 15 // the work of a handle is known to be done
)

// StepSeq is one sequence's part of a step's batch. It belongs to the step begin mark with
// the same Time and TID.
type StepSeq struct {
	Time    int64
	TID     int32
	Seq     int32
	NTokens int32
	Pos     int32 // position of its first token in the batch; -1: unknown
	Outputs int32 // tokens whose logits are requested
}

// SchedKind is the kind of a scheduler event, such as a switch or a wake-up.
type SchedKind uint8

const (
	SchedSwitch SchedKind = 1
	SchedWakeup SchedKind = 2
	// SchedLook is who has a CPU that a waiting thread could have used. Prev equals Next, so that a reader
	// that does not know it may take it for a switch.
	SchedLook SchedKind = 3
)

// Sched is one scheduler event on a relevant CPU or thread.
//
// For a switch: Prev left the CPU in state PrevState, Next runs now. For a wake-up: Prev is the waker, Next
// the woken thread, CPU the one the waker runs on.
type Sched struct {
	Time      int64
	CPU       uint16
	Kind      SchedKind
	PrevState uint32 // task state in the kernel's encoding; 0: still runnable (preempted)
	PrevTID   int32
	PrevPID   int32 // thread group; 0 if unknown
	PrevComm  string
	PrevPrio  int32
	NextTID   int32
	NextPID   int32
	NextComm  string
	NextPrio  int32
	// Held is how long, ns, Prev has had the CPU (switch), or Next (look); 0: see an earlier record, or
	// unknown.
	Held int64 `json:",omitempty"`
	// PrevKernel and NextKernel: it is a kernel thread.
	PrevKernel, NextKernel bool `json:",omitempty"`
}

// SampleKind is where counters were read.
type SampleKind uint8

const (
	SampleBegin SampleKind = 1 // at the operator's begin of the same thread and time
	SampleEnd   SampleKind = 2 // at its barrier arrival
	SampleOff   SampleKind = 3 // when the thread left its CPU
	SampleOn    SampleKind = 4 // when it got a CPU
)

// NoValue stands for a counter that could not be read.
const NoValue = ^uint64(0)

// Sample has the values of the counters in Meta.Counters for a thread. CPU counters count whatever runs
// there: a thread's share is the sum over its spans from one sample to the next on the same CPU, except those
// between SampleOff and SampleOn.
type Sample struct {
	Time int64 // of its hit, or of the switch
	PID  int32
	TID  int32
	CPU  uint16
	Kind SampleKind
	// Torn: the thread lost its CPU while they were read; values can belong to another thread.
	Torn bool
	// Values has a value for each CPU counter, followed, if it is scaled, by the ns that it was enabled and
	// running; then, except at switches, a value for each thread counter.
	Values []uint64
}

// Counter is one column of the samples.
type Counter struct {
	Name string `json:"name"` // as in perf
	// Role is its meaning, whatever its name on a CPU: see package pmu. Empty: unknown.
	Role string `json:"role,omitempty"`
	// Void is why its values are not counts; empty: they are.
	Void string `json:"void,omitempty"`
	// PMU is the one that counts it, empty for a thread counter, which the kernel counts.
	PMU string `json:"pmu,omitempty"`
	// Scaled: more counters were requested than the hardware has, so each was running for part of the time.
	Scaled bool   `json:"scaled,omitempty"`
	Code   string `json:"code,omitempty"` // "cpu/event=0x3c/": what was opened
	User   bool   `json:"user,omitempty"` // counts user mode only
	Unit   string `json:"unit,omitempty"` // "ns", "bytes"; empty: a number
	// Slots is the number of instruction slots per cycle, for a counter of slots; 0: unknown.
	Slots int `json:"slots,omitempty"`
}

// PerThread reports whether this is a thread counter rather than a CPU counter.
func (c *Counter) PerThread() bool { return c.PMU == "" }

// Meta describes the recording. It is written at the start, and again when something in it becomes known.
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
	ProbeCost     map[string]int64  `json:"probe_cost_ns,omitempty"` // per cost class, measured at start
	Notes         []string          `json:"notes,omitempty"`         // what is degraded
	Extra         map[string]string `json:"extra,omitempty"`
	// Counters are what samples contain: CPU counters first.
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
	StartTime     uint64    `json:"start_time"` // clock ticks since boot: identifies a reused PID
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
	// when its last probe was in place, except those of steps' begins
	Attached int64 `json:"attached_ns"`
}

// Thread is one thread seen.
type Thread struct {
	PID  int32  `json:"pid"`
	TID  int32  `json:"tid"`
	Comm string `json:"comm"`
	// CPUs that it may use at that time, as in "0-3,7"; empty: unknown.
	CPUs string `json:"cpus,omitempty"`
}

// Node is one tensor of a graph shape.
type Node struct {
	Name      string    `json:"name"`
	Op        string    `json:"op"`
	Type      string    `json:"type"`
	Ne        [4]int64  `json:"ne"`
	Nb        [4]uint64 `json:"nb"`
	Src       []int32   `json:"src,omitempty"` // node numbers: leaves are numbered after nodes
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
	// Incomplete is what is missing in the definition, empty if nothing.
	Incomplete string `json:"incomplete,omitempty"`
	// Order has what the n-th arrival of a thread at the operators' barrier ends: the nodes of the operator,
	// fused ones after the first; none if the arrival ends nothing. It was learned from begins and arrivals
	// of a graph of the same structure. nil: unknown.
	Order [][]int32 `json:"order,omitempty"`
	// First is the shortest time seen of the main thread in the graph's first operator, ns. If only arrivals
	// are seen, nothing else shows when that operator began, as starting threads takes time.
	First int64 `json:"first_ns,omitempty"`
}

// What is observed of operators.
const (
	WatchBoth     = "both"     // begins and arrivals
	WatchArrivals = "arrivals" // arrivals only: Shape.Order gives what they end
	WatchOff      = "off"
)

// Watch is what is observed of a process's operators from some time on. Before the first one, it is both.
type Watch struct {
	PID  int32  `json:"pid"`
	Time int64  `json:"time_ns"`
	Ops  string `json:"ops"` // WatchBoth, WatchArrivals, WatchOff
	// Why it changed: WhyLearning, "following", "unmatched" (arrivals did not fit), "two hits" (begins are
	// needed), "budget", "speed" (the minimum speed).
	Why string `json:"why,omitempty"`
}

// Loss is a time span that was not completely observed.
type Loss struct {
	Start  int64  `json:"start_ns"`
	End    int64  `json:"end_ns"`
	Why    string `json:"why"` // WhyLost, ...
	Events uint64 `json:"events"`
	What   string `json:"what,omitempty"` // LostHits, ...
	CPU    int    `json:"cpu"`            // -1: not specific to a CPU
	// Of names the process, if it is a single one, and what went wrong.
	Of string `json:"of,omitempty"`
}

// Exit is the end of a profiled process.
type Exit struct {
	PID  int32 `json:"pid"`
	Time int64 `json:"time_ns"`
}

// End closes a recording normally. A trace without it was truncated.
type End struct {
	Time   int64  `json:"time_ns"`
	Reason string `json:"reason"` // "interrupted", "the command ended", "the process ended", "duration", ...
	Status int    `json:"status"` // of the command, -1 if there was none
	// Hits and Lost are the totals of operator-level events.
	Hits uint64 `json:"hits"`
	Lost uint64 `json:"lost"`
}
