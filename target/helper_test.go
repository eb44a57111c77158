// SPDX-License-Identifier: Apache-2.0

package target

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"
)

// The test executable is also the program that tests look at: with PROFINFER_TEST_HELPER
// set it does that instead of testing.
func init() {
	if os.Getenv("PROFINFER_TEST_HELPER") != "" {
		runtime.LockOSThread() // the main goroutine keeps the main thread, others get other threads
	}
}

func TestMain(m *testing.M) {
	if mode := os.Getenv("PROFINFER_TEST_HELPER"); mode != "" {
		if err := helper(mode); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var secret = [16]byte{'a', ' ', 's', 'e', 'c', 'r', 'e', 't', ' ', 'o', 'f', ' ', '1', '6', '!', 0}

// helper says "ready", then waits until its standard input ends.
func helper(mode string) error {
	fmt.Printf("ready %s %x\n", mode, uintptr(unsafe.Pointer(&secret)))
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// running is a helper that has said it is ready.
type running struct {
	pid    int
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	secret uint64
}

func startHelper(t *testing.T, path string, setup ...func(*exec.Cmd)) *running {
	t.Helper()
	if path == "" {
		var err error
		if path, err = os.Executable(); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), "PROFINFER_TEST_HELPER=test")
	cmd.Stderr = os.Stderr
	for _, s := range setup {
		s(cmd)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &running{pid: cmd.Process.Pid, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(h.stop)
	line := h.line(t)
	var mode string
	if _, err := fmt.Sscanf(line, "ready %s %x", &mode, &h.secret); err != nil {
		t.Fatalf("the helper said %q", line)
	}
	return h
}

func (h *running) line(t *testing.T) string {
	t.Helper()
	if !h.out.Scan() {
		t.Fatal("the helper ended")
	}
	return h.out.Text()
}

func (h *running) stop() {
	h.in.Close()
	_ = h.cmd.Wait() // however it ends
}

// copySelf copies the test executable to dir/helper.
func copySelf(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "helper")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
