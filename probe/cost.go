// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"time"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

//go:noinline
func measured(n int) int { return n + 1 }

//go:noinline
func measure(n int) (sum int) {
	for i := range n {
		sum += measured(i)
	}
	return sum
}

// Cost is the cost of a hit at an emulated instruction.
type Cost struct {
	Loop time.Duration // hits in a tight loop, everything in the caches
	// Cold: after the caches were filled with other data, as an engine does with its weights between two
	// operators.
	Cold time.Duration
}

const (
	evictBytes = 8 << 20 // more than the caches of one core
	coldHits   = 9
	loopHits   = 1000
)

// cold times single calls, each after evicting the caches.
func cold(evict []byte) time.Duration {
	var best [coldHits]time.Duration
	for i := range best {
		for k := 0; k < len(evict); k += 64 {
			evict[k]++
		}
		t := time.Now()
		_ = measure(1)
		best[i] = time.Since(t)
	}
	slices.Sort(best[:])
	return best[coldHits/2]
}

// Cost measures the cost of a hit on this machine by probing a call inside profinfer itself. It takes some
// 30 ms, most of which the kernel waits. The probe no longer records, but stays until CostOver.
func (s *Session) Cost() (c Cost, err error) {
	s.CostOver()
	s.costGone(true)
	pid := os.Getpid()
	entry := uint64(reflect.ValueOf(measure).Pointer())
	callee := uint64(reflect.ValueOf(measured).Pointer())
	maps, err := target.Maps(pid)
	if err != nil {
		return c, err
	}
	m, ok := target.FindMapping(maps, entry)
	if !ok {
		return c, fmt.Errorf("measuring the cost of a probe: profinfer's own code is not mapped from a file")
	}
	code := make([]byte, 256)
	if err := target.ReadMem(pid, entry, code); err != nil {
		return c, fmt.Errorf("measuring the cost of a probe: %w", err)
	}
	var site uint64
	for at := uint64(0); at < uint64(len(code)); {
		in, err := target.Decode(target.Arch(runtime.GOARCH), code[at:], entry+at)
		if err != nil {
			break
		}
		if in.Kind == target.Call && in.Target == callee {
			site = in.Addr
			break
		}
		at += uint64(in.Len)
	}
	if site == 0 {
		return c, fmt.Errorf("measuring the cost of a probe: the call to be probed was not found")
	}
	a, err := s.Process(pid, &engine.Layout{})
	if err != nil {
		return c, err
	}
	s.measured = a
	run := func() time.Duration {
		best := time.Duration(1 << 62)
		for range 3 {
			t := time.Now()
			_ = measure(loopHits)
			best = min(best, time.Since(t))
		}
		return best
	}
	evict := make([]byte, evictBytes)
	without, coldWithout := run(), cold(evict)
	err = a.Attach([]engine.File{{Path: m.Path, Open: "/proc/self/exe"}},
		[]engine.Site{{Offset: m.FileOffset(site), Role: engine.RoleOpEnd, A: engine.Arg{Kind: engine.ArgReg},
			Where: "profinfer's own call"}})
	if err != nil {
		return c, err
	}
	with, coldWith := run(), cold(evict)
	err = a.Stop()
	var e Events
	s.Drain(&e)
	if len(e.Hits) < loopHits && s.RingBytes() > 6*loopHits*slotBytes {
		return c, fmt.Errorf("measuring the cost of a probe: %d probe events of %d were seen", len(e.Hits),
			3*loopHits)
	}
	s.Lost() // what did not fit here is not a loss of the recording
	c.Loop = max(0, with-without) / loopHits
	c.Cold = max(c.Loop, coldWith-coldWithout)
	return c, err
}

// CostOver begins to remove what Cost has probed, beside everything else: the kernel waits for grace periods.
// While it does, it sets other probes without waiting for one: this is best called where they follow soon.
// Where it is not called, Close removes the probe.
func (s *Session) CostOver() {
	a := s.measured
	if a == nil || s.unmeasured != nil {
		return
	}
	done := make(chan struct{})
	s.unmeasured = done
	go func() {
		defer close(done)
		a.Detach() //nolint:errcheck // it records nothing any more
	}()
}

// costGone returns the numbers of what Cost has probed once it is detached. wait: until then.
func (s *Session) costGone(wait bool) {
	if s.measured == nil || s.unmeasured == nil {
		return
	}
	if !wait {
		select {
		case <-s.unmeasured:
		default:
			return
		}
	}
	<-s.unmeasured
	s.measured.Release()
	s.measured = nil
}
