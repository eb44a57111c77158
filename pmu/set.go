// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernel is the part of the kernel that a set needs; tests use one without counters.
type kernel interface {
	open(attr *unix.PerfEventAttr, pid, cpu, group int) (fd int, err error)
	read(fd int) (Reading, error)
	enable(fd int, on bool) error
	close(fd int)
	wait(time.Duration)
}

type linux struct{}

func (linux) open(attr *unix.PerfEventAttr, pid, cpu, group int) (int, error) {
	return unix.PerfEventOpen(attr, pid, cpu, group, unix.PERF_FLAG_FD_CLOEXEC)
}

func (linux) read(fd int) (Reading, error) {
	var b [int(unsafe.Sizeof(Reading{}))]byte
	n, err := unix.Read(fd, b[:])
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(fd, b[:])
	}
	if err != nil {
		return Reading{}, err
	}
	if n < len(b) {
		// 0: a pinned event of a group could not be counted
		return Reading{}, errors.New("the kernel gave no count")
	}
	u := binary.NativeEndian.Uint64
	return Reading{u(b[:]), u(b[8:]), u(b[16:])}, nil
}

func (linux) enable(fd int, on bool) error {
	req := unix.PERF_EVENT_IOC_DISABLE
	if on {
		req = unix.PERF_EVENT_IOC_ENABLE
	}
	return unix.IoctlSetInt(fd, uint(req), 0)
}

func (linux) close(fd int)         { unix.Close(fd) }
func (linux) wait(d time.Duration) { time.Sleep(d) }

// Handles lists the open events, for a probe that reads them in the kernel.
func (s *Set) Handles() []Handle {
	out := make([]Handle, 0, len(s.handles))
	for _, h := range s.handles {
		out = append(out, h.Handle)
	}
	return out
}

// Enable starts all counters.
func (s *Set) Enable() error { return s.control(true, func(handle) bool { return true }) }

// control switches groups through their leaders.
func (s *Set) control(on bool, which func(handle) bool) error {
	for _, h := range s.handles {
		if !h.leader || !which(h) {
			continue
		}
		if err := s.kernel.enable(h.FD, on); err != nil {
			return fmt.Errorf("counter %s: %w", s.Counters[h.Counter].Name, err)
		}
	}
	return nil
}

// Total sums a counter over all CPUs.
func (s *Set) Total(counter int) (r Reading, err error) {
	for _, h := range s.handles {
		if h.Counter != counter {
			continue
		}
		one, err := s.kernel.read(h.FD)
		if err != nil {
			return Reading{}, fmt.Errorf("counter %s: %w", s.Counters[counter].Name, err)
		}
		r = r.Add(one)
	}
	return r, nil
}

// Close releases the counters.
func (s *Set) Close() error {
	s.closeFrom(0)
	return nil
}

func (s *Set) closeFrom(n int) {
	for _, h := range s.handles[n:] {
		s.kernel.close(h.FD)
	}
	s.handles = s.handles[:n]
}

func (s *Set) closeUnit(u *PMU) {
	kept := s.handles[:0]
	for _, h := range s.handles {
		if h.Event.PMU == u {
			s.kernel.close(h.FD)
		} else {
			kept = append(kept, h)
		}
	}
	s.handles = kept
}
