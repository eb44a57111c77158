// SPDX-License-Identifier: Apache-2.0

package target

import (
	"os/exec"
	"testing"
	"time"
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

// The exit of a held process still belongs to its parent.
func TestHoldLeavesTheExit(t *testing.T) {
	for range 20 {
		c, err := Launch([]string{"sh", "-c", "sleep 0.01; exit 3"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		release, err := Hold(c.PID)
		if err != nil {
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
