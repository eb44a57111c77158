// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/trace"
)

// Layout of the hit buffers, see bpf/profinfer.h.
const (
	bufferHead = int(kernelLimitBUFFER_HEAD)
	slotBytes  = int(unsafe.Sizeof(kernelSlot{}))
	minSlots   = 256 // at least twice the slack
)

// Kinds of hits that are returned as samples.
const (
	hitOff = trace.HitKind(kernelHitKindHIT_OFF)
	hitOn  = trace.HitKind(kernelHitKindHIT_ON)
)

// buffer holds the hits of one CPU. The kernel side reserves slots by atomic addition and writes their time
// last. This side takes slots whose time is set, clears them and advances the tail.
type buffer struct {
	head, tail *uint64
	lost       []uint64 // by kind; see Session.Lost
	slots      []kernelSlot
	next       uint64 // copy of the tail, which nobody else writes
}

// mapBuffers maps the rings itself: ebpf.Memory returns copies, and hits must be read in place.
func mapBuffers(m *ebpf.Map, cpus, slots int) ([]*buffer, []byte, error) {
	each := bufferHead + slots*slotBytes
	mem, err := unix.Mmap(m.FD(), 0, cpus*each, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("mapping the rings: %w", err)
	}
	bs := make([]*buffer, cpus)
	for cpu := range bs {
		at := mem[cpu*each:]
		bs[cpu] = &buffer{
			head:  (*uint64)(unsafe.Pointer(&at[0])),
			tail:  (*uint64)(unsafe.Pointer(&at[8])),
			lost:  unsafe.Slice((*uint64)(unsafe.Pointer(&at[16])), int(kernelLostKindNUM_LOST)),
			slots: unsafe.Slice((*kernelSlot)(unsafe.Pointer(&at[bufferHead])), slots),
		}
	}
	return bs, mem, nil
}

// waiting returns the number of slots that are reserved and not yet taken.
func (b *buffer) waiting() int { return int(atomic.LoadUint64(b.head) - b.next) }

// drain appends the hits written so far. It returns false if it stopped at a slot that is reserved but not
// yet written.
func (b *buffer) drain(cpu uint16, pids *[maxProcesses]int32, c *Counters, e *Events) bool {
	mask := uint64(len(b.slots) - 1)
	end := atomic.LoadUint64(b.head)
	complete := true
	for b.next < end {
		s := &b.slots[b.next&mask]
		ts := atomic.LoadUint64(&s.Ts)
		if ts == 0 {
			complete = false
			break
		}
		h := trace.Hit{Time: int64(ts), TID: int32(s.Tid), CPU: cpu, PID: pids[s.Meta>>24],
			Kind: trace.HitKind(s.Meta >> 21 & 7)}
		s.Ts = 0
		b.next++
		switch h.Kind {
		case trace.HitOpEnd:
			h.Arg = uint64(s.Meta & (1<<21 - 1))
			e.Hits = append(e.Hits, h)
			if c.Any() {
				b.sample(&h, c, e)
			}
			continue
		case hitOff, hitOn:
			b.sample(&h, c, e)
			continue
		}
		h.Ith, h.Nth = uint16(s.Meta>>11&1023), uint16(s.Meta&2047)
		s = &b.slots[b.next&mask]
		h.Arg = s.Ts
		s.Ts = 0
		b.next++
		e.Hits = append(e.Hits, h)
		if c.Any() {
			b.sample(&h, c, e)
		}
		if h.Kind == trace.HitOpFused {
			h.Kind, h.Arg = trace.HitFusedWith, uint64(s.Meta)<<32|uint64(s.Tid)
			e.Hits = append(e.Hits, h)
		}
	}
	atomic.StoreUint64(b.tail, b.next)
	return complete
}
