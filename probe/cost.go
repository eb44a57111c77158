// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
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

// Cost measures what a hit at an emulated instruction costs on this machine, in
// nanoseconds, by probing a call inside profinfer itself. In a loop, with everything in the caches:
// between the operators of an engine a hit costs several times as much.
func (s *Session) Cost() (time.Duration, error) {
	pid := os.Getpid()
	entry := uint64(reflect.ValueOf(measure).Pointer())
	callee := uint64(reflect.ValueOf(measured).Pointer())
	maps, err := target.Maps(pid)
	if err != nil {
		return 0, err
	}
	m, ok := target.FindMapping(maps, entry)
	if !ok {
		return 0, fmt.Errorf("measuring the cost of a probe: profinfer's own code is not mapped from a file")
	}
	code := make([]byte, 256)
	if err := target.ReadMem(pid, entry, code); err != nil {
		return 0, fmt.Errorf("measuring the cost of a probe: %w", err)
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
		return 0, fmt.Errorf("measuring the cost of a probe: the call to be probed was not found")
	}
	a, err := s.Process(pid, &engine.Layout{})
	if err != nil {
		return 0, err
	}
	defer a.Release()
	const n = 4000
	run := func() time.Duration {
		best := time.Duration(1 << 62)
		for range 3 {
			t := time.Now()
			measure(n)
			best = min(best, time.Since(t))
		}
		return best
	}
	without := run()
	err = a.Attach([]engine.File{{Path: m.Path, Open: "/proc/self/exe"}},
		[]engine.Site{{Offset: m.FileOffset(site), Role: engine.RoleOpEnd, Where: "profinfer's own call"}})
	if err != nil {
		return 0, err
	}
	with := run()
	err = a.Detach()
	var e Events
	s.Drain(&e)
	if len(e.Hits) < n && s.RingBytes() > 6*n*32 {
		return 0, fmt.Errorf("measuring the cost of a probe: %d hits of %d were seen", len(e.Hits), 3*n)
	}
	if _, lerr := s.Lost(); err == nil { // what did not fit here is no loss of the recording
		err = lerr
	}
	return max(0, with-without) / n, err
}
