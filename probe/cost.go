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
	coldHits   = 25
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

// Cost measures the cost of a hit on this machine by probing a call inside profinfer itself. It takes about
// 0.1 s.
func (s *Session) Cost() (c Cost, err error) {
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
	defer a.Release()
	const n = 4000
	run := func() time.Duration {
		best := time.Duration(1 << 62)
		for range 3 {
			t := time.Now()
			_ = measure(n)
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
	err = a.Detach()
	var e Events
	s.Drain(&e)
	if len(e.Hits) < n && s.RingBytes() > 6*n*slotBytes {
		return c, fmt.Errorf("measuring the cost of a probe: %d hits of %d were seen", len(e.Hits), 3*n)
	}
	s.Lost() // what did not fit here is not a loss of the recording
	c.Loop = max(0, with-without) / n
	c.Cold = max(c.Loop, coldWith-coldWithout)
	return c, err
}
