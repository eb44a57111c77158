// SPDX-License-Identifier: Apache-2.0

// Package engine describes what an inference engine is to profinfer: calls that compute tokens (steps),
// graphs, and operators that threads execute. A [Plan] contains what is needed to observe one process of an
// engine: which sites to probe, and how to read the values there. Packages below this one (ggml) make plans;
// package probe carries them out without knowing any engine.
package engine

import (
	"fmt"

	"github.com/profinfer/profinfer/target"
	"github.com/profinfer/profinfer/trace"
)

// Role is the meaning of a hit at a site.
type Role uint8

const (
	RoleNone        Role = iota
	RoleStepBegin        // a call that computes a batch begins
	RoleStepEnd          // that call returns
	RoleSchedBegin       // the graph scheduler begins to run a graph (all of its splits)
	RoleSchedEnd         // the scheduler is done
	RoleGraphBegin       // one backend begins to run one graph
	RoleGraphEnd         // that graph is done
	RoleOpBegin          // a thread begins an operator
	RoleOpFused          // a thread begins a fused operator: two nodes at once
	RoleOpEnd            // a thread arrives at the barrier that ends an operator
	RoleCopyBegin        // data begin to be copied into, out of or between backends' memory
	RoleCopyEnd          // that call returns: an asynchronous copy may still be in progress
	RoleSyncBegin        // a thread begins to wait until a backend has finished all its work
	RoleSyncEnd          // the wait is over
	RoleSubmitBegin      // submission of work to a device queue begins
	RoleSubmitEnd        // that call returns
	RoleWaitBegin        // a thread begins to wait for work in a queue
	RoleWaitEnd          // that call returns
	RoleDone             // handles of submissions are known to be done
	numRoles
)

// roleNames are their names in a recording.
var roleNames = [numRoles]trace.Role{"none", trace.RoleStepBegin, trace.RoleStepEnd, trace.RoleSchedBegin,
	trace.RoleSchedEnd,
	trace.RoleGraphBegin, trace.RoleGraphEnd, trace.RoleOpBegin, trace.RoleOpFused, trace.RoleOpEnd,
	trace.RoleCopyBegin, trace.RoleCopyEnd,
	trace.RoleSyncBegin, trace.RoleSyncEnd, trace.RoleSubmitBegin, trace.RoleSubmitEnd, trace.RoleWaitBegin,
	trace.RoleWaitEnd, trace.RoleDone}

// Recorded is the role's name in a recording.
func (r Role) Recorded() trace.Role {
	if r < numRoles {
		return roleNames[r]
	}
	return "unknown role"
}

func (r Role) String() string { return string(r.Recorded()) }

// Level is how much is recorded. Each level contains those before it.
type Level uint8

const (
	LevelStep  Level = iota // steps only
	LevelGraph              // and graphs
	LevelOp                 // and operators on every thread
)

func (l Level) String() string {
	return [...]string{trace.LevelStep, trace.LevelGraph,
		trace.LevelOp}[min(l, 2)]
}

// Needs returns the lowest level at which sites of this role are probed.
func (r Role) Needs() Level {
	switch r {
	case RoleOpBegin, RoleOpFused, RoleOpEnd:
		return LevelOp
	case RoleGraphBegin, RoleGraphEnd, RoleCopyBegin, RoleCopyEnd, RoleSyncBegin, RoleSyncEnd,
		RoleSubmitBegin, RoleSubmitEnd, RoleWaitBegin, RoleWaitEnd, RoleDone:
		return LevelGraph
	}
	return LevelStep
}

// Batch is how a step's batch is passed, so that the kernel side can read it.
type Batch uint8

const (
	BatchNone    Batch = iota // nothing to read
	BatchByValue              // a struct (llama_batch) on the stack
	BatchPointer              // a pointer to that struct
	BatchVector               // a pointer to an object that holds a vector of tokens (llama_batch_ext)
)

// Arg is where a value is found when a site is hit.
type Arg struct {
	Kind ArgKind
	// Reg is the number of the integer argument, 0 to 5 (ABI order: rdi, rsi, rdx,
	// rcx, r8, r9; x0 to x5), for ArgReg and ArgAt.
	Reg uint8
	// Stack is a distance in bytes: from the stack pointer at the site for ArgStackAddr (the value is the
	// address itself) and ArgStackAt, from the register for ArgAt. For ArgConst it is the value.
	Stack int32
}

// ArgKind is the kind of place of an argument, such as a register or the stack.
type ArgKind uint8

const (
	ArgNone ArgKind = iota
	ArgReg
	ArgStackAddr
	// For roles of queues only: 8 bytes in memory that a register points to, or on the stack; a number.
	ArgAt
	ArgStackAt
	ArgConst
)

// Site is one place to probe.
type Site struct {
	File   int    // index into Plan.Files
	Offset uint64 // file offset: where the uprobe goes
	Addr   uint64 // virtual address in the file's own numbering
	Where  string // readable: function+0x12, the best name known
	Insn   string // disassembly of the probed instruction
	Class  target.Class
	Role   Role
	Return bool // a return probe: fires when the function that begins here (stack not moved yet) returns

	// Meaning of the values, by role:
	//   step begin:  A = engine context, B = batch, C = the type argument if the function has one
	//   sched begin: A = scheduler, B = graph
	//   graph begin: A = graph, B = plan of the computation (cplan) or none, C = backend object or none
	//   op begin:    A = compute parameters, B = tensor
	//   op fused:    A = compute parameters, B = first tensor, C = second tensor
	//   op end:      A = thread pool
	//   copy begin:  A = tensor that is written (read, if host memory is written), B = bytes or none,
	//                C = tensor that is read or none
	//   sync begin:  C = backend object, or the one that it forwards the call to
	//   submit begin, wait begin: A = queue, B = the handle that shows when it is done (a fence, an event),
	//                C = device, D = submit: number of batches of work, 0 for none; wait: see Covers; each or
	//                none
	//   done:        B = address of an array of handles, C = device, D = their number
	A, B, C, D Arg
	// Covers is what is known to be done when a wait has returned 0. If it waits for a handle (B), D is the
	// number of handles: with more than one nothing is known. If it waits for a queue, D is 0 if the call
	// does not wait.
	Covers  trace.Covers
	Batch   Batch  // step begin only
	Entry   string // step, sched, copy and queues: name of the entry point ("llama_decode")
	Phase   string // step begin: "encode" if the function is an encoder, otherwise empty
	Warning string // why this site costs more than it should, empty if it does not
	Backend string // graph begin and end: the backend, if the site alone determines it
}

// Dear describes why a site is expensive, if it has a Warning.
func (s *Site) Dear() string {
	what := s.Role.String()
	if s.Backend != "" {
		what += " of " + s.Backend
	}
	return fmt.Sprintf("%s at %s (%s) is %s", what, s.Where, s.Insn, s.Warning)
}

// File is one ELF file of the engine that a process has mapped.
type File struct {
	Path    string // as the process names it
	BuildID string // hexadecimal, empty if the file has none
	Inode   uint64
	Dev     uint64
	Role    string // "base", "cpu", "llama", "whisper", "backend:vulkan", ...
	Open    string // a path through which profinfer can open the very inode (/proc/PID/map_files/...)
	// ID is that of the analysed file: Open may lead to a different one later. Zero: unknown.
	ID target.FileID
	// Unmapped: the process has unmapped it, and may map it again.
	Unmapped bool
}

// Region is a byte range of a structure.
type Region struct{ Off, Len uint16 }

// Layout is what the kernel side needs to walk a graph's definition and to read parameters and batches. All
// offsets are in bytes.
type Layout struct {
	GraphNNodes   uint16 // int32: number of nodes
	GraphNodes    uint16 // pointer to an array of pointers to tensors
	GraphUID      uint16 // uint64 identity; 0xffff: none
	TensorSize    uint16 // bytes to copy per tensor, at most 384
	TensorSrc     uint16 // array of MaxSrc pointers
	MaxSrc        uint16
	TensorViewSrc uint16 // pointer; not null: the tensor is a view of another
	TensorOp      uint16 // int32: the operator's number
	TensorFlags   uint16 // int32: among others, whether it is to be computed
	// Dimensions and strides (four 64-bit numbers each) and the pointer to the data.
	TensorNe, TensorNb, TensorData uint16
	// ChooseOp is the number of the operator of which each token uses only some of the weights, and ChooseSrc
	// the index of the source that selects them: 32-bit numbers, one row per token.
	ChooseOp, ChooseSrc uint16
	// Always are the regions hashed into a graph's identity, OwnData those hashed only for tensors that are
	// not views (a view's address can change from token to token within one shape).
	Always, OwnData []Region

	ParamsIth, ParamsNth uint16 // int32 each, of compute parameters
	PlanThreads          uint16 // int32 of the computation's plan; 0xffff: none

	// llama_batch: n_tokens int32, then pointers (0xffff: absent)
	BatchNTokens, BatchPos, BatchSeqID, BatchLogits uint16
	// llama_batch_ext: vector of tokens (begin and end pointers), token size; in a token the head of a list
	// of sequence IDs (node: next, then int32 at VecSeqVal), an int32 position reached through a pointer or
	// inline, an output flag. 0xffff: unknown.
	VecBegin, VecEnd, VecStride, VecSeqHead, VecSeqVal, VecPos, VecOutput uint16
	VecPosIndirect                                                        bool
}

// Absent marks an offset that this engine does not have or that is unknown.
const Absent = 0xffff

// Finding is how one fact of a plan was found, for the trace and for doctor.
type Finding struct {
	What   string `json:"what"`             // "tensor.ne"
	Value  string `json:"value"`            // "16"
	How    string `json:"how"`              // "ggml_nelements: mov 0x10(%rdi)", "history 2024-11-16"
	Differ string `json:"differ,omitempty"` // the value from another source, if it disagrees
}

// Warning describes what a recording will lack, and when that matters. A site that is expensive carries its
// own warning.
type Warning struct {
	Text  string
	Level Level // the lowest recording level at which it matters
	// Condition in the run for the warning to matter; zero values: none.
	Elsewhere bool   // operators ran in no visible graph: on a backend whose graphs are not probed
	Backend   string // a graph of this backend ran
	Entry     string // this entry point was called: the Entry of a site
}

// Features is what can be done with the sites of a plan besides timing them. The recorder checks these, not
// which engine it is.
type Features struct {
	// Lockstep: each thread of a team arrives once at the end of each operator, and its arrival identifies
	// the team. So the order in which a graph's operators end can be learned, and from then on begins need
	// not be probed.
	Lockstep bool
	// Definitions: a graph is in memory as described by Layout when it begins. Without it only an operator's
	// time is known.
	Definitions bool
	// Batches: a step's begin shows what it computes: tokens and sequences. Without it prefill and decode
	// cannot be distinguished.
	Batches bool
	// Routing: some operators use some of their weights for each token, and one of their sources selects
	// them: Layout.ChooseOp, ChooseSrc.
	Routing bool
	// Schedulers: a scheduler's run reveals backends whose functions have no symbol. The engine's Backends
	// method finds them.
	Schedulers bool
}

// Plan is everything needed to observe one process.
type Plan struct {
	Engine        string // "llama.cpp", "whisper.cpp", "ggml"
	EngineVersion string // "0.7.0", empty if unknown
	// Library is what runs the operators, where that is not the engine itself: "ggml".
	Library, LibraryVersion, LibraryCommit string
	Features                               Features
	Arch                                   target.Arch
	Files                                  []File
	Sites                                  []Site
	// of copies: probed if there is a backend other than the CPU
	Copies   []Site
	Layout   Layout
	Findings []Finding
	Warnings []Warning
	// LeftOut says which files were not read to the end, as that would cost too much; nil: none. Warnings
	// includes it.
	LeftOut error
	// Inner maps objects to which a backend forwards a call to the backend object: a RoleSyncBegin site may
	// yield them.
	Inner map[uint64]uint64
	// Operators maps the engine's names of operators to their numbers; members of a family (SILU of UNARY)
	// have the family's number.
	Operators map[string]int
	// Decode turns the raw bytes of tensors (as copied by the kernel side) into definitions.
	Decode Decoder
}

// RawTensor is a tensor as copied from the process.
type RawTensor struct {
	Addr uint64
	Data []byte // Layout.TensorSize bytes
}

// Tensor is one definition, in the engine's own terms.
type Tensor struct {
	Addr    uint64
	Name    string
	Op      string // the engine's description of the operator (ggml_op_desc): MUL_MAT, SILU, ...
	Type    string // "f32", "q4_0"
	Ne      [4]int64
	Nb      [4]uint64
	Src     []uint64 // addresses, null ones left out, order kept
	ViewSrc uint64
	Data    uint64
	// Executes is false for tensors that no thread ever computes: views and the like, tensors with a
	// dimension of zero, those not marked for computation.
	Executes bool
	// BlockSize (elements) and TypeSize (bytes) of the type's blocks; 0 if unknown.
	BlockSize, TypeSize int64
	Params              []int32 // operator parameters, as far as they are kept
}

// Decoder turns raw tensors into definitions. It never panics on invalid data: names are cut at the end of
// their field, numbers are taken as they are.
type Decoder interface {
	Tensor(raw RawTensor) (Tensor, error)
}
