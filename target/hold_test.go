// SPDX-License-Identifier: Apache-2.0

package target

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestHold(t *testing.T) {
	c := exec.Command("sh", "-c", "while :; do :; done")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	time.Sleep(20 * time.Millisecond)
	pid := c.Process.Pid
	held, err := Hold(pid, pid, 0, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	st, _ := ReadStat(pid)
	if st.State != 't' {
		t.Errorf("held thread is in state %c", st.State)
	}
	held.Release()
	st, _ = ReadStat(pid)
	if st.State != 'R' {
		t.Errorf("released thread is in state %c", st.State)
	}
	for range 50 { // over and over, as for many libraries
		held, err := Hold(pid, pid, 0, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		held.Release()
	}
	if _, err := Hold(1<<22, 1<<22, 0, time.Minute); err == nil {
		t.Error("a thread that does not exist was held")
	}
}

// The first thread of a process does not end with its goroutine: if it traced, a thread that did not stop
// in time would be held for ever.
func TestHoldNotByFirstThread(t *testing.T) {
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	for n := range 200 {
		held, err := Hold(c.Process.Pid, c.Process.Pid, 0, time.Minute)
		if err != nil && n > 0 && strings.Contains(err.Error(), "it did not stop") {
			continue // in time: other work had the CPUs
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
		held.Release()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), fmt.Sprintf("\nTracerPid:\t%d\n", os.Getpid())) {
			t.Fatal("the first thread traces")
		}
	}
}

// The exit of a held process still belongs to its parent.
func TestHoldLeavesTheExit(t *testing.T) {
	// It ends at a line that comes while it is held.
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	line, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	for range 20 {
		c, err := Launch([]string{"sh", "-c", "read line <" + fifo + "; exit 3"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		held, err := Hold(c.PID, c.PID, 0, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := line.WriteString("end\n"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-c.Done():
			t.Fatal("a held command seems to have ended")
		case <-time.After(30 * time.Millisecond):
		}
		held.Release()
		if st, err := c.Wait(); st != 3 || err != nil {
			t.Fatalf("status %d, %v", st, err)
		}
	}
}

// A hold ends by itself, whatever its caller does.
func TestHoldEnds(t *testing.T) {
	c := exec.Command("sh", "-c", "while :; do :; done")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	pid := c.Process.Pid
	held, err := Hold(pid, pid, 0, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	over, late := false, false
	for deadline := time.Now().Add(10 * time.Second); !over && time.Now().Before(deadline); over,
		late = held.Over() {
		// its caller is busy
	}
	if st, _ := ReadStat(pid); st.State != 'R' || !late {
		t.Errorf("state %c after the limit, over %v, late %v", st.State, over, late)
	}
	if took, late := held.Release(); !late || took < 100*time.Millisecond {
		t.Errorf("held for %v, late %v", took, late)
	}
	held, err = Hold(pid, pid, 0, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if took, late := held.Release(); late || took > 10*time.Second {
		t.Errorf("held for %v, late %v", took, late)
	}
}

// While holds are suspended there is none.
func TestSuspendHolds(t *testing.T) {
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	pid := c.Process.Pid
	held, err := Hold(pid, pid, 0, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	resume := SuspendHolds()
	if over, late := held.Over(); !over || late {
		t.Error("a hold goes on")
	}
	if st, _ := ReadStat(pid); st.State == 't' {
		t.Error("the thread is held")
	}
	if _, err := Hold(pid, pid, 0, time.Minute); err == nil {
		t.Error("a thread was held")
	}
	resume()
	resume()
	if held, err = Hold(pid, pid, 0, time.Minute); err != nil {
		t.Fatal(err)
	}
	held.Release()
}

// A number that is another's by now holds nobody.
func TestHoldOthers(t *testing.T) {
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	pid := c.Process.Pid
	if _, err := Hold(os.Getpid(), pid, 0, time.Minute); err == nil {
		t.Error("a thread of another process was held")
	}
	start, err := StartTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Hold(pid, pid, int64(start)-1, time.Minute); err == nil {
		t.Error("a process that began after the event was held")
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		st, _ := ReadStat(pid)
		if st.State == 'S' {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is in state %c", st.State)
		}
	}
	held, err := Hold(pid, pid, int64(start), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	held.Release()
}

// A SIGTRAP of somebody else is delivered, also where it comes while the thread is being held.
func TestHoldDeliversTrap(t *testing.T) {
	c := exec.Command("sh", "-c", `n=0; trap 'n=$((n+1)); echo $n' TRAP; echo 0; while :; do :; done`)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	lines := make(chan string)
	go func() {
		s := bufio.NewScanner(out)
		for s.Scan() {
			lines <- s.Text()
		}
	}()
	pid := c.Process.Pid
	for i := range 20 {
		select {
		case got := <-lines:
			if want := fmt.Sprint(i); got != want {
				t.Fatalf("%s signals came, want %s", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("signal %d was lost", i)
		}
		func() { // the signal comes between the two halves of taking hold
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if err := unix.PtraceSeize(pid); err != nil {
				t.Fatal(err)
			}
			c.Process.Signal(syscall.SIGTRAP)
			for {
				if sig, event, ok := stopOf(pid, unix.WNOHANG|unix.WNOWAIT); ok {
					if sig != int(unix.SIGTRAP) || event != 0 {
						t.Fatalf("stopped by signal %d, event %d", sig, event)
					}
					break
				}
			}
			detach(pid)
		}()
	}
}
