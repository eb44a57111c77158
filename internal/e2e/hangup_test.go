// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/profinfer/profinfer/internal/testkit"
	"github.com/profinfer/profinfer/trace"
)

// ignoring starts profinfer as nohup does, and as a shell without job control starts what stands before &:
// with these signals ignored.
func ignoring(t *testing.T, signals string, args ...string) (*exec.Cmd, *lockedBuffer) {
	t.Helper()
	var out lockedBuffer
	return start(t, &out, append([]string{"sh", "-c", `trap "" ` + signals + `; exec "$@"`, "sh", program},
		args...)...), &out
}

// lockedBuffer is written by a process while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// within waits until something is so.
func within(t *testing.T, d time.Duration, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, d)
		}
	}
}

// signals sends a process what a logout and ctrl-C send.
func signals(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGHUP} {
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(s, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// A recording that was started with nohup outlives the login. One that was not ends in good order.
func TestRecordIgnoresWhatWasIgnored(t *testing.T) {
	pid := strconv.Itoa(busy(t))
	path := filepath.Join(t.TempDir(), "run.pinf")
	hits := func() bool { // the file itself is there before them
		r, err := trace.Open(path)
		if err != nil {
			return false
		}
		defer r.Close()
		for {
			switch b, err := r.Next(); {
			case err != nil:
				return false
			case b.Watch != nil: // its operators are followed
				return true
			}
		}
	}
	cmd, out := ignoring(t, "HUP INT", "record", "-p", pid, "--duration", "4s", "-o", path)
	within(t, 20*time.Second, "recording", hits)
	signals(t, cmd)
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "(the time is over") {
		t.Errorf("%v: %s", err, out)
	}
	os.Remove(path)
	cmd, out = ignoring(t, "INT", "record", "-p", pid, "--duration", "60s", "-o", path)
	within(t, 20*time.Second, "recording", hits)
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "(interrupted") {
		t.Errorf("%v: %s", err, out)
	}
}

// The recorders that overhead starts ignore the same, and are ended all the same.
func TestOverheadIgnoresWhatWasIgnored(t *testing.T) {
	testkit.Long(t)
	pid := strconv.Itoa(busy(t))
	cmd, out := ignoring(t, "HUP INT", "overhead", "--levels", "graph", "--span", "500ms", "--rounds", "2",
		"-p", pid)
	within(t, 20*time.Second, "a recorder", func() bool {
		b, _ := exec.Command("pgrep", "-P", strconv.Itoa(cmd.Process.Pid)).Output()
		return len(b) > 0
	})
	signals(t, cmd)
	begin := time.Now()
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 1 ||
		strings.Contains(out.String(), "interrupted") || !strings.Contains(out.String(), "graph") {
		t.Errorf("%v: %s", err, out)
	}
	t.Logf("took %v after the signals", time.Since(begin).Round(time.Second))
}

func TestPeaksIgnoreWhatWasIgnored(t *testing.T) {
	cmd, out := ignoring(t, "HUP INT", "peaks", "--no-save", "--threads", "1", "--trials", "8")
	time.Sleep(500 * time.Millisecond)
	signals(t, cmd)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestDemoIgnoresWhatWasIgnored(t *testing.T) {
	dir := t.TempDir()
	cmd, out := ignoring(t, "HUP INT", "demo", "--model", "moe-small", "-o", dir)
	within(t, 20*time.Second, "a model that is being written", func() bool {
		l, _ := filepath.Glob(dir + "/*.part")
		return len(l) > 0
	})
	signals(t, cmd)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestServeIgnoresWhatWasIgnored(t *testing.T) {
	cmd, out := ignoring(t, "HUP INT", "serve", "--listen", "127.0.0.1:0", "../../docs/sample/llama-1b.pinf")
	within(t, 20*time.Second, "an address", func() bool { return strings.Contains(out.String(), "http://") })
	signals(t, cmd)
	line, _, _ := strings.Cut(out.String()[strings.Index(out.String(), "http://"):], "\n")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := (&http.Client{Jar: jar}).Get(line)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		t.Error(err)
	}
	if r.StatusCode != 200 {
		t.Error(r.Status)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
