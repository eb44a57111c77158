// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/testkit"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// softwareColumns is what --counters software counts.
var softwareColumns = []string{"task-clock", "minor-faults", "major-faults", "context-switches",
	"cpu-migrations"}

// A model that is mapped into memory loses its pages while it computes (loading reads all of them first, so
// that dropping them before shows nothing): the operators that read the weights wait for the disk, and nobody
// else; together not more often than the process did.
func TestQuietMajorFaults(t *testing.T) {
	if testkit.Quiet(t) {
		return
	}
	e := engines.Debian(t)
	needBPF(t)
	original, _ := engines.Model(t, e, "llama-small")
	path, inside := private(t, e, original)
	// weights stay in the file as they are: no copy in another order
	cmd := start(t, io.Discard, e.Command("llama-bench", "-m", inside, "-t", "2", "-p", "0", "-n", "32", "-r",
		"10000", "-lm", "mmap", "--repack", "0")...)
	pid := cmd.Process.Pid
	computing(t, pid, path)

	out := filepath.Join(t.TempDir(), "run.pinf")
	var took time.Duration
	count := func(flags ...string) (*run, int64) {
		t.Helper()
		before, begun := majorFaults(t, pid), time.Now()
		r := profinfer(t, append([]string{"record", "-o", out, "-p", fmt.Sprint(pid), "--counters",
			"software"}, flags...)...)
		if r.status != 0 {
			t.Fatal(r.stderr)
		}
		took = time.Since(begun)
		return load(t, out), majorFaults(t, pid) - before
	}
	warm, own := count("--steps", "50")
	if _, all := majors(t, warm); all != 0 || own != 0 {
		t.Errorf("%d major faults on operators, %d in the process, while all pages are there", all, own)
	}

	stop, rounds := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-stop:
				rounds <- n
				return
			case <-time.After(250 * time.Millisecond):
				pageOut(t, pid, path)
			}
		}
	}()
	cold, own := count("--duration", "6s")
	close(stop)
	n := <-rounds
	by, all := majors(t, cold)
	t.Logf("pages taken away %d times: %d major faults in the process, %d on operators: %v", n, own, all, by)
	if own < int64(n)/2 {
		t.Skipf("only %d major faults: this kernel or file system keeps the pages", own)
	}
	// the process's own are also those while probes were set and taken away
	seen := float64(cold.header.Last-cold.header.First) / float64(took)
	if all > own || float64(all) < seen*float64(own)/2 {
		t.Errorf("%d major faults on operators, in %.0f %% of the time in which the process had %d", all,
			100*seen, own)
	}
	if by["MUL_MAT"] < all/5 {
		t.Errorf("%d of %d are those of products, which read nearly all of the file", by["MUL_MAT"], all)
	}
	stat := profinfer(t, "stat", "-i", out, "--by", "op")
	if !strings.Contains(stat.stdout, "major-faults") ||
		strings.Contains(stat.stdout, "none in operators of major-faults") {
		t.Errorf("stat does not show them:\n%s", stat.stdout)
	}
}

// majors sums up major faults by operator. Where an operator that reads no weight has one the test fails.
func majors(t *testing.T, r *run) (by map[string]int64, all int64) {
	t.Helper()
	var names []string
	for _, c := range r.header.Meta.Counters {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, softwareColumns) {
		t.Fatalf("counters %v", names)
	}
	at := slices.Index(names, "major-faults")
	by = map[string]int64{}
	for _, o := range r.ops {
		if o.Counts == nil || o.Counts[at] <= 0 {
			continue
		}
		by[o.Op] += o.Counts[at]
		all += o.Counts[at]
		if !readsWeight(o) {
			t.Errorf("%s %s reads no weight, and has %d major faults", o.Op, o.NodeDef().Name, o.Counts[at])
		}
	}
	return by, all
}

// readsWeight tells whether an operator has a weight among its sources.
func readsWeight(o *profile.Op) bool {
	for _, n := range append([]int32{o.Node}, o.Fused...) {
		for _, s := range o.Shape.Nodes[n].Src {
			if s >= 0 && int(s) < len(o.Shape.Nodes) && o.Shape.Nodes[s].Leaf &&
				strings.HasSuffix(o.Shape.Nodes[s].Name, ".weight") {
				return true
			}
		}
	}
	return false
}

// private copies a model for one test alone: nobody else has its pages mapped.
func private(t *testing.T, e demo.Engine, original string) (path, inside string) {
	t.Helper()
	f, err := os.CreateTemp(filepath.Dir(original), "private-*.gguf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close(); os.Remove(f.Name()) })
	from, err := os.Open(original)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if _, err := io.Copy(f, from); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil { // pages that are not written yet cannot be dropped
		t.Fatal(err)
	}
	if inside, err = e.Inside(f.Name()); err != nil {
		t.Fatal(err)
	}
	return f.Name(), inside
}

// computing waits until a process has a file mapped and has used its CPUs for a while.
func computing(t *testing.T, pid int, path string) {
	t.Helper()
	for range 600 {
		if len(mapped(pid, path)) > 0 {
			time.Sleep(500 * time.Millisecond)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%s was not mapped", path)
}

// majorFaults is what /proc says of a process and all its threads.
func majorFaults(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	n, err := strconv.ParseInt(f[9], 10, 64) // majflt, field 12 of the whole
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// extent of another process's memory, as struct iovec has it.
type extent struct{ from, size uint64 }

// mapped is where a process has a file mapped.
func mapped(pid int, path string) (out []extent) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var from, to uint64
		if strings.HasSuffix(sc.Text(), filepath.Base(path)) {
			if n, _ := fmt.Sscanf(sc.Text(), "%x-%x", &from, &to); n == 2 {
				out = append(out, extent{from, to - from})
			}
		}
	}
	return out
}

// pageOut takes a file's pages away from a process, and out of the page cache.
func pageOut(t *testing.T, pid int, path string) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for _, v := range mapped(pid, path) {
		if _, _, e := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(fd), uintptr(unsafe.Pointer(&v)), 1,
			unix.MADV_PAGEOUT, 0, 0); e != 0 {
			t.Logf("process_madvise: %v", e)
		}
	}
}

// Another process wants one of the two CPUs: no operator's task clock says more than it ran, and with the
// time it had lost its CPU and what it waited it makes up the operator.
func TestQuietTaskClock(t *testing.T) {
	if testkit.Quiet(t) {
		return
	}
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU")
	}
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-small")
	needBPF(t)
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		t.Skip(err)
	}
	hog := start(t, nil, taskset, "-c", "1", "sh", "-c", "while :; do :; done")
	defer syscall.Kill(-hog.Process.Pid, syscall.SIGKILL)
	command := append([]string{taskset, "-c", "0,1"},
		e.Command("llama-bench", "-m", inside, "-t", "2", "-p", "0", "-n", "24", "-r", "1")...)
	r := load(t, record(t, []string{"--counters", "software"}, command...))
	c := r.header.Meta.Counters
	if len(c) != len(softwareColumns) || c[0].Name != "task-clock" || c[0].Unit != "ns" || c[0].User {
		t.Fatalf("counters %+v", c)
	}
	at := slices.IndexFunc(r.header.Meta.Counters, func(c trace.Counter) bool {
		return c.Name == "context-switches"
	})
	var all, known, off, clock, busy, far, over int64
	for _, o := range r.ops {
		if o.Incomplete {
			continue
		}
		for i := range o.Threads {
			th := &o.Threads[i]
			all++
			if th.Counts == nil || th.Counts[0] < 0 {
				continue
			}
			known++
			off += th.OffCPU
			clock += th.Counts[0]
			busy += th.Busy
			// each switch is told a moment before or after the clock is read there
			within := 5_000 + 5_000*th.Counts[at]
			if th.Counts[0] > o.Dur+within {
				over++
				t.Logf("%s %s on thread %d: %d ns of task clock, and it lasted %d", o.Op, o.NodeDef().Name,
					th.TID, th.Counts[0], o.Dur)
			}
			sum := th.Start - o.Start + th.Counts[0] + th.OffCPU + th.Wait
			if d := sum - o.Dur; d > within || d < -within {
				far++
			}
		}
	}
	t.Logf("%d of %d known; task clock %d ns, busy %d, off-CPU %d; %d differ", known, all, clock, busy, off,
		far)
	if known < all*9/10 || all == 0 {
		t.Errorf("counters are known of %d operators on threads of %d", known, all)
	}
	if off < busy/20 {
		t.Errorf("threads were off their CPUs for %d ns only, busy %d: nothing is tested", off, busy)
	}
	// interrupts, and a host that takes the machine's CPU away, come between two readings of a clock
	if over > known/1000 {
		t.Errorf("of %d operators on threads %d have more task clock than they lasted", known, over)
	}
	if far > known/200 {
		t.Errorf("of %d operators on threads %d do not add up to their time", known, far)
	}
	if d := float64(clock) / float64(busy); d < 0.98 || d > 1.02 {
		t.Errorf("the task clocks add up to %.3f of the busy time", d)
	}
}
