// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Layout of a BPF ring buffer as user space maps it, and of a record's header (kernel/bpf/ringbuf.c): one
// page with the consumer's position, one with the producer's, then the data twice in a row, so that a record
// never wraps.
const (
	ringBusy    = 1 << 31
	ringDiscard = 1 << 30
	ringHeader  = 8
)

// ring consumes one BPF ring buffer. The library's reader takes a lock and stores its position for every
// record, and spins on a record that is not yet submitted. If a thread is preempted inside a probe, the
// workload pays for that spinning.
type ring struct {
	consumer *uint64
	producer *uint64
	data     []byte
	mask     uint64
	cons     []byte // mappings to unmap
	prod     []byte
}

func mapRing(m *ebpf.Map) (*ring, error) {
	page := os.Getpagesize()
	size := int(m.MaxEntries())
	cons, err := unix.Mmap(m.FD(), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping a ring buffer's consumer page: %w", err)
	}
	prod, err := unix.Mmap(m.FD(), int64(page), page+2*size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		unix.Munmap(cons)
		return nil, fmt.Errorf("mapping a ring buffer of %d bytes: %w", size, err)
	}
	return &ring{
		consumer: (*uint64)(unsafe.Pointer(&cons[0])),
		producer: (*uint64)(unsafe.Pointer(&prod[0])),
		data:     prod[page:],
		mask:     uint64(size - 1),
		cons:     cons,
		prod:     prod,
	}, nil
}

func (r *ring) close() {
	unix.Munmap(r.cons)
	unix.Munmap(r.prod)
}

// written returns how far the ring was written, taken how far it was read, in bytes.
func (r *ring) written() uint64 { return atomic.LoadUint64(r.producer) }
func (r *ring) taken() uint64   { return atomic.LoadUint64(r.consumer) }

// fill returns the fraction of the ring that waits to be read.
func (r *ring) fill() float64 {
	return float64(atomic.LoadUint64(r.producer)-atomic.LoadUint64(r.consumer)) / float64(r.mask+1)
}

// drain calls fn for every record submitted so far. The record is in the ring: fn must copy what it keeps. It
// returns false if it stopped at a record that is reserved but not yet submitted.
func (r *ring) drain(fn func(rec []byte)) bool {
	pos := atomic.LoadUint64(r.consumer)
	end := atomic.LoadUint64(r.producer)
	complete := true
	for pos < end {
		at := pos & r.mask
		head := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[at])))
		if head&ringBusy != 0 {
			complete = false
			break
		}
		n := uint64(head &^ (ringBusy | ringDiscard))
		if head&ringDiscard == 0 {
			fn(r.data[at+ringHeader : at+ringHeader+n])
		}
		pos += (n + ringHeader + 7) &^ 7
	}
	atomic.StoreUint64(r.consumer, pos)
	return complete
}
