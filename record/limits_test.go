// SPDX-License-Identifier: Apache-2.0

package record

import (
	"math"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

func oomNow(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(oomScore)
	if err != nil {
		t.Skip(err)
	}
	return strings.TrimSpace(string(b))
}

// The recorder is ended before what it watches, and gives that back.
func TestExpendable(t *testing.T) {
	before := oomNow(t)
	c := exec.Command("sleep", "10") // as a command that was launched before
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	restore := expendable()
	if got := oomNow(t); got != oomPrefers {
		t.Errorf("while recording: %s", got)
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(c.Process.Pid) + "/oom_score_adj")
	if err != nil || strings.TrimSpace(string(b)) != before {
		t.Errorf("the command's: %q, %v, want %s", b, err, before)
	}
	restore()
	if got := oomNow(t); got != before {
		t.Errorf("afterwards: %s, want %s", got, before)
	}
}

func TestMemoryLimit(t *testing.T) {
	was := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(was)
	restore := LimitMemory()
	if got := debug.SetMemoryLimit(-1); got != memoryLimit {
		t.Errorf("limit %d", got)
	}
	restore()
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("afterwards %d", got)
	}
	debug.SetMemoryLimit(64 << 20) // GOMEMLIMIT=64MiB
	restore = LimitMemory()
	if got := debug.SetMemoryLimit(-1); got != 64<<20 {
		t.Errorf("limit %d instead of the environment's", got)
	}
	restore()
}
