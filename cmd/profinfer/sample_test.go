// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/docs/sample"
	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
	"github.com/profinfer/profinfer/views/terminal"
)

var update = flag.Bool("update", false, "write docs/sample/stat.txt and the README's statistics")

const sampleDir = "../../docs/sample"

// sampleStat is what `profinfer stat` prints of the sample, 100 columns wide.
func sampleStat(t *testing.T, opt stat.Options) (string, *profile.Header) {
	t.Helper()
	file := filepath.Join(sampleDir, sample.Name+".pinf")
	r, err := trace.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	opt.Peaks = (&machineRoof{why: "not measured"}).peaks
	b := stat.New(opt)
	h, err := profile.Replay(r, b)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := terminal.Stat(&out, b.Finish(h),
		terminal.Options{File: sample.Name + ".pinf", Width: 100, Unicode: true}); err != nil {
		t.Fatal(err)
	}
	return out.String(), h
}

var readmeStat = regexp.MustCompile("(?s)(<!-- stat:[^\n]*-->\n```\n)(.*?)(```\n<!-- /stat -->)")

// What the README and the sample's folder show is what the program prints.
func TestSample(t *testing.T) {
	whole, _ := sampleStat(t, stat.Options{By: facts.ByWeight})
	// the part for the README; the command that prints it stands above it
	const head = "$ profinfer stat " + sample.Name + ".pinf\n"
	part := head + whole
	for name, edit := range map[string]func(old string) (string, error){
		filepath.Join(sampleDir, "stat.txt"): func(string) (string, error) { return whole, nil },
		"../../README.md": func(old string) (string, error) {
			if !readmeStat.MatchString(old) {
				return "", fmt.Errorf("the README has no place for the statistics")
			}
			return readmeStat.ReplaceAllString(old, "${1}"+strings.ReplaceAll(part, "$", "$$")+"${3}"), nil
		},
	} {
		old, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		want, err := edit(string(old))
		if err != nil {
			t.Fatal(err)
		}
		if want == string(old) {
			continue
		}
		if !*update {
			t.Errorf("%s does not have what stat prints today: go test ./cmd/profinfer -run TestSample -update", name)
			continue
		}
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(part, " of peak") {
		t.Error("the sample is not compared with its machine's peaks")
	}
}

// The sample's folder stays small, and names nothing of the machine that it was made on.
func TestSampleFiles(t *testing.T) {
	var total int64
	for _, name := range []string{sample.Name + ".pinf", sample.Name + ".html", sample.Name + ".pftrace.gz",
		"stat.txt"} {
		st, err := os.Stat(filepath.Join(sampleDir, name))
		if err != nil {
			t.Fatal(err)
		}
		total += st.Size()
	}
	if total >= 1_000_000 {
		t.Errorf("docs/sample has %d bytes, 1 MB is the limit", total)
	}
	_, h := sampleStat(t, stat.Options{By: facts.ByWeight})
	if h.Meta.Host != "sample" || len(h.Meta.Command) == 0 || h.Meta.Command[0] != "llama-bench" {
		t.Errorf("recorded on %q: %q", h.Meta.Host, h.Meta.Command)
	}
	for _, p := range h.Processes {
		for _, f := range p.Files {
			if !strings.HasPrefix(f.Path, "/usr/") {
				t.Errorf("the sample names %s", f.Path)
			}
		}
	}
	if h.End == nil || h.Torn != "" || slices.ContainsFunc(h.Losses, func(l trace.Loss) bool {
		return l.Why == "lost"
	}) {
		t.Errorf("the sample lacks something: %+v %q %+v", h.End, h.Torn, h.Losses)
	}
}

// The demo records what `record` records of which nothing is said.
func TestDemoRecordsTheDefaults(t *testing.T) {
	opt := demoOptions("x.pinf", []string{"llama-bench"})
	if !opt.Experts || !opt.Sched || opt.Level != engine.LevelOp || opt.Output != "x.pinf" || opt.Tool == "" {
		t.Errorf("%+v", opt)
	}
	c := recordCommand()
	for name, want := range map[string]string{"experts": "true", "no-sched": "false", "level": "op",
		"output": "run.pinf"} {
		if got := c.Flags().Lookup(name).DefValue; got != want {
			t.Errorf("record --%s is %s unless something is said, want %s", name, got, want)
		}
	}
}

func TestOneLine(t *testing.T) {
	for _, c := range []struct{ err, want string }{
		{"loading eBPF programs is not permitted: there is no cap_bpf\n  run it as root (sudo)",
			"loading eBPF programs is not permitted: there is no cap_bpf: run it as root (sudo)"},
		{"apt-get update: exit status 100:\nErr:1 sid\nReading\nE: the mirror cannot be reached",
			"apt-get update: exit status 100: E: the mirror cannot be reached"},
		{"one", "one"},
	} {
		if got := oneLine(fmt.Errorf("%s", c.err)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// Where nothing can be recorded the demo shows the sample: its statistics, and files that are whole.
func TestDemoShowsTheSample(t *testing.T) {
	dir := t.TempDir()
	stdout, stderr := capture(t, func() error {
		return (&demoRun{out: filepath.Join(dir, "new"),
			bar: &stage{}}).sample(fmt.Errorf("no engine\n  install one"))
	})
	if !strings.HasPrefix(stderr, "profinfer: this machine cannot record: no engine: install one\n") {
		t.Errorf("stderr begins with %.200q", stderr)
	}
	for _, want := range []string{"16 layers", "decode, by weight", " of peak"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("stdout lacks %q", want)
		}
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	page := filepath.Join(dir, "new", sample.Name+"-sample.html")
	if last := lines[len(lines)-1]; last != "HTML report, to open in a browser: "+page {
		t.Errorf("the last line is %q", last)
	}
	for _, name := range []string{page, strings.TrimSuffix(page, ".html") + ".pftrace.gz",
		strings.TrimSuffix(page, ".html") + ".pinf"} {
		if st, err := os.Stat(name); err != nil || st.Size() < 10_000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&demoRun{out: filepath.Join(page, "x"),
		bar: &stage{}}).sample(fmt.Errorf("no engine")); err == nil {
		t.Error("a folder that cannot be made is no error")
	}
}

// capture returns what f writes to stdout and stderr, and fails if f does.
func capture(t *testing.T, f func() error) (stdout, stderr string) {
	t.Helper()
	files := [2]*os.File{}
	for i := range files {
		var err error
		if files[i], err = os.Create(filepath.Join(t.TempDir(), "out")); err != nil {
			t.Fatal(err)
		}
		defer files[i].Close()
	}
	oldOut, oldErr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = files[0], files[1]
	err := f()
	os.Stdout, os.Stderr = oldOut, oldErr
	if err != nil {
		t.Fatal(err)
	}
	var text [2]string
	for i := range files {
		b, err := os.ReadFile(files[i].Name())
		if err != nil {
			t.Fatal(err)
		}
		text[i] = string(b)
	}
	return text[0], text[1]
}
