// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/profinfer/profinfer/doctor"
	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/target"
)

// doctorReport runs doctor --json.
func doctorReport(t testing.TB, status int, args ...string) *doctor.Report {
	t.Helper()
	r := profinfer(t, append([]string{"doctor", "--json"}, args...)...)
	if r.status != status {
		t.Fatalf("doctor %v: status %d, want %d\n%s%s", args, r.status, status, r.stdout, r.stderr)
	}
	var d doctor.Report
	if err := json.Unmarshal([]byte(r.stdout), &d); err != nil {
		t.Fatalf("doctor %v: %v\n%s", args, err, r.stdout)
	}
	if d.SchemaVersion != doctor.SchemaVersion || d.Verdict.OK != (status == 0) {
		t.Errorf("doctor %v: %+v", args, d.Verdict)
	}
	return &d
}

var allRecorded = []string{"steps", "graphs", "operators", "scheduling"}

// doctor says that a recording is possible here, where Check says so.
func TestDoctorHere(t *testing.T) {
	needBPF(t)
	d := doctorReport(t, 0)
	if !slices.Equal(d.Verdict.Records, allRecorded) {
		t.Errorf("records %v: %+v", d.Verdict.Records, d.Verdict)
	}
	if d.Machine.ProbeCostNS == nil || *d.Machine.ProbeCostNS <= 0 {
		t.Error("the cost of a probe was not measured")
	}
	for _, c := range d.Checks {
		if c.Found == "" || c.State == doctor.Missing || c.State == doctor.Degraded && c.Means == "" {
			t.Errorf("%+v", c)
		}
	}
}

// What doctor shows of a server is what a recording of it probes.
func TestDoctorPID(t *testing.T) {
	needBPF(t)
	s := startServer(t, "llama-tiny-vocab", "-t", "1")
	d := doctorReport(t, 0, "-p", fmt.Sprint(s.pid))
	if !slices.Equal(d.Verdict.Records, allRecorded) || d.Target.Engine != "llama.cpp" ||
		d.Target.GGMLVersion == "" {
		t.Errorf("%+v", d.Verdict)
	}
	for _, f := range d.Target.Findings {
		if f.How == "" || f.Value == "" {
			t.Errorf("%+v", f)
		}
	}
	// each site's instruction stands where doctor says
	for _, site := range d.Target.Sites {
		f, err := os.Open(fmt.Sprintf("/proc/%d/root%s", s.pid, site.File))
		if err != nil {
			if f, err = os.Open(site.File); err != nil {
				t.Fatal(err)
			}
		}
		defer f.Close()
		e, err := target.OpenELF(f, site.File)
		if err != nil {
			t.Fatal(err)
		}
		addr, ok := e.AddrOfOffset(site.Offset)
		in, err := e.Insn(addr)
		if !ok || err != nil || in.Class.String() != site.Class ||
			strings.Fields(in.Text(nil))[0] != strings.Fields(site.Insn)[0] {
			t.Errorf("%+v: %v at %#x, %v", site, in, addr, err)
		}
	}
	r := profinfer(t, "doctor", "-p", fmt.Sprint(s.pid))
	want := fmt.Sprintf("profinfer can record llama-server (%d) here: steps, graphs, operators, scheduling\n",
		s.pid)
	if r.status != 0 || !strings.HasPrefix(r.stdout, want) || strings.Count(r.stdout, want) != 2 {
		t.Errorf("status %d\n%s", r.status, r.stdout)
	}
}

func TestDoctorFiles(t *testing.T) {
	needBPF(t)
	root := engines.Debian(t).Root
	var files []string
	for _, p := range []string{"libggml-base.so.0", "libllama.so.0", "ggml/backends0/libggml-cpu-x64.so"} {
		found, _ := filepath.Glob(filepath.Join(root, "usr/lib/*", p))
		files = append(files, found...)
	}
	if len(files) != 3 {
		t.Skipf("files: %v", files)
	}
	d := doctorReport(t, 0, files...)
	if !slices.Equal(d.Verdict.Records, allRecorded) || len(d.Target.Parts) != 3 {
		t.Errorf("%+v", d.Verdict)
	}
	if d := doctorReport(t, 4, files[1]); !strings.Contains(d.Verdict.Remedy, "libggml-base") {
		t.Errorf("%+v", d.Verdict)
	}
	if d := doctorReport(t, 4, "/bin/sh"); len(d.Target.Looked) != 1 ||
		!slices.Contains(d.Target.Signs, "llama_decode") {
		t.Errorf("%+v", d.Target)
	}
}

func TestDoctorUsage(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{"-p", "1073741824"}, 1, "no such process"}, {[]string{"-p", "0"}, 2, "number of a process"},
		{[]string{"-p", "1", "/bin/sh"}, 2, "not both"}, {[]string{t.TempDir()}, 1, "is a directory"},
		{[]string{"/no/such/file"}, 1, "no such file"}, {[]string{"--nonsense"}, 2, "unknown flag"},
	} {
		r := profinfer(t, append([]string{"doctor"}, c.args...)...)
		if r.status != c.status || !strings.Contains(r.stderr, c.text) || r.stdout != "" {
			t.Errorf("%v: status %d\n%s%s", c.args, r.status, r.stdout, r.stderr)
		}
	}
}

// as runs profinfer as nobody; caps are file capabilities of a copy of it.
func as(t *testing.T, caps string, args ...string) result {
	t.Helper()
	dir, err := os.MkdirTemp("", "profinfer-caps")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "profinfer")
	b, err := os.ReadFile(program)
	if err == nil {
		err = os.WriteFile(copied, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	if caps != "" {
		if out, err := exec.Command("setcap", caps+"+ep", copied).CombinedOutput(); err != nil {
			t.Skipf("setcap: %v %s", err, out)
		}
	}
	cmd := exec.Command(copied, args...)
	var out, errs strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// What an unprivileged user is told to do suffices.
func TestUnprivileged(t *testing.T) {
	needBPF(t)
	if os.Getuid() != 0 {
		t.Skip("needs root to become nobody")
	}
	const remedy = "setcap cap_bpf,cap_perfmon+ep"
	for _, args := range [][]string{{"record", "--", "true"}, {"doctor"}} {
		r := as(t, "", args...)
		if r.status != 4 || !strings.Contains(r.stdout+r.stderr, "no cap_bpf and no cap_perfmon") ||
			!strings.Contains(r.stdout+r.stderr, remedy) {
			t.Errorf("%v as nobody: status %d\n%s%s", args, r.status, r.stdout, r.stderr)
		}
	}
	r := as(t, "cap_bpf,cap_perfmon", "doctor", "--json")
	if r.status != 0 || !strings.Contains(r.stdout, `"name": "others' processes",
      "state": "degraded"`) {
		t.Errorf("with the capabilities: status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	// programs load, and nothing else is missing: true is no engine, and that is all
	r = as(t, "cap_bpf,cap_perfmon", "record", "--", "true")
	if r.status != 4 || !strings.Contains(r.stderr, "no inference engine found") {
		t.Errorf("record with the capabilities: status %d\n%s", r.status, r.stderr)
	}

	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny-vocab")
	argv := e.Command("llama-bench", "-m", inside, "-p", "8", "-n", "64", "-r", "400", "-t", "1")
	bench := func(user ...string) *exec.Cmd {
		return start(t, nil, append([]string{argv[0]}, append(user, argv[1:]...)...)...)
	}
	if filepath.Base(argv[0]) != "chroot" {
		t.Skip("the engine is not in a chroot of its own")
	}
	for _, c := range []struct {
		caps string
		user []string
	}{
		{"cap_bpf,cap_perfmon", []string{"--userspec=65534:65534"}},
		{"cap_bpf,cap_perfmon,cap_sys_ptrace", nil},
	} {
		cmd := bench(c.user...)
		waitComputing(t, cmd.Process.Pid)
		r := as(t, c.caps, "record", "-p", fmt.Sprint(cmd.Process.Pid), "--duration", "500ms")
		if r.status != 0 || strings.Contains(r.stderr, ": 0 steps") {
			t.Errorf("%s, %v: status %d\n%s", c.caps, c.user, r.status, r.stderr)
		}
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}

// waitComputing waits until a process has loaded a CPU backend.
func waitComputing(t *testing.T, pid int) {
	t.Helper()
	for range 300 {
		maps, _ := target.Maps(pid)
		if slices.ContainsFunc(maps, func(m target.Mapping) bool {
			return m.Exec() && strings.Contains(m.Path, "libggml-cpu")
		}) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("no CPU backend is loaded")
}
