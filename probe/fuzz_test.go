// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"testing"
	"unsafe"
)

// FuzzRecords reads records of the kernel side's rings, whatever their length.
func FuzzRecords(f *testing.F) {
	add := func(typ kernelRecordType, size uintptr) {
		b := make([]byte, size)
		*(*kernelRecordType)(unsafe.Pointer(&b[0])) = typ
		f.Add(b)
		f.Add(b[:size-1])
	}
	add(kernelRecordTypeREC_MARK, unsafe.Sizeof(kernelMark{}))
	add(kernelRecordTypeREC_SEQ, unsafe.Sizeof(kernelSeq{}))
	add(kernelRecordTypeREC_NODE, unsafe.Sizeof(kernelDef{}))
	add(kernelRecordTypeREC_LEAF, unsafe.Sizeof(kernelDef{}))
	add(kernelRecordTypeREC_SHAPE_END, unsafe.Sizeof(kernelShapeEnd{}))
	add(1, unsafe.Sizeof(kernelSchedEvent{}))
	add(1, unsafe.Sizeof(kernelFault{}))
	add(1, unsafe.Sizeof(kernelRouting{}))
	f.Add(bytes.Repeat([]byte{0xff}, int(unsafe.Sizeof(kernelDef{}))))
	f.Fuzz(func(t *testing.T, rec []byte) {
		words := make([]uint64, (len(rec)+7)/8+1) // a ring's records are aligned
		aligned := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])),
			8*len(words))[:copy(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words)), rec):len(rec)]
		var e Events
		for range 2 { // a drain uses the slices of the one before again
			e.reset()
			e.shared(aligned)
			e.scheduling(aligned)
			e.fault(aligned)
			e.routing(aligned)
			if n := len(e.Marks) + len(e.Seqs) + len(e.Defs) + len(e.ShapeEnds); n > 1 {
				t.Fatalf("%d events of one record", n)
			}
			for _, d := range e.Defs {
				if len(d.Raw) > len(rec) {
					t.Fatalf("%d bytes of a record of %d", len(d.Raw), len(rec))
				}
			}
			for _, c := range e.Experts {
				if 4*len(c.Chosen) > len(rec) {
					t.Fatalf("%d numbers of a record of %d bytes", len(c.Chosen), len(rec))
				}
			}
			for _, s := range e.Sched {
				if len(s.PrevComm) > 16 || len(s.NextComm) > 16 {
					t.Fatalf("%+v", s)
				}
			}
		}
	})
}

// FuzzBuffer drains the hits of a CPU, whatever stands in its slots and however they wrap.
func FuzzBuffer(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x20, 0, 0, 0}, uint16(0), uint8(0))
	f.Add(bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0xa0, 0}, 20), uint16(250), uint8(3))
	f.Add(bytes.Repeat([]byte{0xff}, 16*256), uint16(9), uint8(7))
	f.Fuzz(func(t *testing.T, b []byte, at uint16, counters uint8) {
		const slots = minSlots
		var head, tail uint64
		buf := &buffer{head: &head, tail: &tail, lost: make([]uint64, kernelLostKindNUM_LOST),
			slots: make([]kernelSlot, slots), next: uint64(at)}
		tail = uint64(at)
		n := min(len(b)/slotBytes, slots/2)
		for i := range n {
			*(*kernelSlot)(unsafe.Pointer(&buf.slots[(int(at)+
				i)%slots])) = *(*kernelSlot)(unsafe.Pointer(&b[i*slotBytes]))
		}
		head = uint64(at) + uint64(n)
		c := &Counters{Task: counters&1 != 0}
		var e Events
		e.reset()
		var pids [maxProcesses]int32
		complete := buf.drain(3, &pids, c, &e)
		if tail != buf.next || tail < uint64(at) || complete && tail < head || len(e.Hits) > 2*n ||
			len(e.Samples) > n {
			t.Fatalf("%d of %d slots, %d hits, %d samples", tail-uint64(at), n, len(e.Hits), len(e.Samples))
		}
		for i := uint64(at); i < tail && i < head; i++ {
			if buf.slots[i%slots].Ts != 0 {
				t.Fatalf("slot %d was not cleared", i)
			}
		}
		for _, s := range e.Samples {
			if len(s.Values) > 64 {
				t.Fatalf("%+v", s)
			}
		}
	})
}

// FuzzTexts reads what the kernel says of this process and of itself.
func FuzzTexts(f *testing.F) {
	f.Add("Name:\tx\nNoNewPrivs:\t0\nSeccomp:\t2\nCapEff:\t000001ffffffffff\nCapBnd:\t000001ffffffffff\n")
	f.Add("none [integrity] confidentiality\n")
	f.Add("6.18.5-rc1+deb14")
	f.Add("4194304\n")
	f.Add("CapEff: 1\nCapEff: 2\n")
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := parsePrivileges(s); err == nil {
			_ = p.Grant(Capabilities()...)
			if p.Lacks(Capabilities()...) == nil && !p.Has(CapBPF) {
				t.Fatalf("%+v", p)
			}
		}
		if l := parseLockdown(s); len(l) > len(s) {
			t.Fatalf("%q", l)
		}
		if v, err := ParseVersion(s); err == nil {
			for _, n := range v {
				if n < 0 || n > 1<<16 {
					t.Fatalf("version %v", v)
				}
			}
		}
		if n := parsePIDMax([]byte(s)); n == 0 || n > maxTID {
			t.Fatalf("threads up to %d", n)
		}
	})
}
