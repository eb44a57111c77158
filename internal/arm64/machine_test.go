// SPDX-License-Identifier: Apache-2.0

// Package arm64 tests profinfer in an emulated arm64 machine with hardware counters, which scripts/arm64.sh
// makes and boots: Debian's kernels and Debian's llama.cpp. What was recorded there comes back and is read
// here.
//
// Each machine is booted once, with all that several tests want to know of it.
package arm64

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/oracle"
	"github.com/profinfer/profinfer/internal/testkit"
)

const script = "../../scripts/arm64.sh"

// scratch is the tests' folder; program is profinfer for this machine.
var scratch, program string

func TestMain(m *testing.M) {
	// To work on the tests: what came back is kept, and taken instead of booting again.
	dir, err := os.Getenv("PROFINFER_ARM64_KEEP"), error(nil)
	if dir == "" {
		if dir, err = os.MkdirTemp("", "profinfer-arm64"); err != nil {
			panic(err)
		}
	}
	scratch, program = dir, filepath.Join(dir, "profinfer")
	status := m.Run()
	if os.Getenv("PROFINFER_ARM64_KEEP") == "" {
		os.RemoveAll(dir)
	}
	os.Exit(status)
}

// need ends the test where the machine cannot be had.
func need(t testing.TB) {
	t.Helper()
	testkit.Long(t)
	out, err := exec.Command(script, "status").CombinedOutput()
	if _, e := exec.LookPath("qemu-system-aarch64"); e != nil && os.Getenv("QEMU") == "" {
		out, err = []byte("qemu-system-aarch64 is missing: install the package qemu-system-arm, as in Debian"), e
	}
	switch {
	case err == nil:
	case os.Getenv("PROFINFER_REQUIRE_ARM64") == "1":
		t.Fatalf("no emulated arm64 machine: %s", out)
	default:
		t.Skipf("no emulated arm64 machine: %s", out)
	}
}

// build compiles for this machine and for the emulated one, once.
var build = sync.OnceValue(func() error {
	for _, c := range []struct {
		arch string
		args []string
	}{
		{"", []string{"build", "-o", program, "../../cmd/profinfer"}},
		{"arm64", []string{"build", "-o", guestFile("profinfer"), "../../cmd/profinfer"}},
		{"arm64", []string{"build", "-o", guestFile("guest"), "./guest"}},
		{"arm64", []string{"test", "-c", "-o", guestFile("pmu.test"), "../../pmu"}},
		{"arm64", []string{"test", "-c", "-o", guestFile("probe.test"), "../../probe"}},
		{"arm64", []string{"test", "-c", "-o", guestFile("target.test"), "../../target"}},
		{"arm64", []string{"test", "-c", "-o", guestFile("peaks.test"), "../../peaks"}},
	} {
		cmd := exec.Command("go", c.args...)
		if c.arch != "" {
			cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+c.arch, "CGO_ENABLED=0")
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(c.args, " "), err, out)
		}
	}
	for _, s := range models() {
		if _, err := demo.Ensure(context.Background(), filepath.Join(scratch, "guest"), s, nil); err != nil {
			return err
		}
	}
	return architectures()
})

// tiny are models of other architectures, which this machine's llama.cpp writes, if it is installed.
var tiny = []string{"gemma2-dense", "deepseek2-moe"}

func architectures() error {
	dir, err := engines.Dir()
	if err != nil {
		return err
	}
	e, ok := demo.DebianInstalled(filepath.Join(dir, demo.DebianFolder), demo.Tests)
	if !ok || engines.Chroot() != nil {
		return nil
	}
	for _, name := range tiny {
		path, _, err := oracle.TinyModel(context.Background(), e, name)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(guestFile(name+".gguf"), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func guestFile(name string) string { return filepath.Join(scratch, "guest", name) }

// models are made for the machine: small ones, as an emulator is slow.
func models() (out []demo.Spec) {
	for _, name := range []string{"llama-tiny-vocab", "moe-tiny-vocab"} {
		s, err := demo.Model(name)
		if err != nil {
			panic(err)
		}
		out = append(out, s)
	}
	mixed := out[0]
	mixed.Name, mixed.Mixed, mixed.Layers = "llama", true, 6 // each of three types in two layers
	return append(out, mixed)
}

// machine is an emulated one and what is to be done there.
type machine struct {
	kernel, pmu string // as scripts/arm64.sh takes them
	shift       int
	models      int // so many of parityModels
	steps       []step

	once sync.Once
	err  error
	dir  string // what came back
}

// step is a line for the machine's shell. Its output and status come back.
type step struct{ name, line string }

// prelude defines what lines of the steps use.
const prelude = `
export PATH=/job:$PATH PROFINFER_REQUIRE_BPF=1
step() {
  sh -c "$2" >"/out/$1.stdout" 2>"/out/$1.stderr"
  echo $? >"/out/$1.status"
  echo "$1: status $(cat "/out/$1.status") after $(cut -d' ' -f1 /proc/uptime) s"
}
`

// boot boots the machine, if that has not been done, and does its steps.
func (m *machine) boot(t testing.TB) {
	t.Helper()
	need(t)
	m.once.Do(func() { m.err = m.run(t) })
	if m.err != nil {
		t.Fatalf("kernel %s, PMU=%s: %v", m.kernel, m.pmu, m.err)
	}
}

func (m *machine) run(t testing.TB) error {
	m.dir = filepath.Join(scratch, m.kernel+"-"+m.pmu)
	if _, err := os.Stat(m.dir); err == nil {
		return nil
	}
	if err := build(); err != nil {
		return err
	}
	var lines strings.Builder
	lines.WriteString(prelude)
	for _, s := range m.steps {
		lines.WriteString(fmt.Sprintf("step %s '%s'\n", s.name, s.line))
	}
	files, err := filepath.Glob(guestFile("*"))
	if err != nil {
		return err
	}
	cmd := exec.Command(script, append(append([]string{"run"}, files...), "--", lines.String())...)
	cmd.Env = append(os.Environ(), "OUT="+m.dir, "KERNEL="+m.kernel, "PMU="+m.pmu,
		"IPC_SHIFT="+strconv.Itoa(m.shift), "SMP=", "CPU=", "LIMIT=900")
	console, err := os.Create(m.dir + ".log") // while it runs, this tells how far it is
	if err != nil {
		return err
	}
	defer console.Close()
	cmd.Stdout, cmd.Stderr = console, console
	begin := time.Now()
	err = cmd.Run()
	out, _ := os.ReadFile(console.Name())
	t.Logf("kernel %s, PMU=%s, %.0f s\n%s", m.kernel, m.pmu, time.Since(begin).Seconds(),
		bytes.TrimSpace(out))
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// result is what a step came to.
type result struct {
	status         int
	stdout, stderr string
}

func (m *machine) result(t testing.TB, step string) (r result) {
	t.Helper()
	m.boot(t)
	status, err := strconv.Atoi(strings.TrimSpace(m.read(t, step+".status")))
	if err != nil {
		t.Fatal(err)
	}
	return result{status, m.read(t, step+".stdout"), m.read(t, step+".stderr")}
}

// well is the result of a step that has to have ended well.
func (m *machine) well(t testing.TB, step string) result {
	t.Helper()
	r := m.result(t, step)
	if r.status != 0 {
		t.Fatalf("%s: status %d\n%s%s", step, r.status, r.stdout, r.stderr)
	}
	return r
}

func (m *machine) file(name string) string { return filepath.Join(m.dir, name) }

func (m *machine) read(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(m.file(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// here runs profinfer on this machine.
func here(t testing.TB, args ...string) result {
	t.Helper()
	cmd := exec.Command(program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var x *exec.ExitError
	if err != nil && !errors.As(err, &x) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}
