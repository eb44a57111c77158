// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// exports are those that are made beside the replay.
var exports = []string{"--format perfetto", "--table ops --format csv", "--table op_threads --format ndjson",
	"--table op_threads --format parquet"}

// TestFullDisk: what cannot be written is said once, as a failure, and nothing lies under the file's name.
func TestFullDisk(t *testing.T) {
	file := made(t, "speculative")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, what := range exports {
		for _, out := range []string{"-", "/dev/full"} {
			args := append(strings.Fields("export "+what+" -o "+out), file)
			status, errs := 0, ""
			if out == "-" {
				var said strings.Builder
				stdout := os.Stdout
				os.Stdout = full
				status = run(args, &said, &said)
				os.Stdout, errs = stdout, said.String()
			} else {
				status, _, errs = runs(t, args...)
			}
			if status != statusFailed || strings.Count(errs, "\n") != 1 ||
				strings.Count(errs, syscall.ENOSPC.Error()) != 1 {
				t.Errorf("%s to %s: status %d: %s", what, out, status, errs)
			}
		}
	}
}

// runAs is how the test's own program becomes profinfer.
const runAs = "PROFINFER_TEST_ARGS"

func TestMain(m *testing.M) {
	if args := os.Getenv(runAs); args != "" {
		os.Exit(run(strings.Split(args, "\n"), os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestInterruptedExport: an export that is interrupted leaves nothing under the file's name, or what was there
// before.
func TestInterruptedExport(t *testing.T) {
	file := made(t, "spans-million")
	for _, what := range exports {
		for _, before := range []string{"", "as it was"} {
			dir := t.TempDir()
			out := filepath.Join(dir, "out")
			interrupted := false
			for range 5 {
				os.Remove(out)
				if before != "" {
					if err := os.WriteFile(out, []byte(before), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if interrupted = interruptExport(t, dir, append(strings.Fields("export "+what+" -o "+out),
					file)); interrupted {
					break
				}
			}
			if !interrupted {
				t.Errorf("%s: it ended each time before it was interrupted", what)
				continue
			}
			left, err := os.ReadFile(out)
			if (err == nil) != (before != "") || string(left) != before {
				t.Errorf("%s: under the file's name lie %d bytes (%v)", what, len(left), err)
			}
		}
	}
}

// interruptExport runs an export and interrupts it once it writes into dir; false: it had ended before.
func interruptExport(t *testing.T, dir string, args []string) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), runAs+"="+strings.Join(args, "\n"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	fds := filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "fd")
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(args, err)
			}
			return false
		case <-time.After(100 * time.Microsecond):
		}
		open, err := os.ReadDir(fds)
		if err != nil {
			continue // it has ended, or there is no /proc: it will
		}
		for _, fd := range open {
			if to, _ := os.Readlink(filepath.Join(fds, fd.Name())); strings.HasPrefix(to, dir+"/") {
				cmd.Process.Signal(os.Interrupt)
				var exit *exec.ExitError
				if err := <-ended; err == nil {
					return false
				} else if !errors.As(err, &exit) || exit.Exited() {
					t.Fatal(args, err)
				}
				return true
			}
		}
	}
}
