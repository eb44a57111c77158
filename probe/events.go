// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"unsafe"
)

// The records of the kernel side, as this package hands them on. Times are nanoseconds of
// CLOCK_BOOTTIME. See bpf/profinfer.h.

// Kinds of hits and marks.
const (
	HitOpBegin   = 1
	HitOpFused   = 2
	HitFusedWith = 3
	HitOpEnd     = 4
	hitOff       = 5 // handed on as samples
	hitOn        = 6

	MarkStepBegin  = 1
	MarkStepEnd    = 2
	MarkSchedBegin = 3
	MarkSchedEnd   = 4
	MarkGraphBegin = 5
	MarkGraphEnd   = 6
	MarkCopyBegin  = 7
	MarkCopyEnd    = 8
	MarkSyncBegin  = 9
	MarkSyncEnd    = 10

	MarkSubmitBegin = 11
	MarkSubmitEnd   = 12
	MarkWaitBegin   = 13
	MarkWaitEnd     = 14
	MarkDone        = 15
)

// Hit is one operator-level event of one thread. Arg is the tensor; of an end 21 bits of the
// thread pool's address, from bit 6 on; 0 where the site does not tell.
type Hit struct {
	Time     int64
	Arg      uint64
	PID, TID int32
	CPU      uint16
	Ith, Nth uint16
	Kind     uint8
}

// Mark is a boundary of a step, of a scheduler's run, or of a graph.
type Mark struct {
	Time     int64
	PID, TID int32
	CPU      uint16
	Kind     uint8
	Site     uint32 // Attachment.Sites index
	Ctx      uint64
	Graph    uint64
	Shape    uint64
	UID      uint64
	NNodes   int32
	Threads  int32
	NTokens  int32 // -1: not known
	Type     int32 // -1: none
}

// Seq is a run of tokens of one sequence in the batch of the step that began at Time on TID.
type Seq struct {
	Time                            int64
	TID, Seq, NTokens, Pos, Outputs int32
}

// Def is a tensor as it lay in the process when its graph began.
type Def struct {
	PID   int32
	Shape uint64
	Addr  uint64
	Index uint32 // of the node (a leaf: of the node that reads it)
	Leaf  bool
	Raw   []byte // empty: it could not be read
}

// ShapeEnd says that all definitions of a shape were sent.
type ShapeEnd struct {
	PID     int32
	Shape   uint64
	Time    int64
	NNodes  int
	NDefs   int
	Failed  int // reads that failed
	Claimed int
	Kin     uint64 // the same of graphs with the same operators, for Attachment.SetChoosers; 0: not asked for
}

// Sched is a scheduling event: kind 1 a switch from Prev to Next, kind 2 Prev woke Next, kind 3 Next was seen to have the CPU.
type Sched struct {
	Time               int64
	CPU                uint16
	Kind               uint8
	PrevState          uint32
	PrevTID, PrevPID   int32
	NextTID, NextPID   int32
	PrevPrio, NextPrio int32
	PrevComm, NextComm string
	// Held is how long, ns, Prev has had the CPU at a switch, or Next where it is seen to have it; 0 where an earlier event tells.
	Held                   int64
	PrevKernel, NextKernel bool // a thread of the kernel
}

// Lost counts records that found no room, or reads of the process's memory that failed.
type Lost struct {
	Hits, Marks, Defs, Sched, Reads uint64
	Filtered                        uint64 // hits that were not asked for: no loss
	Faults                          uint64
	Choices                         uint64 // parts of choices
	Others                          uint64 // switches of others beyond what a CPU may have while threads wait: no loss
}

// Total returns the number of lost records.
func (l Lost) Total() uint64 { return l.Hits + l.Marks + l.Defs + l.Sched + l.Faults + l.Choices }

func (l Lost) sub(o Lost) Lost {
	return Lost{l.Hits - o.Hits, l.Marks - o.Marks, l.Defs - o.Defs, l.Sched - o.Sched, l.Reads - o.Reads, l.Filtered - o.Filtered, l.Faults - o.Faults, l.Choices - o.Choices, l.Others - o.Others}
}

// Events is what one drain found. Its slices are reused by the next one.
type Events struct {
	Hits      []Hit
	Marks     []Mark
	Seqs      []Seq
	Sched     []Sched
	Defs      []Def
	ShapeEnds []ShapeEnd
	Samples   []Sample // their values are reused too
	Faults    []Fault
	Choices   []Choice // theirs as well
	// Complete: no ring held a record that was reserved but not submitted.
	Complete bool
	// Fill is how full the fullest ring of a CPU was, 0 to 1.
	Fill float64

	comms  map[[16]int8]string
	values []uint64
	picked []int32
}

func (e *Events) reset() {
	e.Hits, e.Marks, e.Seqs, e.Sched = e.Hits[:0], e.Marks[:0], e.Seqs[:0], e.Sched[:0]
	e.Defs, e.ShapeEnds = e.Defs[:0], e.ShapeEnds[:0]
	e.Samples, e.values = e.Samples[:0], e.values[:0]
	e.Choices, e.picked = e.Choices[:0], e.picked[:0]
	e.Complete, e.Fill = true, 0
	if e.comms == nil || len(e.comms) > 4096 {
		e.comms = make(map[[16]int8]string)
	}
}

func (e *Events) comm(c [16]int8) string {
	s, ok := e.comms[c]
	if !ok {
		b := (*[16]byte)(unsafe.Pointer(&c))[:]
		if i := bytes.IndexByte(b, 0); i >= 0 {
			b = b[:i]
		}
		s = string(b)
		e.comms[c] = s
	}
	return s
}

// Flags of a scheduling event's kind, as in bpf/profinfer.h.
const (
	prevKernel = 1 << 8
	nextKernel = 1 << 9
)

// scheduling takes a record of a CPU's ring.
func (e *Events) scheduling(rec []byte) {
	if len(rec) < int(unsafe.Sizeof(kernelSchedEvent{})) {
		return
	}
	s := (*kernelSchedEvent)(unsafe.Pointer(&rec[0]))
	e.Sched = append(e.Sched, Sched{
		Time: int64(s.Ts), CPU: uint16(s.Kind >> 16), Kind: uint8(s.Kind),
		PrevState: s.PrevState,
		PrevTID:   int32(s.PrevTid), PrevPID: int32(s.PrevTgid), PrevPrio: s.PrevPrio,
		NextTID: int32(s.NextTid), NextPID: int32(s.NextTgid), NextPrio: s.NextPrio,
		PrevComm: e.comm(s.PrevComm), NextComm: e.comm(s.NextComm),
		Held: int64(s.Held), PrevKernel: s.Kind&prevKernel != 0, NextKernel: s.Kind&nextKernel != 0,
	})
}

const (
	recMark = 1 + iota
	recSeq
	recNode
	recLeaf
	recShapeEnd
)

// shared takes a record of the rings for marks and definitions.
func (e *Events) shared(rec []byte) {
	if len(rec) < 4 {
		return
	}
	switch typ := *(*uint32)(unsafe.Pointer(&rec[0])); {
	case typ == recMark && len(rec) >= int(unsafe.Sizeof(kernelMark{})):
		m := (*kernelMark)(unsafe.Pointer(&rec[0]))
		e.Marks = append(e.Marks, Mark{
			Time: int64(m.Ts), PID: int32(m.Tgid), TID: int32(m.Tid), CPU: m.Cpu, Kind: uint8(m.Kind), Site: m.Site,
			Ctx: m.Ctx, Graph: m.Graph, Shape: m.Shape, UID: m.Uid,
			NNodes: m.N_nodes, Threads: m.Threads, NTokens: m.N_tokens, Type: m.Arg,
		})
	case typ == recSeq && len(rec) >= int(unsafe.Sizeof(kernelSeq{})):
		s := (*kernelSeq)(unsafe.Pointer(&rec[0]))
		e.Seqs = append(e.Seqs, Seq{Time: int64(s.Ts), TID: int32(s.Tid), Seq: s.Seq,
			NTokens: s.N_tokens, Pos: s.Pos, Outputs: s.Outputs})
	case (typ == recNode || typ == recLeaf) && len(rec) >= int(unsafe.Sizeof(kernelDef{})):
		d := (*kernelDef)(unsafe.Pointer(&rec[0]))
		n := min(d.Size, uint32(len(d.Raw)))
		e.Defs = append(e.Defs, Def{PID: int32(d.Tgid), Shape: d.Shape, Addr: d.Addr, Index: d.Index,
			Leaf: typ == recLeaf, Raw: append([]byte(nil), d.Raw[:n]...)})
	case typ == recShapeEnd && len(rec) >= int(unsafe.Sizeof(kernelShapeEnd{})):
		s := (*kernelShapeEnd)(unsafe.Pointer(&rec[0]))
		e.ShapeEnds = append(e.ShapeEnds, ShapeEnd{PID: int32(s.Tgid), Shape: s.Shape, Time: int64(s.Ts),
			NNodes: int(s.N_nodes), NDefs: int(s.N_defs), Failed: int(s.Failed), Claimed: int(int32(s.Claimed)), Kin: s.Kin})
	}
}
