// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// How loud a machine may be for a test that needs quiet.
const (
	mostOverall = 0.05 // of all CPUs' time, during the test
	mostSecond  = 0.25 // in its loudest second
	mostLost    = 0.20 // what the host takes, unseen: of the speed of a loop before and after
	window      = time.Second
)

// usage is CPU time in clock ticks.
type usage struct {
	own     int64 // of the test's processes
	others  int64 // of all other processes but the kernel's, which work for either
	stolen  int64 // by the host
	seconds float64
}

// meter measures what others take of the CPUs while a test runs.
type meter struct {
	stop, done chan struct{}
	first      usage
	last       usage
	worst      float64 // share of all CPUs in the loudest window
	known      bool
}

// newMeter begins to measure. pid is the test's process: its descendants are the test's too.
func newMeter(pid int) *meter {
	m := &meter{stop: make(chan struct{}), done: make(chan struct{})}
	begin := time.Now()
	look := func() (usage, bool) {
		u, ok := read("/proc", pid)
		u.seconds = time.Since(begin).Seconds()
		return u, ok
	}
	m.first, m.known = look()
	m.last = m.first
	go func() {
		defer close(m.done)
		tick := time.NewTicker(window)
		defer tick.Stop()
		for end := false; !end; {
			select {
			case <-tick.C:
			case <-m.stop:
				end = true
			}
			u, ok := look()
			if end || !ok {
				return // the processes of a test that has ended are no longer its own
			}
			m.worst = max(m.worst, share(m.last, u))
			m.last = u
		}
	}()
	return m
}

// share is which part of all CPUs' time others had between two looks.
func share(a, b usage) float64 {
	if b.seconds <= a.seconds {
		return 0
	}
	ticks := max(0, b.others-a.others) + max(0, b.stolen-a.stolen)
	return float64(ticks) / userHZ / (b.seconds - a.seconds) / float64(runtime.NumCPU())
}

// end ends the measuring and says what made the machine loud, nothing if it was quiet. before is what lost
// returned before the test.
func (m *meter) end(before float64) string {
	close(m.stop)
	<-m.done
	return verdict(share(m.first, m.last), m.worst, max(before, lost()))
}

func verdict(overall, worst, lost float64) string {
	var say []string
	if overall > mostOverall || worst > mostSecond {
		say = append(say, fmt.Sprintf("others had %.0f %% of the CPUs, %.0f %% in the loudest second",
			100*overall, 100*worst))
	}
	if lost > mostLost {
		say = append(say, fmt.Sprintf("a loop ran %.0f %% slower than at best", 100*lost))
	}
	return strings.Join(say, ", ")
}

// userHZ is the number of clock ticks a second in /proc, on all systems that Go runs on.
const userHZ = 100

// read reads what processes and the host have taken since they began.
func read(proc string, root int) (usage, bool) {
	var u usage
	b, err := os.ReadFile(proc + "/stat")
	if err != nil {
		return u, false
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	if f := strings.Fields(string(line)); len(f) > 8 && f[0] == "cpu" {
		u.stolen, _ = strconv.ParseInt(f[8], 10, 64)
	}
	dirs, err := os.ReadDir(proc)
	if err != nil {
		return u, false
	}
	type process struct {
		parent int
		ticks  int64
	}
	all := map[int]process{}
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(proc + "/" + d.Name() + "/stat")
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(f) < 15 {
			continue
		}
		var p process
		p.parent, _ = strconv.Atoi(f[1])
		for _, s := range f[11:15] { // its own time, and that of children that ended
			n, _ := strconv.ParseInt(s, 10, 64)
			p.ticks += n
		}
		all[pid] = p
	}
	if _, ok := all[root]; !ok {
		return u, false
	}
	const kthreadd = 2
	for pid, p := range all {
		at := pid
		for range 1000 {
			if at == root || at <= kthreadd {
				break
			}
			at = all[at].parent
		}
		switch at {
		case root:
			u.own += p.ticks
		case kthreadd:
		default:
			if pid != os.Getpid() { // what it measures with
				u.others += p.ticks
			}
		}
	}
	return u, true
}

var fastest struct {
	sync.Mutex
	loop time.Duration
}

// lost returns how much slower than at its best in this process a loop ran on all CPUs at once, as a share of
// the loop's time: an operating system that is a guest may not see what its host takes.
func lost() float64 {
	const pieces = 30
	n := runtime.NumCPU()
	means, bests := make([]time.Duration, n), make([]time.Duration, n)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			bests[i] = time.Hour
			for range pieces {
				begin := time.Now()
				runtime.KeepAlive(spin())
				d := time.Since(begin)
				means[i] += d / pieces
				bests[i] = min(bests[i], d)
			}
		})
	}
	wait.Wait()
	fastest.Lock()
	defer fastest.Unlock()
	var mean time.Duration
	for i := range n {
		mean += means[i] / time.Duration(n)
		if fastest.loop == 0 || bests[i] < fastest.loop {
			fastest.loop = bests[i]
		}
	}
	return 1 - float64(fastest.loop)/float64(mean)
}

// spin computes for about a millisecond.
func spin() uint64 {
	x := uint64(1)
	for range 400_000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}
