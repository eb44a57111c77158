// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/internal/recording"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
	"github.com/profinfer/profinfer/views/tables"
)

// onTerminal runs the program on a terminal and returns its status and all that the terminal was sent.
func onTerminal(t *testing.T, args ...string) (int, string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminal can be had here: ", err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	done := make(chan struct{})
	// ends with an error when nobody has the terminal open any more
	go func() { _, _ = io.Copy(&got, master); close(done) }()
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = slave, slave
	status := run(args, slave, slave)
	os.Stdout, os.Stderr = stdout, stderr
	slave.Close()
	<-done
	return status, got.String()
}

// What profinfer itself sends to a terminal: colours, and a line in place of another.
var ours = regexp.MustCompile("\x1b\\[[0-9;]*m|\r\x1b\\[K|\r\n")

// obeyed finds what a terminal would obey: control characters, those of ISO 6429's second set too, and what
// is no UTF-8.
func obeyed(s string) string {
	s = ours.ReplaceAllString(s, "\n")
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n > 1 {
				continue // that character itself, as encoding/json writes for what is no UTF-8
			}
		}
		if r < 0x20 && r != '\n' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError || r == 0x202e {
			return fmt.Sprintf("%q", s[max(0, i-60):min(len(s), i+20)])
		}
	}
	return ""
}

// evil is what a name may end with: the title of a terminal, a colour that is not ours, and a control
// character of two bytes.
const evil = "\x1b]0;owned\x07\x1b[7m\x1b[?1049h\u009b31m\u202e\x7f\x00\r\x08"

// evilFile is what a file's name can have of it.
var evilFile = strings.ReplaceAll(evil, "\x00", "")

// quick are the ways in which most of a recording is read; ways are all. OUT is a file to write.
var (
	quick = []string{"stat -v", "stat --json", "stat --slow", "export --format dot", "overhead -i"}
	ways  = append(slices.Clone(quick), "stat", "stat --slow --json", "stat --by op", "stat --by layer",
		"stat --by thread", "stat --by step", "stat --by expert", "stat --by block",
		"stat FILE", "report -o OUT", "export --format dot --layers", "export --format pprof -o OUT",
		"export --format perfetto -o OUT", "TABLES csv", "TABLES ndjson")
)

// walk shows a recording in some ways, and returns how many of them had something to show.
func walk(t *testing.T, what, file string, ways []string) (shown int) {
	t.Helper()
	dir := t.TempDir()
	for _, way := range ways {
		words := strings.Fields(way)
		var all [][]string
		if words[0] == "TABLES" {
			for _, table := range tables.Names() {
				all = append(all, []string{"export", "--table", table, "--format", words[1], file})
			}
		} else {
			for i, w := range words {
				switch w {
				case "FILE":
					words[i] = file
				case "OUT":
					words[i] = filepath.Join(dir, "out"+evilFile)
				}
			}
			all = append(all, append(words, file))
		}
		for _, args := range all {
			status, out := onTerminal(t, args...)
			if bad := obeyed(out); bad != "" {
				t.Errorf("%s: %q: %s", what, args, bad)
			}
			if status == 0 {
				shown++
			}
		}
	}
	return shown
}

// texts are the string fields below a value, each with a way to change it.
func texts(v reflect.Value, name string, at func(name string, s reflect.Value)) {
	switch v.Kind() {
	case reflect.String:
		at(name, v)
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			texts(v.Elem(), name, at)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				texts(v.Field(i), name+"."+f.Name, at)
			}
		}
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k >= reflect.Bool && k <= reflect.Complex128 {
			return
		}
		for i := range v.Len() {
			texts(v.Index(i), name, at)
		}
	}
}

// Whatever a recording's texts hold, each for itself and all at a time, in whatever way it is shown: a
// terminal obeys nothing of it.
func TestRecordingsOnATerminal(t *testing.T) {
	dir := t.TempDir()
	seen := map[string]bool{}
	for _, trial := range profiletest.Trials() {
		if trial.Large {
			continue
		}
		file := filepath.Join(dir, trial.Name+".pinf")
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := trial.Write(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		walk(t, trial.Name, file, quick)
		fields := map[string]bool{}
		err = recording.Copy(io.Discard, file, func(b *trace.Block) {
			texts(reflect.ValueOf(b), "", func(name string, _ reflect.Value) { fields[name] = !seen[name] })
		})
		if err != nil { // damaged on purpose
			continue
		}
		news := slices.Contains(slices.Collect(maps.Values(fields)), true)
		fields["all"] = true
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			if !fields[field] {
				continue
			}
			seen[field] = true
			changed := filepath.Join(dir, "changed"+evilFile+".pinf")
			out, err := os.Create(changed)
			if err != nil {
				t.Fatal(err)
			}
			err = recording.Copy(out, file, func(b *trace.Block) {
				texts(reflect.ValueOf(b), "", func(name string, s reflect.Value) {
					if name == field || field == "all" {
						s.SetString(s.String() + evil + "\xff")
					}
				})
			})
			out.Close()
			if err != nil {
				t.Fatal(trial.Name, field, err)
			}
			if field == "all" {
				if news {
					walk(t, trial.Name+" all", changed, ways)
				}
				continue
			}
			if n := walk(t, trial.Name+" "+field, changed, quick); n == 0 {
				t.Logf("%s %s: no verb reads it", trial.Name, field)
			}
		}
	}
	t.Logf("%d fields", len(seen))
}

// Errors name what was given, and what a file's name is.
func TestErrorsOnATerminal(t *testing.T) {
	recordings(t, "a.pinf")
	name := "x" + evilFile
	if err := os.WriteFile(name, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("z"+name+".pinf", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{name}, {"help", name}, {"--" + name}, {"stat", "--" + name},
		{"stat", name}, {"stat", "no" + name}, {"stat", "--by", name, "a.pinf"}, {"stat"},
		{"record", "-p", name}, {"record", "--level", name, "--", "true"}, {"record", "-e", name, "--",
			"true"}, {"record", "--counters", name, "--", "true"},
		{"record", "-o", "/no" + name + "/x", "--", "true"},
		{"record", "--", "./" + name}, {"record", "--", "no" + name}, {"record", "--op", name, "--",
			"true"}, {"record", "--max-size", name, "--", "true"}, {"overhead", "--levels", name, "-p", "2"},
		{"overhead", "-i", name}, {"overhead", "--", "./" + name}, {"report", name}, {"report", "a.pinf",
			"-o", name + "/x"}, {"report", "a.pinf", "-o", name},
		{"export", "--table", name, "--format", "csv", "a.pinf"},
		{"export", "--format", name, "a.pinf"}, {"export", "--format", "dot", "--phase", name,
			"a.pinf"}, {"export", "--format", "dot", "--color", name, "a.pinf"}, {"serve", "--listen", name},
		{"serve", name},
		{"demo", "--model", name}, {"demo", "--model", "llama-tiny", "--type", name}, {"demo", "--model",
			"llama-tiny", "-o", name}, {"demo", "--model", "llama-tiny", "-o", "m" + name}, {"doctor", name},
		{"doctor", "--json", name}, {"doctor", "no" + name}, {"doctor", "-p", name},
		{"peaks", "--threads", name}, {"peaks", "--trial", name}} {
		_, out := onTerminal(t, args...)
		if bad := obeyed(out); bad != "" {
			t.Errorf("%q: %s", args, bad)
		}
	}
}

// What is written to standard error goes through say.
func TestOnlySaySpeaks(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") || f == "say.go" {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(`(?m)^.*(Fprint\w*\(os\.Stderr|os\.Stderr\.Write|WriteString\(os\.Stderr|\bprintln\().*$`).Find(b); m != nil {
			t.Errorf("%s: %s", f, bytes.TrimSpace(m))
		}
	}
}
