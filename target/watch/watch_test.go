// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/target"
)

// watchers are the two kinds that there are, of which one needs a privilege.
func watchers(t *testing.T, test func(t *testing.T, w *Watcher)) {
	t.Run("perf", func(t *testing.T) {
		w, err := New()
		if err != nil {
			needsRoot(t, "%v", err)
		}
		defer w.Close()
		test(t, w)
	})
	t.Run("poll", func(t *testing.T) {
		w := NewPolling("a test")
		defer w.Close()
		test(t, w)
	})
}

// collect reads events until one satisfies stop, which is in the list.
func collect(t *testing.T, w *Watcher, stop func(Event) bool) []Event {
	t.Helper()
	var out []Event
	limit := time.After(20 * time.Second)
	for {
		select {
		case ev, ok := <-w.Events():
			if !ok {
				t.Fatalf("the watcher ended; seen: %v", out)
			}
			if out = append(out, ev); stop(ev) {
				return out
			}
		case <-limit:
			t.Fatalf("not seen within 20 s; seen: %+v", out)
		}
	}
}

func isExit(pid int) func(Event) bool {
	return func(ev Event) bool { return ev.Kind == EventExit && ev.PID == pid }
}

func TestWatchTree(t *testing.T) {
	watchers(t, func(t *testing.T, w *Watcher) {
		h := startHelper(t, "sh", func(c *exec.Cmd) {
			// Children of children, one of which outlives its parent.
			c.Args = []string{"sh", "-c", "echo ready sh 0; read x; sh -c 'sleep 0.4 & sleep 0.5'; exec sleep 0.3"}
		})
		start := boottime()
		pids, err := w.Track(h.pid)
		if err != nil || !slices.Equal(pids, []int{h.pid}) {
			t.Fatalf("tracked %v, %v", pids, err)
		}
		if again, err := w.Track(h.pid); err != nil || len(again) != 0 {
			t.Fatalf("tracked again: %v, %v", again, err)
		}
		h.say(t, "go")
		seen := collect(t, w, isExit(h.pid))
		end := boottime()
		parents := map[int]int{}
		exits := map[int]bool{}
		execs := map[int]string{}
		var last int64
		for _, ev := range seen {
			if ev.Time < last && ev.Kind != EventExit || ev.Time < start || ev.Time > end {
				t.Errorf("%v at %d, after %d, tracked at %d, ended by %d", ev.Kind, ev.Time, last, start, end)
			}
			last = max(last, ev.Time)
			switch ev.Kind {
			case EventFork:
				if _, ok := parents[ev.PID]; ok {
					t.Errorf("process %d began twice", ev.PID)
				}
				parents[ev.PID] = ev.PPID
			case EventExit:
				exits[ev.PID] = true
			case EventExec:
				execs[ev.PID] = ev.Comm
			case EventLost:
				t.Errorf("lost %d events", ev.Lost)
			}
			if ev.PID != h.pid && parents[ev.PID] == 0 && ev.Kind != EventLost {
				t.Errorf("%v of process %d, which is not known", ev.Kind, ev.PID)
			}
		}
		// How many there are depends on the shell: some execute the last command in place.
		if w.Polling == "" {
			if len(parents) < 2 || len(exits) != len(parents)+1 || len(execs) != len(exits) {
				t.Errorf("forks %v, exits %v, executed %v", parents, exits, execs)
			}
		} else if len(parents) < 2 || execs[h.pid] == "" {
			t.Errorf("forks %v, executed %v", parents, execs)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.tracked) != 0 {
			t.Errorf("still tracked: %v", w.tracked)
		}
	})
}

func TestWatchMmap(t *testing.T) {
	watchers(t, func(t *testing.T, w *Watcher) {
		lib := copySelf(t, t.TempDir())
		var st unix.Stat_t
		if err := unix.Stat(lib, &st); err != nil {
			t.Fatal(err)
		}
		h := startHelper(t, "")
		other := startHelper(t, "")
		if _, err := w.Track(h.pid); err != nil {
			t.Fatal(err)
		}
		if w.Polling != "" {
			time.Sleep(3 * pollBusy) // it has to have looked once
		}
		other.say(t, "map "+lib)
		other.line(t)
		h.say(t, "map "+lib)
		var addr uint64
		if _, err := fmt.Sscanf(h.line(t), "mapped %x", &addr); err != nil {
			t.Fatal(err)
		}
		list := collect(t, w, func(ev Event) bool { return ev.Kind == EventMmap && ev.Path == lib })
		ev := list[len(list)-1]
		if ev.PID != h.pid || ev.Start != addr || ev.Len != 8192 || ev.Offset != 4096 || ev.Inode != st.Ino ||
			ev.Dev != st.Dev || ev.Deleted {
			t.Errorf("%+v; want pid %d, address %#x, inode %d, device %#x", ev, h.pid, addr, st.Ino, st.Dev)
		}
		// What the event says is enough to open the file.
		f, _, err := target.OpenMapped(ev.PID,
			target.Mapping{Start: ev.Start, End: ev.Start + ev.Len, Offset: ev.Offset, Dev: ev.Dev,
				Inode: ev.Inode, Path: ev.Path})
		if err != nil {
			t.Error(err)
		} else {
			f.Close()
		}
		h.stop()
		for _, ev := range collect(t, w, isExit(h.pid)) {
			if ev.PID != h.pid {
				t.Errorf("an event of process %d, which is not tracked: %v", ev.PID, ev.Kind)
			}
		}
	})
}

func TestWatchThreads(t *testing.T) {
	watchers(t, func(t *testing.T, w *Watcher) {
		h := startHelper(t, "")
		if _, err := w.Track(h.pid); err != nil {
			t.Fatal(err)
		}
		if w.Polling != "" {
			time.Sleep(3 * pollBusy) // it has to have looked once
		}
		h.say(t, "thread")
		h.line(t)
		list := collect(t, w, func(ev Event) bool { return ev.Kind == EventThread })
		if ev := list[len(list)-1]; ev.PID != h.pid || ev.TID == h.pid || ev.TID == 0 {
			t.Errorf("%+v", ev)
		}
	})
}

// TestWatchExecByThread: a thread that executes a program takes the main thread's place, whose
// end is not the end of the process.
func TestWatchExecByThread(t *testing.T) {
	w, err := New()
	if err != nil {
		needsRoot(t, "%v", err)
	}
	defer w.Close()
	h := startHelper(t, "")
	if _, err := w.Track(h.pid); err != nil {
		t.Fatal(err)
	}
	h.say(t, "exec sleep 0.3; exec sleep 0.1")
	list := collect(t, w, isExit(h.pid))
	var execs []string
	main := false
	for _, ev := range list {
		if ev.Kind == EventExec && ev.PID == h.pid {
			execs = append(execs, ev.Comm)
		}
		main = main || ev.Kind == EventThreadExit && ev.TID == h.pid && len(execs) == 0
	}
	if len(execs) != 2 {
		t.Errorf("executed %q, want two programs", execs)
	}
	if !main {
		t.Error("the main thread itself executed the program: not what this test is for")
	}
}

// TestWatchMainThreadEnds: a process lives on without its main thread.
func TestWatchMainThreadEnds(t *testing.T) {
	w, err := New()
	if err != nil {
		needsRoot(t, "%v", err)
	}
	defer w.Close()
	h := startHelper(t, "")
	if _, err := w.Track(h.pid); err != nil {
		t.Fatal(err)
	}
	h.say(t, "mainexit")
	before := collect(t, w, func(ev Event) bool { return ev.Kind == EventThreadExit && ev.TID == h.pid })
	time.Sleep(2 * pollBusy) // in which an end that is told too early comes
	for more := true; more; {
		select {
		case ev := <-w.Events():
			before = append(before, ev)
		default:
			more = false
		}
	}
	if slices.ContainsFunc(before, isExit(h.pid)) {
		t.Error("the end of the process was told before it was over")
	}
	h.say(t, "end")
	collect(t, w, isExit(h.pid))
}

// TestTrackFindsOrphans: a descendant whose parent ended before Track is found by the fork that
// was seen.
func TestTrackFindsOrphans(t *testing.T) {
	w, err := New()
	if err != nil {
		needsRoot(t, "%v", err)
	}
	defer w.Close()
	time.Sleep(20 * time.Millisecond)
	h := startHelper(t, "sh", func(c *exec.Cmd) {
		c.Args = []string{"sh", "-c", "(sleep 2 >&- & echo ready orphan $(printf %x $!)); exec sleep 2"}
	})
	orphan := int(h.number)
	for range 100 { // its parent, the subshell, is gone soon
		if st, err := target.ReadStat(orphan); err != nil || st.Parent == 1 || st.Parent == os.Getpid() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // and the fork was read
	pids, err := w.Track(h.pid)
	if err != nil || !slices.Contains(pids, orphan) || !slices.Contains(pids, h.pid) {
		t.Errorf("tracked %v, %v; want %d and %d", pids, err, h.pid, orphan)
	}
	collect(t, w, isExit(orphan))
}

// TestPollLook: a look tells what is new since the one before, and nothing twice.
func TestPollLook(t *testing.T) {
	if b, err := os.ReadFile("/proc/sys/kernel/randomize_va_space"); err != nil ||
		strings.TrimSpace(string(b)) == "0" {
		t.Skip("addresses are not randomized here: an executed program of the same name is not told from the one before")
	}
	h := startHelper(t, "sh", func(c *exec.Cmd) {
		c.Args = []string{"sh", "-c", "echo ready sh 0; read x; exec sh -c 'echo again; read x; :'"}
	})
	s := &pollSource{w: newWatcher(), known: map[int]*polled{}, skip: map[int]bool{}}
	s.w.tracked[h.pid] = &trackedProcess{}
	if first := s.look(); len(first) == 0 || first[0].Kind != EventMmap {
		t.Errorf("the first look: %+v", first)
	}
	if second := s.look(); len(second) != 0 {
		t.Errorf("the second look: %+v", second)
	}
	h.say(t, "go")
	if l := h.line(t); l != "again" {
		t.Fatal(l)
	}
	third := s.look()
	if len(third) == 0 || third[0].Kind != EventExec {
		t.Errorf("after the same program was executed again: %+v", third)
	}
	if fourth := s.look(); len(fourth) != 0 {
		t.Errorf("the fourth look: %+v", fourth)
	}
	h.stop()
	if last := s.look(); len(last) != 1 || last[0].Kind != EventExit || len(s.look()) != 0 {
		t.Errorf("after its end: %+v", last)
	}
}

func TestTrackErrors(t *testing.T) {
	w := NewPolling("")
	defer w.Close()
	if w.Polling == "" {
		t.Error("a polling watcher that does not say so")
	}
	if _, err := w.Track(1 << 30); !errors.Is(err, target.ErrNoProcess) {
		t.Errorf("tracking no process: %v", err)
	}
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // it is a zombie now
	if _, err := w.Track(cmd.Process.Pid); !errors.Is(err, target.ErrNoProcess) {
		t.Errorf("tracking a process that has ended: %v", err)
	}
	_ = cmd.Wait()
}

func TestWatcherClose(t *testing.T) {
	fds := func() int {
		l, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(l)
	}
	before := fds()
	watchers(t, func(t *testing.T, w *Watcher) {
		start := time.Now()
		for range 2 {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
		if d := time.Since(start); d > 20*time.Second { // it hangs
			t.Errorf("closing took %v", d)
		}
		if _, ok := <-w.Events(); ok {
			t.Error("an event after Close")
		}
	})
	if after := fds(); after > before {
		t.Errorf("%d file descriptors open, %d before", after, before)
	}
}

// TestHandle feeds events as the kernel tells them, without a kernel.
func TestHandle(t *testing.T) {
	w := newWatcher()
	w.tracked[10] = &trackedProcess{since: 100}
	feed := func(evs ...Event) (out []Event) {
		for _, ev := range evs {
			out = w.handle(ev, out)
		}
		return out
	}
	kinds := func(evs []Event) string {
		var s []string
		for _, ev := range evs {
			s = append(s, fmt.Sprintf("%v:%d", ev.Kind, ev.PID))
		}
		return strings.Join(s, " ")
	}
	for _, c := range []struct {
		ev   Event
		want string
	}{
		{Event{Time: 101, Kind: EventMmap, PID: 11}, ""},
		{Event{Time: 90, Kind: EventFork, PID: 10, PPID: 9}, ""}, // older than Track
		{Event{Time: 102, Kind: EventFork, PID: 11, PPID: 10}, "fork:11"},
		{Event{Time: 103, Kind: EventFork, PID: 12, PPID: 11}, "fork:12"},
		{Event{Time: 104, Kind: EventMmap, PID: 12}, "mmap:12"},
		{Event{Time: 105, Kind: EventFork, PID: 20, PPID: 9}, ""},
		{Event{Time: 106, Kind: EventComm, PID: 20}, ""},
		{Event{Time: 107, Kind: EventThread, PID: 11, TID: 13}, "thread:11"},
		{Event{Time: 108, Kind: EventThreadExit, PID: 11, TID: 13}, "thread exit:11"},
		{Event{Time: 109, Kind: EventThreadExit, PID: 20, TID: 20}, ""},
		{Event{Time: 110, Kind: EventFork, PID: 12, PPID: 9}, "exit:12"}, // the number again, its end unseen
		{Event{Time: 111, Kind: EventMmap, PID: 12}, ""},
		{Event{Time: 112, Kind: EventFork, PID: 11, PPID: 10}, "exit:11 fork:11"},
	} {
		if got := kinds(feed(c.ev)); got != c.want {
			t.Errorf("%v of %d at %d: %q, want %q", c.ev.Kind, c.ev.PID, c.ev.Time, got, c.want)
		}
	}
	feed(Event{Time: 113, Kind: EventThreadExit, PID: 10, TID: 10})
	if !w.tracked[10].leaderGone {
		t.Error("the main thread's end was not noticed")
	}
	feed(Event{Time: 114, Kind: EventExec, PID: 10, TID: 10})
	if w.tracked[10].leaderGone {
		t.Error("a program was executed, yet the main thread is gone")
	}
	for i := range 3 * maxRecentForks {
		feed(Event{Kind: EventFork, PID: 1 << 25, PPID: 1<<25 + i})
	}
	if len(w.recent) > maxRecentForks {
		t.Errorf("%d forks kept", len(w.recent))
	}
	// A loss: processes that are gone are found to be.
	w.tracked = map[int]*trackedProcess{1 << 29: {}, os.Getpid(): {}}
	out := feed(Event{Kind: EventLost, Lost: 7})
	if len(out) == 0 || out[0].Kind != EventLost || out[0].Lost != 7 {
		t.Errorf("a loss is told as %v", out)
	}
	out, again := w.reap(nil)
	if kinds(out) != fmt.Sprintf("exit:%d", 1<<29) || again || w.tracked[os.Getpid()] == nil {
		t.Errorf("after a loss: %q, %v", kinds(out), again)
	}
}
