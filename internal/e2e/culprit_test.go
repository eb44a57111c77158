// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/testkit"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/slow"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
)

// cpuTime is what a process has computed, from /proc/PID/stat.
func cpuTime(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var ticks int
	for _, s := range f[11:13] { // utime, stime
		n, _ := strconv.Atoi(s)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// seatings computes from a recording's scheduling events, by counting alone, for how long another process had
// a CPU in steps while a thread of the engine could run and had none.
type seatings struct {
	profile.BaseSink
	comm    string
	events  []trace.Sched
	steps   [][2]int64
	team    map[int32]bool
	pid     int32
	allowed []string
}

func (s *seatings) Op(o *profile.Op) error {
	for i := range o.Threads {
		s.team[o.Threads[i].TID] = true
	}
	return nil
}
func (s *seatings) Step(st *profile.Step) error {
	s.steps, s.pid = append(s.steps, [2]int64{st.Start, st.Start + st.Dur}), st.PID
	return nil
}
func (s *seatings) Sched(e *trace.Sched) error {
	s.events = append(s.events, *e)
	return nil
}
func (s *seatings) Thread(t *trace.Thread) error {
	s.allowed = append(s.allowed, t.CPUs)
	return nil
}

func (s *seatings) taken() (ns int64) {
	var waits, has [][2]int64
	ready, since := map[int32]int64{}, map[uint16]int64{}
	for i := range s.events {
		e := &s.events[i]
		if e.Kind == trace.SchedWakeup {
			continue // it has a CPU soon, or waits for one of its own to arrive
		}
		if e.NextComm == s.comm {
			if _, ok := since[e.CPU]; !ok {
				since[e.CPU] = e.Time - e.Held
			}
		}
		if e.Kind == trace.SchedLook {
			continue
		}
		if e.PrevComm == s.comm {
			if from, ok := since[e.CPU]; ok {
				has = append(has, [2]int64{from, e.Time})
			}
			delete(since, e.CPU)
		}
		if at, ok := ready[e.NextTID]; ok {
			waits = append(waits, [2]int64{at, e.Time})
			delete(ready, e.NextTID)
		}
		if s.team[e.PrevTID] && e.PrevState == 0 {
			ready[e.PrevTID] = e.Time
		}
	}
	slices.SortFunc(waits, func(a, b [2]int64) int { return int(min(max(a[0]-b[0], -1), 1)) })
	for _, h := range has {
		at := h[0]
		for _, w := range waits {
			for _, st := range s.steps {
				from, to := max(at, w[0], st[0]), min(h[1], w[1], st[1])
				if to > from {
					ns += to - from
					at = to
				}
			}
		}
	}
	return ns
}

// needless counts the events that concern no thread of the engine, and of these those that came while none of
// its threads was ready, and no CPU had been taken from one for 200 ms.
func (s *seatings) needless() (n, others int) {
	ready, pushed := map[int32]bool{}, map[uint16]int64{}
	last := int64(math.MinInt64 / 2)
	for i := range s.events {
		e := &s.events[i]
		if e.Kind == trace.SchedSwitch && e.PrevPID == s.pid {
			if delete(ready, e.PrevTID); e.PrevState == 0 {
				ready[e.PrevTID] = true
				pushed[e.CPU] = e.Time
			}
		}
		if e.NextPID == s.pid && e.Kind != trace.SchedLook {
			if delete(ready, e.NextTID); e.Kind == trace.SchedWakeup {
				ready[e.NextTID] = true
			}
		}
		if len(ready) > 0 {
			last = e.Time
		}
		if e.PrevPID != s.pid && e.NextPID != s.pid {
			others++
			// CPUs are some microseconds apart
			if at, ok := pushed[e.CPU]; e.Time-last > 1e5 && (!ok || e.Time-at > 2e8) {
				n++
			}
		}
	}
	return n, others
}

// A shell takes one CPU, and the engine's threads share the others: the shell is named, with the time that it
// took, and not the team.
func TestQuietCulprit(t *testing.T) {
	if testkit.Quiet(t) {
		return
	}
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-small")
	needBPF(t)
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU")
	}
	for _, cpu := range []int{0, runtime.NumCPU() - 1} {
		var used time.Duration
		done := make(chan bool)
		go func() {
			defer close(done)
			time.Sleep(2 * time.Second)
			used = spin(t, "culprit", cpu, 2*time.Second)
		}()
		threads := min(runtime.NumCPU(), 8)
		engine := start(t, nil, e.Command("llama-bench", "-m", inside, "-t", fmt.Sprint(threads), "-p", "0",
			"-n", "100000", "-r", "1")...)
		path := filepath.Join(t.TempDir(), "run.pinf")
		if r := profinfer(t, "record", "-o", path, "-p", fmt.Sprint(engine.Process.Pid), "--duration",
			"5s"); r.status != 0 {
			t.Fatalf("record: status %d\n%s", r.status, r.stderr)
		}
		syscall.Kill(-engine.Process.Pid, syscall.SIGKILL)
		engine.Wait()
		<-done
		rd, err := trace.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		s := &seatings{comm: "culprit", team: map[int32]bool{}}
		b := stat.New(stat.Options{})
		h, err := profile.Replay(rd, profile.Tee(s, b))
		rd.Close()
		if err != nil {
			t.Fatal(err)
		}
		stat, took := b.Finish(h), s.taken()
		if !slices.Contains(s.allowed, fmt.Sprintf("0-%d", runtime.NumCPU()-1)) {
			t.Errorf("threads may use %q", s.allowed)
		}
		if n, others := s.needless(); n*100 > others {
			t.Errorf("%d of %d events of others tell nothing", n, others)
		} else {
			t.Logf("%d events, %d of others, %d of these tell nothing", len(s.events), others, n)
		}
		var by slow.Interferer
		slow := slowOf(t, path)
		for _, x := range slow.Interference.By {
			if x.Comm == "culprit" {
				by = x
			}
		}
		var there, sum, own int64
		for _, th := range stat.Threads {
			for _, c := range th.Instead {
				sum += c.Dur
				switch {
				case c.Comm == "culprit":
					there += c.Dur
				case c.Own:
					own += c.Dur
				}
			}
		}
		t.Logf("CPU %d: it computed for %v, %d ms of that in steps while threads waited; threads say %d ms of %d, of their own %d ms; --slow %+v", cpu, used, took/1e6, there/1e6, sum/1e6, own/1e6, by)
		if took < 2e8 || used < 300*time.Millisecond {
			t.Logf("it had no CPU to take: %d ms", took/1e6)
			continue
		}
		if there*10 < took*8 || by.Ran*10 < took*8 {
			t.Errorf("CPU %d: it took %d ms: threads say %d ms, --slow %d ms", cpu, took/1e6, there/1e6,
				by.Ran/1e6)
		}
		// It cannot have had a CPU for longer than it computed.
		if by.Held == nil {
			t.Error("for how long it had CPUs is not told")
		} else if float64(*by.Held) > 1.1*float64(used)+5e7 {
			t.Errorf("it had CPUs for %d ms, and computed for %v", *by.Held/1e6, used)
		}
		if !slices.Contains(by.CPUs, cpu) {
			t.Errorf("it is on CPU %d, not %v", cpu, by.CPUs)
		}
		for _, f := range stat.Findings {
			if f.Kind == "contention" {
				t.Log(f.Text)
				if strings.Contains(f.Text, "they share CPUs") {
					t.Errorf("the team is blamed: %s", f.Text)
				}
			}
		}
	}
}
