// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// Numbers of processes and sites are small, as records carry them, and are reused: once no probe of their
// owner is attached (closing its links waits until no program of them runs) and everything written until then
// was read.

// maxProcesses is the maximum at a time: a hit's record has eight bits for the process.
const maxProcesses = uint32(kernelLimitMAX_PROCS)

// ErrFull means that a process cannot be recorded, or not completely, until others have ended.
var ErrFull = errors.New("it has to wait until others have ended")

// numbers are the numbers that a session assigns.
type numbers struct {
	pids   [maxProcesses]int32 // processes that have a number now; 0: the number is free
	serial uint32              // of the process that was last given a number
	free   []uint32            // sites that can be reused
	next   uint32              // the first site never used
	max    uint32              // sites at a time
}

// process assigns a number to a process. It also returns that number combined with a serial, which tells the
// process apart from earlier owners of the number.
func (n *numbers) process(pid int) (proc int, owner uint32, err error) {
	if proc = slices.Index(n.pids[:], 0); proc < 0 {
		return 0, 0, fmt.Errorf("process %d: more than %d processes at a time cannot be recorded: %w", pid,
			maxProcesses, ErrFull)
	}
	n.pids[proc] = int32(pid)
	n.serial++
	return proc, n.serial*maxProcesses | uint32(proc), nil
}

// Room reports whether one more process can be recorded.
func (n *numbers) Room() bool { return slices.Contains(n.pids[:], 0) }

// room reports whether there are numbers for this many sites.
func (n *numbers) room(pid, sites int) error {
	if len(n.free)+int(n.max-n.next) < sites {
		return fmt.Errorf("process %d: more than %d probe sites at a time cannot be had: %w", pid, n.max,
			ErrFull)
	}
	return nil
}

// site assigns a site's number; there must be room.
func (n *numbers) site() uint32 {
	if k := len(n.free); k > 0 {
		id := n.free[k-1]
		n.free = n.free[:k-1]
		return id
	}
	n.next++
	return n.next - 1
}

// positions are how far the kernel side had written at some time.
type positions struct {
	hits                  []uint64 // of each CPU
	marks, defs, routings uint64
}

// position returns how far the kernel side has written.
func (s *Session) position() positions {
	p := positions{marks: s.marks.written(), defs: s.defs.written()}
	for _, b := range s.hits {
		p.hits = append(p.hits, atomic.LoadUint64(b.head))
	}
	if s.routings != nil {
		p.routings = s.routings.written()
	}
	return p
}

// past reports whether everything written by then was drained.
func (s *Session) past(p positions) bool {
	for i, b := range s.hits {
		if b.next < p.hits[i] {
			return false
		}
	}
	return s.marks.taken() >= p.marks && s.defs.taken() >= p.defs &&
		(s.routings == nil || s.routings.taken() >= p.routings)
}

// Drained reports whether Drain has returned all events of a detached process. A ring is read up to the first
// incomplete record, so this can take several drains.
func (a *Attachment) Drained() bool { return a.left != nil && a.s.past(*a.left) }

// Release returns the process's numbers. Its events must have been drained.
func (a *Attachment) Release() {
	a.dropAll()
	if a.s.pids[a.proc] == int32(a.pid) && !a.released {
		a.s.pids[a.proc] = 0
		a.s.free = append(a.s.free, a.numbers...)
	}
	a.released, a.numbers = true, nil
}
