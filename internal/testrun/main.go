// SPDX-License-Identifier: Apache-2.0

// Testrun runs the tests for `make test` and ends with what a reader has to know: each
// failed test with its whole output, why tests were skipped, and as the last line
//
//	N passed, N failed, N skipped
//
//	testrun [-timeout 20m] [-p N [-run REGEXP] [-skip REGEXP] PACKAGE...]...
//
// Each -p begins a group of packages, of which N are tested in parallel, after the previous groups, in the
// order in which they are named. -run and -skip choose the group's tests, as go test's do. Of groups with the
// same choice, the first one that names a package tests it. A failure does not stop the run: all groups are
// tested.
//
// Go's cache of test results is not used: it does not know the engines, the programs that tests build, or
// what is permitted here.
//
// The counts are of tests without subtests, and of the subtests of the others; a test with subtests counts by
// itself only if it fails and none of them does, or if it skips its remainder. A test that did not finish has
// failed. A package that fails without a failed test counts as one failure: it does not build, or its
// TestMain gives up.
//
// Tests that are for `make test-all` (testkit.Long) do not count as skipped: a line of its own gives their number.
// Tests skipped as the machine was too loud (testkit.Quiet) are told in the last line; with
// PROFINFER_REQUIRE_BPF=1 more than three of them are a failure.
//
// The status is 0 if nothing failed, 1 if something did, 130 if the tests were interrupted (the results so
// far are reported then too), and 2 if the command line is wrong.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], bufio.NewWriter(os.Stdout)))
}

// group is a set of packages of which a limited number is tested in parallel.
type group struct {
	beside    int
	run, skip string // regular expressions for the names of tests, all if empty
	packages  []string
}

// parse parses the command line.
func parse(args []string) (timeout time.Duration, groups []group, err error) {
	timeout = 10 * time.Minute // go test's own
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case slices.Contains([]string{"-p", "-timeout", "-run", "-skip"}, a) && i+1 == len(args):
			return 0, nil, fmt.Errorf("%s needs a value", a)
		case a == "-timeout":
			i++
			if timeout, err = time.ParseDuration(args[i]); err != nil {
				return 0, nil, fmt.Errorf("-timeout: %w", err)
			}
		case a == "-p":
			i++
			n, err := strconv.Atoi(args[i])
			if err != nil || n < 1 {
				return 0, nil, fmt.Errorf("-p %s is no number of packages", args[i])
			}
			groups = append(groups, group{beside: n})
		case (a == "-run" || a == "-skip") && len(groups) > 0 && len(groups[len(groups)-1].packages) == 0:
			i++
			if _, err := regexp.Compile(args[i]); err != nil {
				return 0, nil, fmt.Errorf("%s: %w", a, err)
			}
			if g := &groups[len(groups)-1]; a == "-run" {
				g.run = args[i]
			} else {
				g.skip = args[i]
			}
		case strings.HasPrefix(a, "-") || len(groups) == 0:
			return 0, nil, fmt.Errorf("%q comes before any -p N", a)
		default:
			g := &groups[len(groups)-1]
			g.packages = append(g.packages, a)
		}
	}
	for _, g := range groups {
		if len(g.packages) == 0 {
			return 0, nil, fmt.Errorf("-p %d names no packages", g.beside)
		}
	}
	if len(groups) == 0 {
		return 0, nil, errors.New("no packages are named")
	}
	return timeout, groups, nil
}

func run(ctx context.Context, args []string, out *bufio.Writer) int {
	defer out.Flush()
	timeout, groups, err := parse(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		fmt.Fprintln(os.Stderr, "usage: testrun [-timeout 20m] [-p N [-run REGEXP] [-skip REGEXP] PACKAGE...]...")
		return 2
	}
	r := newReport(module(ctx), out)
	if err := expand(ctx, groups); err != nil {
		r.group(err)
		groups = nil
	}
	for _, g := range groups {
		if len(g.packages) == 0 || ctx.Err() != nil {
			continue
		}
		r.group(test(ctx, timeout, g, r.event))
	}
	r.limit(os.Getenv("PROFINFER_REQUIRE_BPF") == "1")
	r.end(ctx.Err() != nil)
	switch {
	case ctx.Err() != nil:
		return 130
	case r.failed > 0:
		return 1
	}
	return 0
}

// expand replaces patterns by packages, each in the first group of its choice of tests that names it. A package
// that cannot be read is kept: its test reports why.
func expand(ctx context.Context, groups []group) error {
	type choice struct{ run, skip, path string }
	seen := map[choice]bool{}
	for i := range groups {
		g := &groups[i]
		patterns := g.packages
		g.packages = nil
		for _, pattern := range patterns { // go list would sort them
			cmd := exec.CommandContext(ctx, "go", "list", "-e", pattern)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				return fmt.Errorf("go list: %w", err)
			}
			for p := range strings.FieldsSeq(string(out)) {
				if c := (choice{g.run, g.skip, p}); !seen[c] {
					seen[c] = true
					g.packages = append(g.packages, p)
				}
			}
		}
	}
	return nil
}

// module returns the path of the module whose packages are tested, "" if there is none.
func module(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "go", "list", "-m").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// prefer lets the tests go before other sessions on this machine, as far as that is permitted: two threads of an
// engine that wait for each other at every operator hardly get on where each shares its CPU.
func prefer(session int) {
	os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", session), []byte("-10"), 0)
}

// test runs go test for a group and passes on its events. Its error means that go test itself gave up, which
// failed tests do not cause.
func test(ctx context.Context, timeout time.Duration, g group, sink func(*event)) error {
	args := []string{"test", "-json", "-count=1", "-p", strconv.Itoa(g.beside), "-timeout", timeout.String()}
	if g.run != "" {
		args = append(args, "-run", g.run)
	}
	if g.skip != "" {
		args = append(args, "-skip", g.skip)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, g.packages...)...)
	cmd.Stderr = os.Stderr
	// An interrupt is passed on to go and its tests, whoever sent it; they have a while to clean up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	kill := func(s syscall.Signal) { syscall.Kill(-cmd.Process.Pid, s) }
	cmd.Cancel = func() error {
		kill(syscall.SIGINT)
		return nil
	}
	cmd.WaitDelay = 10 * time.Second
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	prefer(cmd.Process.Pid)
	stopped := context.AfterFunc(ctx, func() {
		time.Sleep(cmd.WaitDelay)
		kill(syscall.SIGKILL)
	})
	defer stopped()
	in := bufio.NewReader(pipe)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				e = event{Action: "output", Output: line}
			}
			sink(&e)
		}
		if err != nil {
			break
		}
	}
	err = cmd.Wait()
	var x *exec.ExitError
	if errors.As(err, &x) && x.ExitCode() == 1 || ctx.Err() != nil {
		return nil // tests failed, which they report themselves, or were interrupted
	}
	return err
}
