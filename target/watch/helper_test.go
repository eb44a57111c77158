// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/target"
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

// helper says "ready", then does what the lines on its standard input say, until they end.
func helper(mode string) error {
	fmt.Printf("ready %s 0\n", mode)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		word, arg, _ := strings.Cut(in.Text(), " ")
		switch word {
		case "map": // code of a file
			f, err := os.Open(arg)
			if err != nil {
				return err
			}
			mem, err := unix.Mmap(int(f.Fd()), 4096, 8192, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
			if err != nil {
				return err
			}
			fmt.Printf("mapped %x\n", uintptr(unsafe.Pointer(&mem[0])))
		case "thread": // one that stays
			old, err := target.Threads(os.Getpid())
			if err != nil {
				return err
			}
			tid := make(chan int)
			for id := 0; id == 0 || slices.Contains(old, id); id = <-tid {
				go func() { // the runtime may give it a thread that there is already
					runtime.LockOSThread()
					tid <- unix.Gettid()
					select {}
				}()
			}
			fmt.Println("thread")
		case "exec": // from a thread that is not the main one
			shell, err := exec.LookPath("sh")
			if err != nil {
				return err
			}
			got := make(chan error)
			go func() { got <- syscall.Exec(shell, []string{"sh", "-c", arg}, os.Environ()) }()
			return <-got
		case "mainexit": // the main thread ends, the process with its next line
			go func() {
				in.Scan()
				os.Exit(0)
			}()
			_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
		case "exit":
			return nil
		}
	}
	return nil
}

// running is a helper that has said it is ready.
type running struct {
	pid    int
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	number uint64 // that it said
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
	if _, err := fmt.Sscanf(line, "ready %s %x", &mode, &h.number); err != nil {
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

func (h *running) say(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(h.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
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

// needsRoot skips a test that the system at hand cannot run, or fails it where
// PROFINFER_REQUIRE_BPF says that it must be able to.
func needsRoot(t *testing.T, why string, args ...any) {
	t.Helper()
	if os.Getenv("PROFINFER_REQUIRE_BPF") == "1" {
		t.Fatalf("PROFINFER_REQUIRE_BPF=1, but "+why, args...)
	}
	t.Skipf(why, args...)
}
