// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
	"github.com/profinfer/profinfer/trace"
)

// libc returns the C library that a command is linked with.
func libc(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"/lib/*/libc.so.6", "/usr/lib/*/libc.so.6", "/lib64/libc.so.6"} {
		if f, _ := filepath.Glob(p); len(f) > 0 {
			return f[0]
		}
	}
	t.Skip("no C library")
	return ""
}

// What the kernel side reads where work is handed to a queue, tried on a call whose arguments are known:
// sleep's clock_nanosleep(clock, flags, {seconds, nanoseconds}, rest), flags 0.
func TestQueueMarks(t *testing.T) {
	needBPF(t)
	path := libc(t)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	elf, err := target.OpenELF(f, path)
	if err != nil {
		t.Fatal(err)
	}
	sym, ok := elf.Lookup("clock_nanosleep")
	off, inFile := elf.FileOffset(sym.Addr)
	if !ok || !inFile {
		t.Skip("no clock_nanosleep in ", path)
	}
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err, VerifierLog(err))
	}
	defer s.Close()
	c := exec.Command("sh", "-c", "echo ready; read go; exec sleep 2.25")
	in, _ := c.StdinPipe()
	out, _ := c.StdoutPipe()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Process.Kill()
	if l, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(l) != "ready" {
		t.Fatal(l, err)
	}
	a, err := s.Process(c.Process.Pid, &engine.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Detach()
	arg := func(kind engine.ArgKind, reg uint8, n int32) engine.Arg {
		return engine.Arg{Kind: kind, Reg: reg, Stack: n}
	}
	site := engine.Site{Offset: off, Addr: sym.Addr, Where: "clock_nanosleep"}
	begin, end, wait, done := site, site, site, site
	begin.Role, begin.A, begin.B, begin.D = engine.RoleSubmitBegin, arg(engine.ArgAt, 2, 8),
		arg(engine.ArgAt, 2, 0), arg(engine.ArgConst, 0, -5)
	begin.C = arg(engine.ArgReg, 1, 0)
	end.Role, end.Return = engine.RoleSubmitEnd, true
	// C: at a null pointer
	wait.Role, wait.A, wait.C = engine.RoleWaitBegin, arg(engine.ArgStackAt, 0, 0), arg(engine.ArgAt, 1, 0)
	done.Role, done.B, done.D = engine.RoleDone, arg(engine.ArgReg, 2, 0), arg(engine.ArgConst, 0, 2)
	if err := a.Attach([]engine.File{{Path: path, Open: path}},
		[]engine.Site{begin, end, wait, done}); err != nil {
		t.Fatal(err)
	}
	in.Write([]byte("go\n"))
	waitErr := c.Wait()
	var e Events
	s.Drain(&e)
	if len(e.Marks) == 0 && runtime.GOARCH != "amd64" {
		t.Skip("sleep does not call the C library here: ", waitErr)
	}
	if waitErr != nil {
		t.Fatal(waitErr)
	}
	by := map[trace.MarkKind][]trace.Mark{}
	for _, m := range e.Marks {
		if int(m.PID) != c.Process.Pid || m.Time == 0 {
			t.Errorf("%+v", m)
		}
		by[m.Kind] = append(by[m.Kind], m)
	}
	// newer coreutils round up, by a nanosecond at least
	ns := func(v uint64) bool { return v == 250_000_000 || v == 250_000_001 }
	if m := by[trace.MarkSubmitBegin]; len(m) != 1 || !ns(m[0].Ctx) || m[0].Graph != 2 || m[0].NNodes != -5 ||
		m[0].UID != 0 {
		t.Errorf("begin %+v", m)
	}
	if m := by[trace.MarkSubmitEnd]; len(m) != 1 || m[0].Type != 0 ||
		m[0].Time-by[trace.MarkSubmitBegin][0].Time < 2e9 {
		t.Errorf("end %+v", m)
	}
	if m := by[trace.MarkWaitBegin]; len(m) != 1 || m[0].NNodes != -1 || runtime.GOARCH == "amd64" &&
		m[0].Ctx == 0 || m[0].UID != 0 || m[0].Graph != 0 {
		t.Errorf("wait %+v", m)
	}
	if m := by[trace.MarkDone]; len(m) != 2 || m[0].Graph != 2 || !ns(m[1].Graph) {
		t.Errorf("done %+v", m)
	}
	if l := s.Lost(); l != (Lost{}) {
		t.Errorf("lost %+v", l)
	}
}
