// SPDX-License-Identifier: Apache-2.0

package target

import (
	"bufio"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/internal/testkit"
)

// engineFiles lists the ELF files below the directories of PROFINFER_ENGINES (separated
// by colons) whose name contains one of the given words.
func engineFiles(t *testing.T, words ...string) []string {
	t.Helper()
	var out []string
	type file struct {
		name string
		size int64
	}
	seen := map[file]bool{} // several folders can hold the same build
	for _, dir := range filepath.SplitList(os.Getenv("PROFINFER_ENGINES")) {
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil // what cannot be read is not under test
			}
			for _, w := range words {
				if !strings.Contains(d.Name(), w) || !isELF(p) {
					continue
				}
				if st, err := d.Info(); err == nil && !seen[file{d.Name(), st.Size()}] {
					seen[file{d.Name(), st.Size()}] = true
					out = append(out, p)
				}
				break
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func isELF(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var b [4]byte
	n, _ := f.ReadAt(b[:], 0)
	return n == 4 && string(b[:]) == "\x7fELF"
}

// TestLengthsAgainstObjdump compares every instruction boundary of whole files with
// binutils: this test's own executable, and the engines' libraries where there are some.
func TestLengthsAgainstObjdump(t *testing.T) {
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("objdump (binutils) is not installed: instruction lengths are checked on the small corpus only")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files := []string{self}
	files = append(files, engineFiles(t, "libggml", "libllama", "libwhisper", "llama-addon")...)
	for i, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			if i > 0 {
				testkit.Long(t)
			}
			compareObjdump(t, objdump, f)
		})
	}
}

func compareObjdump(t *testing.T, objdump, path string) {
	e := openFile(t, path)
	cmd := exec.Command(objdump, "-d", "-w", "-z", "--no-show-raw-insn", path)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(pipe)
	sc.Buffer(nil, 1<<20)
	var prev, next uint64 // next: where our decoder says the following instruction starts
	var prevText string
	n, bad, diffs := 0, 0, 0
	stubs := map[string][]uint64{} // calls through the linkage table, by name
	for sc.Scan() {
		line := sc.Text()
		a, text, ok := strings.Cut(line, ":\t")
		if !ok {
			if strings.HasPrefix(line, "Disassembly") {
				next = 0
			}
			continue
		}
		addr, err := strconv.ParseUint(strings.TrimSpace(a), 16, 64)
		if err != nil {
			continue
		}
		if strings.HasPrefix(text, ".") && !strings.HasPrefix(text, ".byte") {
			next = 0 // a symbol says that it is data
			continue
		}
		if next != 0 && addr != next && !strings.Contains(prevText, "(bad)") &&
			!strings.HasPrefix(prevText, ".byte") {
			if diffs++; diffs <= 10 {
				t.Errorf("%#x %q: %d bytes, objdump says %d", prev, prevText, next-prev, addr-prev)
			}
		}
		n++
		kind, _ := objdumpKind(e.Arch, text)
		branch := kind == Call || kind == Jump
		if e.Arch == ARM64 {
			branch = strings.HasPrefix(text, "bl\t") || strings.HasPrefix(text, "b\t")
		}
		if _, callee, ok := strings.Cut(text, " <"); ok && branch && !strings.Contains(text, "*") {
			to, _ := objdumpTarget(text)
			c := e.codeAt(to)
			if name, ok := strings.CutSuffix(callee, "@plt>"); ok && c != nil && c.plt {
				stubs[name] = append(stubs[name], addr)
			}
		}
		code, err := e.Code(addr)
		if err != nil {
			t.Fatalf("%#x: %v", addr, err)
		}
		in, err := Decode(e.Arch, code, addr)
		next = 0
		switch {
		case e.Arch == AMD64 && code[0] == 0x9b: // objdump shows fwait and what it waits for as one
		case strings.Contains(text, "(bad)"):
			bad++
		case err != nil:
			if diffs++; diffs <= 10 {
				t.Errorf("%#x %q: %v (% x)", addr, text, err, code[:min(len(code), 15)])
			}
		default:
			next = in.End()
			if want, ok := objdumpKind(e.Arch, text); ok && in.Kind != want {
				if diffs++; diffs <= 10 {
					t.Errorf("%#x %q: %v, want %v", addr, text, in.Kind, want)
				}
			}
			if want, ok := objdumpTarget(text); ok && in.Target != want && in.Kind != Other &&
				in.Kind != CallIndirect && in.Kind != JumpIndirect {
				if diffs++; diffs <= 10 {
					t.Errorf("%#x %q: target %#x, want %#x", addr, text, in.Target, want)
				}
			}
		}
		prev, prevText = addr, text
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	for name, want := range stubs {
		got, err := e.Calls(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range want {
			if k, ok := slices.BinarySearch(got, a); ok {
				got = slices.Delete(got, k, k+1)
			} else if diffs++; diffs <= 10 {
				t.Errorf("the call of %s at %#x was not found", name, a)
			}
		}
		for _, a := range got { // direct calls of a function defined here
			in, err := e.Insn(a)
			if err != nil || e.CalleeName(in.Target) != name || e.stubSlot(in.Target) != 0 {
				t.Errorf("%#x is no call of %s", a, name)
			}
		}
	}
	t.Logf("%s: %d callees through the linkage table", path, len(stubs))
	t.Logf("%s: %d instructions, %d differences, %d that objdump cannot decode", path, n, diffs, bad)
	if n < 1000 || bad > n/1000+200 {
		t.Errorf("%d instructions, %d bad: nothing was compared", n, bad)
	}
}

// objdumpKind says what kind of instruction a line of objdump is, for the kinds that it
// can be told from the mnemonic.
func objdumpKind(arch Arch, text string) (Kind, bool) {
	f := strings.Fields(text)
	for len(f) > 1 && (f[0] == "bnd" || f[0] == "notrack" || f[0] == "data16" ||
		strings.HasPrefix(f[0], "rex") || f[0] == "addr32" || f[0] == "repz" || f[0] == "cs" ||
		f[0] == "ds") {
		f = f[1:]
	}
	if len(f) == 0 || arch != AMD64 {
		return Other, false
	}
	indirect := len(f) > 1 && strings.HasPrefix(f[1], "*")
	switch op := strings.SplitN(f[0], ",", 2)[0]; {
	case op == "call" && indirect:
		return CallIndirect, true
	case op == "call":
		return Call, true
	case op == "jmp" && indirect:
		return JumpIndirect, true
	case op == "jmp":
		return Jump, true
	case op == "ret":
		return Return, true
	case op == "ud2" || op == "hlt" || op == "int3":
		return Trap, true
	case strings.HasPrefix(op, "j") || op == "loop":
		return CondJump, true
	}
	return Other, !strings.HasPrefix(f[0], "l") && !strings.HasPrefix(f[0], "ud") && f[0] != "iretq" &&
		f[0] != "iret" && f[0] != "int1"
}

func objdumpTarget(text string) (uint64, bool) {
	if !strings.HasSuffix(text, ">") || strings.Contains(text, "#") {
		return 0, false
	}
	a, _, _ := strings.Cut(text, " <")
	a = a[strings.LastIndexAny(a, " \t,")+1:]
	v, err := strconv.ParseUint(strings.TrimPrefix(a, "0x"), 16, 64)
	return v, err == nil
}

func openFile(t testing.TB, path string) *ELF {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	e, err := OpenELF(f, path)
	if err != nil {
		t.Fatal(err)
	}
	// it looks at every instruction, several times
	e.budget = NewBudget("a test", Limits{1 << 62, 1 << 62}, nil)
	return e
}
