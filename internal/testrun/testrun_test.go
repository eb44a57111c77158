// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain is testrun itself where the tests run it.
func TestMain(m *testing.M) {
	if os.Getenv("TESTRUN") != "" {
		os.Unsetenv("TESTRUN")
		main()
	}
	os.Exit(m.Run())
}

// packages are tested by the real go test: whatever can become of a package, in a module of its own.
var packages = map[string]string{
	"good": `package good
import ("fmt"; "os"; "testing")
func TestPass(t *testing.T) { t.Log("nobody reads this") }
func TestSkip(t *testing.T) { t.Log("a log"); t.Skipf("needs root:\nsecond line") }
func TestSub(t *testing.T) {
	t.Run("a/b", func(t *testing.T) {})
	t.Run("skip", func(t *testing.T) { t.Skip("no file /tmp/x123456789") })
	t.Run("again", func(t *testing.T) { t.Skip("no file /tmp/x987654321") })
	fmt.Fprintln(os.Stderr, "nor this")
}
func TestHalf(t *testing.T) { t.Run("x", func(t *testing.T) {}); t.Skip("the rest") }
func TestNow(t *testing.T) { t.SkipNow() }
func Example() { fmt.Print("yes")
	// Output: yes
}`,
	"loud": `package loud
import "testing"
func TestPass(t *testing.T) {}
func TestLong(t *testing.T) { t.Skip("for make test-all") }
func TestLongToo(t *testing.T) { t.Run("x", func(t *testing.T) { t.Skip("for make test-all") }) }
func TestSkip(t *testing.T) { t.Skip("no such thing") }
func TestQuiet1(t *testing.T) { t.Skip("machine too loud: others had 31 % of the CPUs") }
func TestQuiet2(t *testing.T) { t.Skip("machine too loud: others had 32 % of the CPUs") }
func TestQuiet3(t *testing.T) { t.Skip("machine too loud: others had 33 % of the CPUs") }
func TestQuiet4(t *testing.T) { t.Skip("machine too loud: others had 34 % of the CPUs") }`,
	"bad": `package bad
import ("fmt"; "os"; "testing")
func TestMain(m *testing.M) { status := m.Run(); fmt.Println("a word of TestMain"); os.Exit(status) }
func TestOwn(t *testing.T) { t.Run("x", func(t *testing.T) {}); t.Error("its own error") }
func TestSub(t *testing.T) {
	t.Log("before")
	t.Run("bad", func(t *testing.T) { fmt.Println("printed"); fmt.Fprintln(os.Stderr, "to stderr"); t.Error("wrong\nin two lines") })
	t.Run("good", func(t *testing.T) {})
}`,
	"panics": `package panics
import "testing"
func TestPanic(t *testing.T) { t.Run("deep", func(t *testing.T) { panic("boom") }) }
func TestNever(t *testing.T) {}`,
	"exits":   "package exits\nimport (\"os\"; \"testing\")\nfunc TestExit(t *testing.T) { os.Exit(3) }",
	"main":    "package main\nimport (\"fmt\"; \"os\"; \"testing\")\nfunc TestMain(m *testing.M) { fmt.Println(\"no way\"); os.Exit(3) }",
	"broken":  "package broken\nimport \"testing\"\nfunc TestX(t *testing.T) { undefined() }",
	"syntax":  "package syntax\nfunc {",
	"vetted":  "package vetted\nimport (\"fmt\"; \"testing\")\nfunc TestX(t *testing.T) { fmt.Printf(\"%d\", \"x\") }",
	"slow":    "package slow\nimport (\"testing\"; \"time\")\nfunc TestDone(t *testing.T) {}\nfunc TestSlow(t *testing.T) { time.Sleep(time.Hour) }",
	"missing": "package missing\nimport (\"testing\"; _ \"example.org/not/there\")\nfunc TestX(t *testing.T) {}",
}

// untested are packages without tests: they have to build nevertheless.
var untested = map[string]string{
	"plain": "package plain", "unbuilt": "package main\nfunc main() { undefined() }",
}

func moduleOf(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.org/m\ngo 1.26")
	for name, text := range packages {
		write(name+"/x_test.go", text)
	}
	for name, text := range untested {
		write(name+"/x.go", text)
	}
	return dir
}

// command is testrun in the module. What the tests of this package are told does not reach it.
func command(t *testing.T, dir string, args ...string) (cmd *exec.Cmd, out *bytes.Buffer) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd, out = exec.Command(program, args...), &bytes.Buffer{}
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOWORK=off", "TESTRUN=1",
		"PROFINFER_REQUIRE_BPF=")
	return cmd, out
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	return lines[len(lines)-1]
}

func TestRuns(t *testing.T) {
	dir := moduleOf(t)
	for _, c := range []struct {
		name   string
		args   []string
		status int
		last   string
		says   []string
		not    []string
	}{
		{"nothing fails", []string{"-p", "1", "./good", "./plain"}, 0, "4 passed, 0 failed, 5 skipped",
			[]string{"    2 no file /tmp/xN (./good)\n", "    1 needs root (./good)\n",
				"    1 the rest (./good)\n", "    1 no reason is given (./good)\n", "ok  "},
			[]string{"failed:", "nobody reads this", "nor this", "second line", "./plain"}},
		{"failures", []string{"-p", "1", "./bad"}, 1, "2 passed, 2 failed, 0 skipped",
			[]string{"--- ./bad TestOwn (", "its own error", "--- ./bad TestSub (", "before",
				"--- ./bad TestSub/bad (", "\nprinted\n", "\nto stderr\n", "wrong\n        in two lines",
				"a word of TestMain",
				"2 failed, 0 skipped\n        TestOwn: its own error\n        TestSub: before\n        TestSub/bad: wrong\n"},
			[]string{"=== RUN", "--- PASS", "skipped:"}},
		{"panic", []string{"-p", "1", "./panics"}, 1, "0 passed, 1 failed, 0 skipped",
			[]string{"panic: boom", "panics/x_test.go:3"}, nil},
		{"exit", []string{"-p", "1", "./exits"}, 1, "0 passed, 1 failed, 0 skipped",
			[]string{"--- ./exits TestExit (did not come to its end)"}, nil},
		{"TestMain", []string{"-p", "1", "./main"}, 1, "0 passed, 1 failed, 0 skipped",
			[]string{"--- ./main\nno way"}, nil},
		{"builds", []string{"-p", "2", "./broken", "./syntax", "./vetted", "./missing", "./unbuilt"}, 1,
			"0 passed, 5 failed, 0 skipped",
			[]string{"undefined: undefined", "expected 'IDENT'", "of wrong type string",
				"example.org/not/there", "unbuilt/x.go:2"}, nil},
		{"timeout", []string{"-timeout", "1s", "-p", "1", "./slow"}, 1, "1 passed, 1 failed, 0 skipped",
			[]string{"--- ./slow TestSlow (did not come to its end)", "panic: test timed out after 1s",
				"time.Sleep"}, nil},
		{"groups", []string{"-p", "2", "./exits", "./good", "-p", "1", "./good", "./bad", "-p", "3", "./bad"},
			1, "6 passed, 3 failed, 5 skipped", nil, nil},
		{"chosen tests", []string{"-p", "1", "-skip", "^TestQuiet", "./loud", "./good", "-p", "1", "-run",
			"^TestQuiet[123]", "./loud", "-p", "1", "-run", "^TestQuiet[123]", "./good", "./loud"}, 0,
			"5 passed, 0 failed, 9 skipped, of them 3 because the machine was too loud",
			[]string{"\n2 tests are for make test-all\n",
				"    1 TestQuiet2: machine too loud: others had 32 % of the CPUs (./loud)\n",
				"1 passed, 0 failed, 1 skipped\n"}, []string{"TestQuiet4", "TestLong"}},
		{"no such package", []string{"-p", "1", "./nowhere", "./good"}, 1, "4 passed, 1 failed, 5 skipped",
			[]string{"nowhere"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd, out := command(t, dir, c.args...)
			err := cmd.Run()
			var x *exec.ExitError
			if err != nil && !errors.As(err, &x) {
				t.Fatal(err)
			}
			if s := cmd.ProcessState.ExitCode(); s != c.status {
				t.Errorf("status %d, want %d", s, c.status)
			}
			if last := lastLine(out.String()); last != c.last {
				t.Errorf("the last line is %q, want %q", last, c.last)
			}
			for _, s := range c.says {
				if !strings.Contains(out.String(), s) {
					t.Errorf("%q is missing", s)
				}
			}
			for _, s := range c.not {
				if strings.Contains(out.String(), s) {
					t.Errorf("%q is there", s)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// CI wants a machine that is quiet for most tests.
func TestLoud(t *testing.T) {
	dir := moduleOf(t)
	for _, c := range []struct {
		run    string
		status int
		last   string
	}{
		{"Quiet[123]", 0, "0 passed, 0 failed, 3 skipped, of them 3 because the machine was too loud"},
		{"Quiet", 1, "0 passed, 1 failed, 4 skipped, of them 4 because the machine was too loud"},
	} {
		cmd, out := command(t, dir, "-p", "1", "-run", c.run, "./loud")
		cmd.Env = append(cmd.Env, "PROFINFER_REQUIRE_BPF=1")
		cmd.Run()
		if s := cmd.ProcessState.ExitCode(); s != c.status || lastLine(out.String()) != c.last ||
			strings.Contains(out.String(), "at most 3 may be skipped for it") != (s == 1) {
			t.Errorf("%s: status %d\n%s", c.run, s, out)
		}
	}
}

// What a test found here before says nothing of here and now.
func TestNoCache(t *testing.T) {
	dir, engine := moduleOf(t), filepath.Join(t.TempDir(), "engine")
	text := "package good\nimport (\"os\"; \"testing\")\nfunc TestX(t *testing.T) { if _, err := os.Stat(" +
		strconv.Quote(engine) + "); err != nil { t.Skip(err) } }\n"
	if err := os.WriteFile(filepath.Join(dir, "good/x_test.go"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"0 passed, 0 failed, 1 skipped", "1 passed, 0 failed, 0 skipped"} {
		cmd, out := command(t, dir, "-p", "1", "./good")
		if err := cmd.Run(); err != nil || lastLine(out.String()) != want {
			t.Errorf("%v, want %s\n%s", err, want, out)
		}
		if err := os.WriteFile(engine, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// What is interrupted says what it had done; its tests are gone.
func TestInterrupted(t *testing.T) {
	dir := moduleOf(t)
	cmd, out := command(t, dir, "-p", "1", "./good", "./slow", "-p", "1", "./bad")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// the next package of the group has begun when its test program runs
	running := func() bool {
		exes, _ := filepath.Glob("/proc/[0-9]*/exe")
		return slices.ContainsFunc(exes, func(e string) bool {
			cwd, _ := os.Readlink(filepath.Dir(e) + "/cwd")
			exe, _ := os.Readlink(e)
			return cwd == filepath.Join(dir, "slow") && strings.HasSuffix(exe, ".test")
		})
	}
	for !running() {
		time.Sleep(20 * time.Millisecond)
	}
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Wait()
	if s := cmd.ProcessState.ExitCode(); s != 130 {
		t.Errorf("status %d, want 130", s)
	}
	// TestSlow, or what came before it
	if s := out.String(); !strings.Contains(s, "interrupted") || strings.Contains(s, "./bad") ||
		strings.Contains(s, "canceled") || !strings.HasPrefix(lastLine(s), "4 passed, ") &&
		!strings.HasPrefix(lastLine(s), "5 passed, ") {
		t.Error(s)
	}
	if running() {
		t.Error("the interrupted test still runs")
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"./good"}, {"-p"}, {"-p", "0", "./good"}, {"-p", "x", "./good"},
		{"-p", "1"}, {"-timeout", "soon", "-p", "1", "."}, {"-p", "1", ".", "-v"},
		{"-run", "x", "-p", "1", "."}, {"-p", "1", ".", "-skip", "x"}, {"-p", "1", "-run", "(", "."},
		{"-p", "1", "-skip"}} {
		cmd, out := command(t, t.TempDir(), args...)
		cmd.Run()
		if s := cmd.ProcessState.ExitCode(); s != 2 || !strings.Contains(out.String(), "usage:") {
			t.Errorf("%v: status %d\n%s", args, s, out)
		}
	}
}

// Without packages there is a last line too.
func TestNoModule(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("nonsense\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd, out := command(t, dir, "-p", "1", "./...")
	cmd.Run()
	if s := cmd.ProcessState.ExitCode(); s != 1 ||
		lastLine(out.String()) != "0 passed, 1 failed, 0 skipped" ||
		!strings.Contains(out.String(), "nonsense") {
		t.Errorf("status %d\n%s", s, out)
	}
}

// The end of a long output is kept.
func TestLongOutput(t *testing.T) {
	var out []byte
	for range 5 * keep / 100 {
		out = add(out, strings.Repeat("x", 99)+"\n")
	}
	if out = add(out, "its end\n"); len(out) > 2*keep+100 || len(out) < keep ||
		!bytes.HasSuffix(out, []byte("its end\n")) || !bytes.Contains(out, []byte("left out")) {
		t.Errorf("%d bytes", len(out))
	}
}
