// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/profinfer/profinfer/internal/crafted"
	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/testkit"
	"github.com/profinfer/profinfer/target"
)

// What names can hold that a terminal obeys: a title, colours, a control character of two bytes, a turned
// direction, no UTF-8.
const (
	evilName = "\x1b]0;x\x07\u009b7m" // 15 bytes fit a process's name
	evilFile = "a\x1b[2J\x1b]0;owned\x07\u009b31m\u202e\x7f\r\x08\xff.so"
)

// obeyed finds what a terminal would obey.
func obeyed(s string) string {
	for i, r := range s {
		_, n := utf8.DecodeRuneInString(s[i:])
		if r < 0x20 && r != '\n' || r >= 0x7f && r < 0xa0 || r == 0x202e || r == utf8.RuneError && n == 1 {
			return strconv.Quote(s[max(0, i-60):min(len(s), i+20)])
		}
	}
	return ""
}

// A process that is called what a terminal obeys, and that has mapped files of such names, is named as text
// by every verb that looks at it.
func TestHostileNames(t *testing.T) {
	needBPF(t)
	e := engines.Debian(t)
	_, model := engines.Model(t, e, "llama-tiny")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	base, err := filepath.Glob(filepath.Join(e.Root, "usr/lib/*/libggml-base.so*"))
	if err != nil || len(base) == 0 {
		t.Fatal("no base library below ", e.Root, err)
	}
	dir := t.TempDir()
	lib, err := os.ReadFile(base[0])
	if err != nil {
		t.Fatal(err)
	}
	costly, engine, program := filepath.Join(dir, evilFile), filepath.Join(dir, "libggml-base"+evilFile),
		filepath.Join(dir, "p"+evilFile)
	if err := os.WriteFile(engine, lib, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	for _, f := range crafted.Rows() {
		if f.Dense() <= 64<<20 && f.Name != "exits" && f.Name != "join" && f.Name != "sections" &&
			f.Name != "full" {
			if err := f.Write(costly); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	t.Setenv(namesItself, evilName)
	t.Setenv(mapsFor, "30s")
	t.Setenv(mapsFiles, strings.Join([]string{costly, "/bin/true"}, string(filepath.ListSeparator)))
	plain := start(t, io.Discard, self).Process.Pid
	t.Setenv(mapsFiles, strings.Join([]string{costly, engine}, string(filepath.ListSeparator)))
	ggml := start(t, io.Discard, self).Process.Pid
	for _, pid := range []int{plain, ggml} {
		within(t, 20*time.Second, "a process with such a name", func() bool {
			comm, _ := target.Comm(pid)
			maps, _ := target.Maps(pid)
			for _, m := range maps {
				if strings.HasSuffix(m.Path, evilFile) {
					return comm == evilName
				}
			}
			return false
		})
	}
	t.Setenv(mapsFor, "1s")
	out := filepath.Join(dir, evilFile+".pinf")
	bench := e.Command("llama-bench", "-m", model, "-p", "16", "-n", "8", "-r", "1", "-t", "1")
	beside := append([]string{"sh", "-c", `"$0" & "$@" >/dev/null; wait`, program}, bench...)
	for _, args := range [][]string{
		{"record", "-o", out, "--duration", "1s", "-p", strconv.Itoa(plain)},
		{"record", "-o", out, "--duration", "1s", "-p", strconv.Itoa(ggml)},
		{"record", "-o", out, "--duration", "1s", "-p", strconv.Itoa(ggml) + "," + strconv.Itoa(plain)},
		{"record", "-o", out, "--", program},
		append([]string{"record", "--faults", "-o", out, "--"}, beside...),
		{"stat", "-v", out}, {"stat", "--slow", out}, {"report", out, "-o", out + ".html"},
		{"doctor", "-p", strconv.Itoa(plain)}, {"doctor", "-p", strconv.Itoa(ggml)}, {"doctor", "--json",
			"-p", strconv.Itoa(ggml)}, {"doctor", engine, costly},
		{"overhead", "--span", "500ms", "-p", strconv.Itoa(plain)},
		{"overhead", "--span", "500ms", "-p", strconv.Itoa(ggml)},
		{"overhead", "--span", "500ms", "--", program},
	} {
		if args[0] == "overhead" {
			if !testkit.All() {
				continue
			}
			t.Setenv(mapsFor, "3s")
		}
		done := make(chan result, 1)
		go func() { done <- profinfer(t, args...) }()
		var r result
		select {
		case r = <-done:
		case <-time.After(90 * time.Second):
			t.Fatalf("%q does not end", args)
		}
		text := r.stderr
		// JSON is for a program, which escapes what is beyond ASCII as it likes
		if args[0] != "doctor" || args[1] != "--json" {
			text += r.stdout
		}
		if bad := obeyed(text); bad != "" {
			t.Errorf("%q: %s", args, bad)
		}
		t.Logf("%q: status %d: %.300s", args[:min(len(args), 2)], r.status, r.stderr)
	}
}
