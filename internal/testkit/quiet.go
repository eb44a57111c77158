// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	attempts = 3
	// child is set for the process that an attempt is.
	child = "PROFINFER_ATTEMPT"
	// prefix begins the name of each test that calls Quiet, by which testrun runs them after all others.
	prefix = "TestQuiet"
)

// Quiet runs a test whose result depends on what else the machine does. The test begins with
//
//	if testkit.Quiet(t) {
//		return // it ran
//	}
//
// Its name begins with TestQuiet, and it is for `make test-all`. It runs in a process of its own while the load
// that others make is measured. If it fails on a quiet machine it has failed. If it fails on a loud one it is
// repeated, three attempts in all; then it is skipped, and says how loud the machine was.
func Quiet(t *testing.T) (ran bool) {
	t.Helper()
	if os.Getenv(child) != "" {
		return false
	}
	if !strings.HasPrefix(t.Name(), prefix) {
		t.Fatalf("the name of a test that needs a quiet machine begins with %s", prefix)
	}
	Long(t)
	judge(t, func() (attempt, error) { return try(t) })
	return true
}

// attempt is how one run of a test ended.
type attempt struct {
	failed bool
	skip   string // why it was skipped
	output string
	loud   string // what made the machine loud, empty if it was quiet
}

// judge repeats a test that fails on a loud machine.
func judge(t testing.TB, try func() (attempt, error)) {
	t.Helper()
	var loud []string
	begin := time.Now()
	for n := 1; ; n++ {
		a, err := try()
		switch {
		case err != nil:
			t.Fatal(err)
		case a.skip != "":
			t.Skip(a.skip)
		case !a.failed:
			t.Logf("attempt %d:\n%s", n, a.output)
			return
		case a.loud == "":
			t.Fatalf("it failed on a quiet machine (attempt %d):\n%s", n, a.output)
		}
		t.Logf("attempt %d, machine loud: %s\n%s", n, a.loud, a.output)
		loud = append(loud, a.loud)
		if d, ok := deadline(t); n == attempts || ok && time.Until(d) < 2*time.Since(begin)/time.Duration(n) {
			t.Skip(Loud + loud[len(loud)-1])
		}
	}
}

func deadline(t testing.TB) (time.Time, bool) {
	if t, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		return t.Deadline()
	}
	return time.Time{}, false
}

// skipped matches why a test was skipped.
var skipped = regexp.MustCompile(`(?m)^--- SKIP: `)

// reason matches a line of t.Log.
var reason = regexp.MustCompile(`(?m)^ +[^ :]+\.go:\d+: (.*)$`)

// try runs the test in a process of its own.
func try(t *testing.T) (attempt, error) {
	program, err := os.Executable()
	if err != nil {
		return attempt{}, err
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.count=1"}
	if d, ok := t.Deadline(); ok {
		args = append(args, fmt.Sprint("-test.timeout=", max(time.Second, time.Until(d)-5*time.Second)))
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), child+"=1")
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = 10 * time.Second
	before := lost()
	if err := cmd.Start(); err != nil {
		return attempt{}, err
	}
	m := newMeter(cmd.Process.Pid)
	err = cmd.Wait()
	a := attempt{failed: err != nil, output: out.String(), loud: m.end(before)}
	if !a.failed && skipped.Match(out.Bytes()) {
		a.skip = "it says no reason"
		if all := reason.FindAllStringSubmatch(a.output, -1); len(all) > 0 {
			a.skip = all[len(all)-1][1]
		}
	}
	return a, nil
}
