// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	release, err := Hold(pid)
	if err != nil {
		t.Fatal(err)
	}
	st, _ := ReadStat(pid)
	if st.State != 't' {
		t.Errorf("held thread is in state %c", st.State)
	}
	release()
	st, _ = ReadStat(pid)
	if st.State != 'R' {
		t.Errorf("released thread is in state %c", st.State)
	}
	for range 50 { // over and over, as for many libraries
		release, err := Hold(pid)
		if err != nil {
			t.Fatal(err)
		}
		release()
	}
	if _, err := Hold(1 << 22); err == nil {
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
	for range 200 {
		release, err := Hold(c.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
		release()
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
		release, err := Hold(c.PID)
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
		release()
		if st, err := c.Wait(); st != 3 || err != nil {
			t.Fatalf("status %d, %v", st, err)
		}
	}
}
