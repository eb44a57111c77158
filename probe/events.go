// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"unsafe"

	"github.com/profinfer/profinfer/trace"
)

// The records of the kernel side as this package returns them: those that a recording contains, in the
// trace's types, and those from which shapes are made. Times are nanoseconds of CLOCK_BOOTTIME. See
// bpf/profinfer.h, from which the kernel* types are generated.

// Def is a tensor as it was in the process when its graph began.
type Def struct {
	PID   int32
	Shape uint64
	Addr  uint64
	Index uint32 // of the node (for a leaf: of the node that reads it)
	Leaf  bool
	Raw   []byte // empty: it could not be read
}

// ShapeEnd marks that all definitions of a shape were sent.
type ShapeEnd struct {
	PID     int32
	Shape   uint64
	Time    int64
	NNodes  int
	NDefs   int
	Failed  int // reads that failed
	Claimed int
	// a hash of the operators in their order, for Attachment.SetRoutingPlaces; 0: not requested
	OpSequence uint64
}

// Lost counts records that found no room, or failed reads of the process's memory.
type Lost struct {
	Hits, Marks, Defs, Sched, Reads uint64
	Filtered                        uint64 // hits that were filtered out on purpose: not a loss
	Faults                          uint64
	Experts                         uint64 // records of routing tokens to experts
	// switches of other processes beyond the limit per CPU while threads wait: not a loss
	Others uint64
}

// Total returns the number of lost records.
func (l Lost) Total() uint64 { return l.Hits + l.Marks + l.Defs + l.Sched + l.Faults + l.Experts }

// of returns the counter of one kind.
func (l *Lost) of(k kernelLostKind) *uint64 {
	return [...]*uint64{kernelLostKindLOST_HITS: &l.Hits, kernelLostKindLOST_MARKS: &l.Marks,
		kernelLostKindLOST_DEFS:  &l.Defs,
		kernelLostKindLOST_SCHED: &l.Sched, kernelLostKindLOST_READS: &l.Reads,
		kernelLostKindLOST_FILTERED: &l.Filtered,
		kernelLostKindLOST_FAULTS:   &l.Faults, kernelLostKindLOST_ROUTING: &l.Experts,
		kernelLostKindLOST_OTHERS: &l.Others}[k]
}

func (l Lost) sub(o Lost) Lost {
	for k := range kernelLostKindNUM_LOST {
		*l.of(k) -= *o.of(k)
	}
	return l
}

// Events is the result of one drain. The next drain reuses its slices.
type Events struct {
	// for an end, Arg is 21 bits of the thread pool's address, from bit 6 on; 0 if the site does not reveal
	// it
	Hits      []trace.Hit
	Marks     []trace.Mark // Site is a key of Attachment.Sites
	Seqs      []trace.StepSeq
	Sched     []trace.Sched
	Defs      []Def
	ShapeEnds []ShapeEnd
	Samples   []trace.Sample // their values are reused too
	Faults    []trace.Fault
	Experts   []trace.Experts // theirs are reused too
	// Complete: no ring held a record that was reserved but not submitted.
	Complete bool
	// Fill is how full the fullest CPU's ring was, 0 to 1.
	Fill float64

	comms   map[[16]int8]string
	values  []uint64
	numbers []int32
}

func (e *Events) reset() {
	e.Hits, e.Marks, e.Seqs, e.Sched = e.Hits[:0], e.Marks[:0], e.Seqs[:0], e.Sched[:0]
	e.Defs, e.ShapeEnds = e.Defs[:0], e.ShapeEnds[:0]
	e.Samples, e.values = e.Samples[:0], e.values[:0]
	e.Experts, e.numbers = e.Experts[:0], e.numbers[:0]
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

// scheduling takes a record from a CPU's ring.
func (e *Events) scheduling(rec []byte) {
	if len(rec) < int(unsafe.Sizeof(kernelSchedEvent{})) {
		return
	}
	s := (*kernelSchedEvent)(unsafe.Pointer(&rec[0]))
	e.Sched = append(e.Sched, trace.Sched{
		Time: int64(s.Ts), CPU: uint16(s.Kind >> 16), Kind: trace.SchedKind(s.Kind),
		PrevState: s.PrevState,
		PrevTID:   int32(s.PrevTid), PrevPID: int32(s.PrevTgid), PrevPrio: s.PrevPrio,
		NextTID: int32(s.NextTid), NextPID: int32(s.NextTgid), NextPrio: s.NextPrio,
		PrevComm: e.comm(s.PrevComm), NextComm: e.comm(s.NextComm),
		Held: int64(s.Held), PrevKernel: s.Kind&uint32(kernelSchedFlagSCHED_PREV_KERNEL) != 0,
		NextKernel: s.Kind&uint32(kernelSchedFlagSCHED_NEXT_KERNEL) != 0,
	})
}

// shared takes a record from the rings for marks and definitions.
func (e *Events) shared(rec []byte) {
	if len(rec) < 4 {
		return
	}
	switch typ := *(*kernelRecordType)(unsafe.Pointer(&rec[0])); {
	case typ == kernelRecordTypeREC_MARK && len(rec) >= int(unsafe.Sizeof(kernelMark{})):
		m := (*kernelMark)(unsafe.Pointer(&rec[0]))
		e.Marks = append(e.Marks, trace.Mark{
			Time: int64(m.Ts), PID: int32(m.Tgid), TID: int32(m.Tid), CPU: m.Cpu,
			Kind: trace.MarkKind(m.Kind), Site: m.Site,
			Ctx: m.Ctx, Graph: m.Graph, Shape: m.Shape, UID: m.Uid,
			NNodes: m.N_nodes, Threads: m.Threads, NTokens: m.N_tokens, Type: m.Arg,
		})
	case typ == kernelRecordTypeREC_SEQ && len(rec) >= int(unsafe.Sizeof(kernelSeq{})):
		s := (*kernelSeq)(unsafe.Pointer(&rec[0]))
		e.Seqs = append(e.Seqs, trace.StepSeq{Time: int64(s.Ts), TID: int32(s.Tid), Seq: s.Seq,
			NTokens: s.N_tokens, Pos: s.Pos, Outputs: s.Outputs})
	case (typ == kernelRecordTypeREC_NODE || typ == kernelRecordTypeREC_LEAF) &&
		len(rec) >= int(unsafe.Sizeof(kernelDef{})):
		d := (*kernelDef)(unsafe.Pointer(&rec[0]))
		n := min(d.Size, uint32(len(d.Raw)))
		e.Defs = append(e.Defs, Def{PID: int32(d.Tgid), Shape: d.Shape, Addr: d.Addr, Index: d.Index,
			Leaf: typ == kernelRecordTypeREC_LEAF, Raw: append([]byte(nil), d.Raw[:n]...)})
	case typ == kernelRecordTypeREC_SHAPE_END && len(rec) >= int(unsafe.Sizeof(kernelShapeEnd{})):
		s := (*kernelShapeEnd)(unsafe.Pointer(&rec[0]))
		e.ShapeEnds = append(e.ShapeEnds, ShapeEnd{PID: int32(s.Tgid), Shape: s.Shape, Time: int64(s.Ts),
			NNodes: int(s.N_nodes), NDefs: int(s.N_defs), Failed: int(s.Failed),
			Claimed: int(int32(s.Claimed)), OpSequence: s.OpSequence})
	}
}
