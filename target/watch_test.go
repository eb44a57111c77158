// SPDX-License-Identifier: Apache-2.0

package target

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// watchers are the two kinds that there are, of which one needs a privilege.
func watchers(t *testing.T, test func(t *testing.T, w *Watcher)) {
	t.Run("perf", func(t *testing.T) {
		w, err := NewWatcher()
		if err != nil {
			needsRoot(t, "%v", err)
		}
		defer w.Close()
		test(t, w)
	})
	t.Run("poll", func(t *testing.T) {
		w := NewPollWatcher("a test")
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
		if got := w.Tracked(); len(got) != 0 {
			t.Errorf("still tracked: %v", got)
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
		other.say(t, "map "+lib)
		other.line(t)
		h.say(t, "map "+lib)
		var addr uint64
		if _, err := fmt.Sscanf(h.line(t), "mapped %x", &addr); err != nil {
			t.Fatal(err)
		}
		said := time.Now()
		list := collect(t, w, func(ev Event) bool { return ev.Kind == EventMmap && ev.Path == lib })
		if d := time.Since(said); d > 2*time.Second {
			t.Errorf("noticed after %v", d)
		}
		ev := list[len(list)-1]
		if ev.PID != h.pid || ev.Start != addr || ev.Len != 8192 || ev.Offset != 4096 || ev.Inode != st.Ino || ev.Dev != st.Dev || ev.Deleted {
			t.Errorf("%+v; want pid %d, address %#x, inode %d, device %#x", ev, h.pid, addr, st.Ino, st.Dev)
		}
		// What the event says is enough to open the file.
		f, _, err := OpenMapped(ev.PID, Mapping{Start: ev.Start, End: ev.Start + ev.Len, Offset: ev.Offset, Dev: ev.Dev, Inode: ev.Inode, Path: ev.Path})
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
	w, err := NewWatcher()
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
		t.Log("the main thread itself executed the program: not what this test is for")
	}
}

// TestTrackFindsOrphans: a descendant whose parent ended before Track is found by the fork that
// was seen.
func TestTrackFindsOrphans(t *testing.T) {
	w, err := NewWatcher()
	if err != nil {
		needsRoot(t, "%v", err)
	}
	defer w.Close()
	time.Sleep(20 * time.Millisecond)
	h := startHelper(t, "sh", func(c *exec.Cmd) {
		c.Args = []string{"sh", "-c", "(sleep 2 >&- & echo ready orphan $(printf %x $!)); exec sleep 2"}
	})
	orphan := int(h.secret)
	for range 100 { // its parent, the subshell, is gone soon
		if p, err := ParentPID(orphan); err != nil || p == 1 || p == os.Getpid() {
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

func TestTrackErrors(t *testing.T) {
	w := NewPollWatcher("")
	defer w.Close()
	if w.Polling == "" {
		t.Error("a polling watcher that does not say so")
	}
	if _, err := w.Track(1 << 30); !errors.Is(err, ErrNoProcess) {
		t.Errorf("tracking no process: %v", err)
	}
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // it is a zombie now
	if _, err := w.Track(cmd.Process.Pid); !errors.Is(err, ErrNoProcess) {
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
		if d := time.Since(start); d > time.Second {
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

// record builds a perf record: header, body, then pid, tid, time, cpu.
func record(typ uint32, misc uint16, time uint64, body []byte) []byte {
	for len(body)%8 != 0 {
		body = append(body, 0)
	}
	le := binary.LittleEndian
	b := le.AppendUint32(nil, typ)
	b = le.AppendUint16(b, misc)
	b = le.AppendUint16(b, uint16(8+len(body)+24))
	b = append(b, body...)
	b = le.AppendUint64(b, 0)
	b = le.AppendUint64(b, time)
	return le.AppendUint64(b, 0)
}

func u32s(vs ...uint32) (b []byte) {
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

func testRing(size int, at uint64, records ...[]byte) *perfRing {
	r := &perfRing{page: &unix.PerfEventMmapPage{}, data: make([]byte, size)}
	r.page.Data_tail = at
	for _, rec := range records {
		for _, c := range rec {
			r.data[at&uint64(size-1)] = c
			at++
		}
	}
	r.page.Data_head = at
	return r
}

func TestRing(t *testing.T) {
	const p10, p12 = 1<<26 + 10, 1<<26 + 12 // beyond any real process
	now := uint64(boottime()) - 1e9
	mmap := u32s(p10, 11)
	for _, v := range []uint64{0x7000, 0x2000, 0x1000} {
		mmap = binary.LittleEndian.AppendUint64(mmap, v)
	}
	mmap = append(mmap, u32s(8, 1, 77, 0, 0, 0, 5, 2)...)
	mmap = append(mmap, "/lib/x.so (deleted)\x00"...)
	recs := [][]byte{
		record(unix.PERF_RECORD_MMAP2, 0, now+4, mmap),
		record(unix.PERF_RECORD_COMM, commExec, now+3, append(u32s(p12, p12), "prog\x00"...)),
		record(unix.PERF_RECORD_FORK, 0, now+2, append(u32s(p12, p10, p12, p10), make([]byte, 8)...)),
		record(unix.PERF_RECORD_LOST, 0, now+5, append(make([]byte, 8), 9, 0, 0, 0, 0, 0, 0, 0)),
		record(unix.PERF_RECORD_COMM, 0, now+6, nil), // too short
		record(99, 0, now+7, nil),
		record(unix.PERF_RECORD_EXIT, 0, now+8, append(u32s(p12, p10, 13, p10), make([]byte, 8)...)),
		record(unix.PERF_RECORD_COMM, 0, now+9, append(u32s(^uint32(0), p12), "outside\x00"...)), // another pid namespace
	}
	for _, at := range []uint64{0, 1000, 4096 - 60, 1<<40 - 8} {
		s := &perfSource{w: newWatcher(), rings: map[int]*perfRing{0: testRing(4096, at&^7, recs...)}}
		s.w.tracked[p10] = &trackedProcess{}
		out, _ := s.round()
		slices.SortFunc(out[max(0, len(out)-2):], func(a, b Event) int { return a.PID - b.PID })
		var got []string
		for _, ev := range out {
			got = append(got, fmt.Sprint(ev.Kind, " ", ev.PID&0xff, " ", ev.Comm, ev.Path))
		}
		want := "fork 12 |exec 12 prog|mmap 10 /lib/x.so|lost 0 |thread exit 12 |exit 10 |exit 12 "
		// The loss makes the watcher look: it finds that the processes are gone.
		if g := strings.Join(got, "|"); g != want {
			t.Errorf("ring at %d: %q, want %q", at, g, want)
		}
		m := out[2]
		if m.Start != 0x7000 || m.Len != 0x2000 || m.Offset != 0x1000 || m.Dev != unix.Mkdev(8, 1) || m.Inode != 77 || !m.Deleted || m.TID != 11 || out[3].Lost != 9 {
			t.Errorf("%+v, %+v", m, out[3])
		}
		if r := s.rings[0]; r.page.Data_tail != r.page.Data_head {
			t.Error("not all was read")
		}
	}
	// What is too new waits for the other rings.
	s := &perfSource{w: newWatcher(), rings: map[int]*perfRing{0: testRing(4096, 0, record(unix.PERF_RECORD_FORK, 0, uint64(boottime())+1e9, append(u32s(p12, p10, p12, p10), make([]byte, 8)...)))}}
	s.w.tracked[p10] = &trackedProcess{}
	if out, _ := s.round(); len(out) != 0 || len(s.held) != 1 {
		t.Errorf("an event of the future: %v, %d held", out, len(s.held))
	}
}

func FuzzRing(f *testing.F) {
	f.Add(record(unix.PERF_RECORD_FORK, 0, 1, u32s(12, 10, 12, 10, 0, 0)), uint16(0))
	f.Add(record(unix.PERF_RECORD_MMAP2, 0, 1, make([]byte, 64)), uint16(4090))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 7, 0, 1, 0, 0, 0, 0, 0, 0, 0}, uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, at uint16) {
		if len(b) > 4096 {
			b = b[:4096]
		}
		r := testRing(4096, uint64(at)&^7, b)
		s := &perfSource{w: newWatcher(), rings: map[int]*perfRing{0: r}}
		s.drain(r)
		for _, rec := range s.held {
			s.decode(rec)
		}
		if left := r.page.Data_head - r.page.Data_tail; left >= 8 {
			t.Fatalf("%d bytes left in the ring", left)
		}
	})
}

func TestParseCPUs(t *testing.T) {
	for in, want := range map[string][]int{"0": {0}, "0-3": {0, 1, 2, 3}, "0-1,4,6-7": {0, 1, 4, 6, 7}, "": nil} {
		if got, err := parseCPUs(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	for _, bad := range []string{"x", "3-1", "0-99999999", "-1", "0-"} {
		if got, err := parseCPUs(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}
