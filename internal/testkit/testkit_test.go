// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// said is a test that keeps how it ended.
type said struct {
	testing.TB
	end  string
	logs []string
	left time.Duration // until its deadline, none if 0
}

func (s *said) Helper()                   {}
func (s *said) Logf(f string, a ...any)   { s.logs = append(s.logs, fmt.Sprintf(f, a...)) }
func (s *said) Skip(a ...any)             { s.finish("skip: " + fmt.Sprint(a...)) }
func (s *said) Fatal(a ...any)            { s.finish("fail: " + fmt.Sprint(a...)) }
func (s *said) Fatalf(f string, a ...any) { s.finish("fail: " + fmt.Sprintf(f, a...)) }
func (s *said) Deadline() (time.Time, bool) {
	return time.Now().Add(s.left), s.left > 0
}
func (s *said) finish(end string) {
	s.end = end
	runtime.Goexit()
}

// A failure counts on a quiet machine, and is repeated on a loud one.
func TestJudge(t *testing.T) {
	pass, bad := attempt{output: "fine"}, attempt{failed: true, output: "bad"}
	loud, loudPass := attempt{failed: true, output: "bad", loud: "a train"}, attempt{loud: "a train"}
	for _, c := range []struct {
		name  string
		tries []attempt
		n     int // attempts made
		end   string
	}{
		{"passes", []attempt{pass}, 1, ""},
		{"passes on a loud machine", []attempt{loudPass}, 1, ""},
		{"fails", []attempt{bad, pass}, 1, "fail: it failed on a quiet machine (attempt 1):\nbad"},
		{"loud, then passes", []attempt{loud, loud, pass}, 3, ""},
		{"loud, then fails", []attempt{loud, bad, pass}, 2,
			"fail: it failed on a quiet machine (attempt 2):\nbad"},
		{"loud", []attempt{loud, loud, loud, pass}, 3, "skip: machine too loud: a train"},
		{"cannot run", []attempt{{skip: "needs root"}, pass}, 1, "skip: needs root"},
	} {
		n := 0
		s := played(0, func() (attempt, error) { n++; return c.tries[n-1], nil })
		if n != c.n || s.end != c.end {
			t.Errorf("%s: %d attempts, %q", c.name, n, s.end)
		}
	}
	if s := played(0, func() (attempt, error) { return attempt{}, errors.New("no program") }); s.end !=
		"fail: no program" {
		t.Error(s.end)
	}
	// no attempt is begun that the deadline would end
	n := 0
	s := played(time.Millisecond, func() (attempt, error) {
		n++
		time.Sleep(time.Millisecond)
		return loud, nil
	})
	if n != 1 || s.end != "skip: machine too loud: a train" {
		t.Errorf("%d attempts, %q", n, s.end)
	}
}

func played(left time.Duration, try func() (attempt, error)) *said {
	s := &said{left: left}
	done := make(chan bool)
	go func() {
		defer close(done)
		judge(s, try)
	}()
	<-done
	return s
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		overall, worst, lost float64
		want                 string
	}{
		{0.04, 0.2, 0.1, ""},
		{0.06, 0.2, 0.1, "others had 6 % of the CPUs, 20 % in the loudest second"},
		{0.01, 0.3, 0.1, "others had 1 % of the CPUs, 30 % in the loudest second"},
		{0, 0, 0.5, "a loop ran 50 % slower than at best"},
	} {
		if got := verdict(c.overall, c.worst, c.lost); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// What the test's processes take, with their children that ended, is its own; the kernel's is nobody's.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	process := func(pid, parent, user, system, childUser, childSystem int) {
		write(fmt.Sprint(pid, "/stat"), fmt.Sprintf("%d (a) (b) S %d 0 0 0 0 0 0 0 0 0 %d %d %d %d 20 0", pid,
			parent, user, system, childUser, childSystem))
	}
	write("stat", "cpu  1 2 3 4 5 6 7 77 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n")
	write("self/stat", "none")
	process(1, 0, 1000, 0, 0, 0)
	process(2, 0, 10, 0, 0, 0)
	process(20, 2, 10, 0, 0, 0)
	process(100, 1, 1, 2, 3, 4)
	process(101, 100, 5, 0, 0, 6)
	process(102, 101, 10, 0, 0, 0)
	process(200, 1, 20, 0, 30, 0)
	u, ok := read(dir, 100)
	if want := (usage{own: 31, others: 1050, stolen: 77}); !ok || u != want {
		t.Errorf("%+v, want %+v", u, want)
	}
	if _, ok := read(dir, 300); ok {
		t.Error("a process that is not there is measured")
	}
	cpus := float64(runtime.NumCPU())
	a, b := usage{seconds: 1}, usage{others: 150, stolen: 50, own: 900, seconds: 3}
	if got := share(a, b); got*cpus != 1 {
		t.Errorf("share %v of %v CPUs", got, cpus)
	}
}

// The meter sees a process that computes beside, and not the test's own.
func TestMeter(t *testing.T) {
	spin := func() *exec.Cmd {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd
	}
	own := spin()
	spin()
	from, ok := read("/proc", own.Process.Pid)
	if !ok {
		t.Skip("no /proc here")
	}
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(50 * time.Millisecond) {
		to, _ := read("/proc", own.Process.Pid)
		if to.own > from.own+20 && to.others > from.others+20 {
			return
		}
	}
	t.Error("neither is seen")
}

func TestName(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestNamedOtherwise$")
	cmd.Env = append(os.Environ(), "TESTKIT_NAMED=1")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "begins with TestQuiet") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestNamedOtherwise(t *testing.T) {
	if os.Getenv("TESTKIT_NAMED") != "" && Quiet(t) {
		return
	}
}

// A test that needs quiet runs in a process of its own: it passes, fails, or is skipped as it would here.
func TestRepeats(t *testing.T) {
	for _, c := range []struct {
		end, says string
		fails     bool
	}{
		{"pass", "PROFINFER_SEED=7", false},
		{"skip", "--- SKIP: TestQuietSample", false},
		{"fail", "it is bad", true},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestQuietSample$", "-test.v", "-test.timeout=1m")
		cmd.Env = append(os.Environ(), "TESTKIT_SAMPLE="+c.end, "PROFINFER_LONG=1", "PROFINFER_SEED=7")
		out, err := cmd.CombinedOutput()
		// on a loud machine a failure is a skip in the end
		loud := c.fails && strings.Contains(string(out), Loud)
		if (err != nil) != c.fails && !loud || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: %v\n%s", c.end, err, out)
		}
	}
}

func TestQuietSample(t *testing.T) {
	end := os.Getenv("TESTKIT_SAMPLE")
	if end == "" || Quiet(t) { // TestRepeats runs it
		return
	}
	Rand(t)
	switch end {
	case "skip":
		t.Skip("there is no such thing")
	case "fail":
		t.Error("it is bad")
	}
}

func TestRand(t *testing.T) {
	t.Setenv("PROFINFER_SEED", "12")
	if a, b := Rand(t).Uint64(), Rand(t).Uint64(); a != b {
		t.Errorf("%d and %d of the same seed", a, b)
	}
}
