// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/profinfer/profinfer/peaks"
	"github.com/profinfer/profinfer/profile/profiletest"
)

// runs runs the program and returns its status, what it prints, and what it says to be wrong.
func runs(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	stdout, stderr := os.Stdout, os.Stderr
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout, os.Stderr = f, f // of what commands print by themselves
	status = run(args, &o, &e)
	os.Stdout, os.Stderr = stdout, stderr
	f.Close()
	printed, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return status, o.String() + string(printed), e.String()
}

// recordings puts recordings into a folder of their own and goes there.
func recordings(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	for i, name := range names {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := profiletest.Offload(f, 4, nil); err != nil {
			t.Fatal(err)
		}
		f.Close()
		at := time.Now().Add(time.Duration(i-len(names)) * time.Minute)
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestUsage(t *testing.T) {
	recordings(t, "a.pinf", "b.pinf")
	if err := os.WriteFile("engine", []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   string
		status int
		says   string // to stderr; empty: nothing
	}{
		{"stta", 2, `unknown command "stta"; did you mean "stat"?`},
		{"recrod -- ls", 2, `did you mean "record"?`},
		{"re", 2, `did you mean "record" or "report"?`},
		{"frobnicate", 2, `unknown command "frobnicate"`},
		{"stta --help", 2, `unknown command "stta"; did you mean "stat"?`},
		{"--help stta", 2, `did you mean "stat"?`},
		{"frobnicate -h", 2, `unknown command "frobnicate"`},
		{"help stta", 2, `did you mean "stat"?`},
		{"help frobnicate", 2, `unknown command "frobnicate"`},
		{"help", 0, ""},
		{"help stat", 0, ""},
		{"help help", 0, ""},
		{"stat --help", 0, ""},
		{"--help", 0, ""},
		{"--version", 0, ""},
		{"", 0, ""},
		{"a.pinf", 2, "profinfer stat a.pinf"},
		{"a.pinf --help", 2, "profinfer stat a.pinf"},
		{"engine -m model.gguf", 2, "profinfer record -- ./engine"},
		{"sh -c ls", 2, "profinfer record -- sh"},
		{"stat --tpo 3", 2, "unknown flag: --tpo; did you mean --top?"},
		{"record --durtion 3s", 2, "did you mean --duration?"},
		{"stat --frobnicate", 2, "unknown flag: --frobnicate\n"},
		{"stat -Q", 2, "unknown shorthand flag: 'Q'"},

		{"stat a.pinf", 0, ""},
		{"stat -i a.pinf", 0, ""},
		{"stat a.pinf --by layer", 0, ""},
		{"stat a.pinf b.pinf --slow", 2, "--slow is of one recording"},
		{"stat -i a.pinf b.pinf --slow", 2, "--slow is of one recording"},
		{"stat a.pinf b.pinf --no-peaks", 2, "several recordings"},
		{"stat none.pinf", 1, "none.pinf"},
		{"export a.pinf --table steps --format csv", 0, ""},
		{"export --table steps --format csv a.pinf", 0, ""},
		{"export a.pinf b.pinf --table steps --format csv", 2,
			"export reads one recording, not 2: a.pinf, b.pinf"},
		{"export -i a.pinf b.pinf --table steps --format csv", 2, "export reads one recording, not 2"},
		{"export -i a.pinf -i b.pinf --format perfetto", 2, "export reads one recording, not 2"},
		{"report a.pinf -o a.pinf", 2, "the recording itself"},
		{"report a.pinf", 0, ""},
		{"report -i a.pinf b.pinf -o both.html", 0, ""},
		{"stat", 1, "there is no run.pinf here: b.pinf, a.pinf, the latest first\n  profinfer stat b.pinf\n"},
		{"report", 1, "profinfer report b.pinf\n"},
		{"export --format perfetto", 1, "profinfer export b.pinf\n"},
		{"serve", 1, "profinfer serve b.pinf\n"},

		{"record -p", 2, "-p is given no process: if it was to come from $(pidof NAME), none of that name is running"},
		{"record -p --duration 5s", 2, "-p is given no process, but --duration: if"},
		{"record -p -- ls", 2, "-p is given no process, but --: if"},
		{"record -p llama-server", 2, `-p takes the number of a process, not "llama-server"; of a name: -p $(pidof llama-server)`},
		{"record -p 0", 2, `-p takes the number of a process, not "0"`},
		{"record -p -5", 2, `-p takes the number of a process, not "-5"`},
		{"record -p 12,x", 2, `not "x"; of a name`},
		{"record -p 1.5", 2, `-p takes the number of a process, not "1.5"`},
		{"record -p 99999999999999", 2, "-p takes the number of a process"},
		{"doctor -p llama-server", 2, "of a name: -p $(pidof llama-server)"},
		{"doctor -p 12 34", 2, "doctor takes one process, not 2: -p 12"},
		{"overhead -p 12 34", 2, "overhead takes one process, not 2"},
		{"overhead -p 12 34 -- ls", 2, "either -p PID or a command"},
		{"overhead -p 0", 2, "number of a process"},
		// flags behind the second number are read
		{"record -p 12 34 --level all", 2, "--level is step, graph or op"},
	} {
		t.Run(c.args, func(t *testing.T) {
			status, out, errs := runs(t, strings.Fields(c.args)...)
			if status != c.status || !strings.Contains(errs, c.says) || (c.says == "") != (errs == "") {
				t.Errorf("status %d, want %d; it says\n%swant it to say %q", status, c.status, errs, c.says)
			}
			if status == 0 && out == "" || status == statusUsage && out != "" {
				t.Errorf("status %d, and it prints %q", status, out)
			}
		})
	}
}

// Where no recording lies, it is said how to make one; where many do, not all are listed.
func TestOtherRecordings(t *testing.T) {
	recordings(t)
	if status, _, errs := runs(t, "stat"); status != 1 ||
		!strings.Contains(errs, "nor another recording; make one: profinfer record -- COMMAND") {
		t.Errorf("status %d: %s", status, errs)
	}
	recordings(t, "1.pinf", "2.pinf", "3.pinf", "4.pinf", "5.pinf", "6.pinf", "7.pinf", "8.pinf")
	if status, _, errs := runs(t, "stat"); status != 1 ||
		!strings.Contains(errs, "8.pinf, 7.pinf, 6.pinf, 5.pinf, 4.pinf, 3.pinf, +2 more, the latest first") {
		t.Errorf("status %d: %s", status, errs)
	}
	recordings(t, "1.pinf", "run.pinf")
	if status, _, errs := runs(t, "stat"); status != 0 {
		t.Errorf("status %d: %s", status, errs)
	}
}

// Kept peaks that cannot be read are told where a recording is compared with them, and only there.
func TestUnreadablePeaks(t *testing.T) {
	recordings(t, "run.pinf", "b.pinf")
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	if err := os.Mkdir(filepath.Join(cache, "profinfer"), 0o755); err != nil {
		t.Fatal(err)
	}
	// it is a folder
	if err := os.WriteFile(filepath.Join(cache, "profinfer", "peaks"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := peaks.Load(); err == nil {
		t.Skip("this machine has peaks that are kept for all users")
	}
	for args, warns := range map[string]bool{"stat": true, "stat --slow": false,
		"stat run.pinf b.pinf --json": false, "stat --no-peaks": false} {
		status, out, _ := runs(t, strings.Fields(args)...)
		if status != 0 || strings.Contains(out, "profinfer: warning: ") != warns {
			t.Errorf("%s: status %d, a warning %v, want %v:\n%s", args, status, !warns, warns, out)
		}
	}
}

// A recording is the same with -i and without.
func TestInputsAreAlike(t *testing.T) {
	recordings(t, "a.pinf", "b.pinf")
	for _, c := range [][2]string{
		{"stat -i a.pinf --json", "stat a.pinf --json"},
		{"stat -i a.pinf -i b.pinf --json", "stat a.pinf b.pinf --json"},
		{"stat -i a.pinf -i b.pinf --json", "stat -i a.pinf b.pinf --json"},
		{"export -i a.pinf --table ops --format csv", "export a.pinf --table ops --format csv"},
		{"report -i a.pinf -i b.pinf -o -", "report a.pinf b.pinf -o -"},
	} {
		_, want, _ := runs(t, strings.Fields(c[0])...)
		status, got, errs := runs(t, strings.Fields(c[1])...)
		if status != 0 || got != want || got == "" {
			t.Errorf("%s: status %d %s, %d bytes, not as %s, %d bytes", c[1], status, errs, len(got), c[0],
				len(want))
		}
	}
}

// What a shell is offered for a recording's place are files.
func TestCompletion(t *testing.T) {
	recordings(t)
	for _, verb := range []string{"stat", "report", "export", "serve"} {
		if status, out, _ := runs(t, "__complete", verb, ""); status != 0 || !strings.Contains(out, ":0\n") {
			t.Errorf("%s: status %d: %q", verb, status, out)
		}
	}
	if _, out, _ := runs(t, "__complete", "help", "re"); !strings.Contains(out, "record") ||
		!strings.Contains(out, ":4\n") {
		t.Errorf("help: %q", out)
	}
	if _, out, _ := runs(t, "__complete", "st"); !strings.Contains(out, "stat") {
		t.Errorf("commands: %q", out)
	}
}

// The forms that commands show are the ones they take.
func TestHelpShowsFiles(t *testing.T) {
	for verb, form := range map[string]string{"stat": "stat [FILE...]", "report": "report [FILE...]",
		"serve": "serve [FILE...]", "export": "[FILE]", "record": "record [-p PID...] [-- COMMAND ...]"} {
		if _, out, _ := runs(t, verb, "--help"); !strings.Contains(out, form) {
			t.Errorf("%s --help does not show %q:\n%s", verb, form, out)
		}
	}
}

// Numbers behind -p are processes, whatever stands behind them is read as before.
func TestSeparatePIDs(t *testing.T) {
	root := &cobra.Command{Use: "profinfer"}
	for _, verb := range verbs {
		root.AddCommand(verb())
	}
	for _, c := range []struct{ args, want string }{
		{"record -p 12 34", "record -p 12 -p 34"},
		{"record -p 12 34 56 --duration 10s -o x.pinf", "record -p 12 -p 34 -p 56 --duration 10s -o x.pinf"},
		{"record -o x.pinf -p 12 34 -- cmd -p 1 2", "record -o x.pinf -p 12 -p 34 -- cmd -p 1 2"},
		{"record -p 12 -- 34 56", "record -p 12 -- 34 56"},
		{"record -p 12 34 cmd -p 1 2", "record -p 12 -p 34 cmd -p 1 2"},
		{"record cmd -p 1 2", "record cmd -p 1 2"},
		{"record -- cmd -p 1 2", "record -- cmd -p 1 2"},
		{"record -p12 34", "record -p12 -p 34"},
		{"record -p=12 34", "record -p=12 -p 34"},
		{"record --pid 12 34", "record --pid 12 -p 34"},
		{"record --pid=12 34,56 78", "record --pid=12 -p 34,56 -p 78"},
		{"record -p 12 --no-sched 34", "record -p 12 --no-sched 34"}, // a command, if an odd one
		{"record --steps 5 34", "record --steps 5 34"},
		{"record -e -p 12 34", "record -e -p 12 34"}, // -p is what -e counts
		{"record --frobnicate -p 12 34", "record --frobnicate -p 12 -p 34"},
		{"record -p", "record -p"},
		{"record - -p 1 2", "record - -p 1 2"},
		{"doctor -p 12 34", "doctor -p 12 -p 34"},
		{"doctor --json -p 12 34", "doctor --json -p 12 -p 34"},
		{"stat --pid 12 34", "stat --pid 12 34"},
		{"frobnicate -p 12 34", "frobnicate -p 12 34"},
	} {
		if got := separatePIDs(root, strings.Fields(c.args)); strings.Join(got, " ") != c.want {
			t.Errorf("%s becomes %s, want %s", c.args, strings.Join(got, " "), c.want)
		}
	}
	var p pids
	for _, s := range []string{"12", "34,12", "56 78\n"} {
		if err := p.Set(s); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(p, pids{12, 34, 56, 78}) {
		t.Errorf("%v", p)
	}
}

// Help fits a terminal of 100 columns, but for the list of flags.
func TestHelpFits(t *testing.T) {
	for _, command := range verbs {
		c := command()
		for _, line := range strings.Split(c.Long, "\n") {
			if n := utf8.RuneCountInString(line); n > 100 {
				t.Errorf("%s: %d columns: %s", c.Name(), n, line)
			}
		}
		if n := utf8.RuneCountInString(c.Short); n > 90 {
			t.Errorf("%s: %d columns: %s", c.Name(), n, c.Short)
		}
	}
}
