// SPDX-License-Identifier: Apache-2.0

// Command corpus writes all that a build of profinfer says about many recordings as text, so that two builds
// can be compared:
//
//	go run ./internal/corpus -make RECORDINGS                     write the made-up recordings; put real ones beside them
//	go run ./internal/corpus -bin OLD/profinfer -o old RECORDINGS
//	go run ./internal/corpus -bin bin/profinfer -o new RECORDINGS
//	diff -r old new
//
// A recording has a folder: statistics by each grouping, slow steps, tables, graphs, the decoded exports, the
// page's sections. What a machine has measured of itself is left out: every build gets the same peaks.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/views/tables"
)

func main() {
	bin := flag.String("bin", "bin/profinfer", "program whose outputs are written")
	out := flag.String("o", "", "folder to write them to")
	fill := flag.Bool("make", false, "write the made-up recordings into the folder instead")
	flag.Parse()
	if flag.NArg() != 1 || (*out == "") != *fill {
		fmt.Fprintln(os.Stderr, "usage: corpus -make DIR | corpus [-bin PROGRAM] -o DIR RECORDINGS")
		os.Exit(2)
	}
	err := error(nil)
	if *fill {
		err = makeTrials(flag.Arg(0))
	} else {
		err = describe(*bin, *out, flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "corpus:", err)
		os.Exit(1)
	}
}

// makeTrials writes the synthetic recordings.
func makeTrials(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, t := range profiletest.Trials() {
		var b bytes.Buffer
		if err := t.Write(&b); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "trial-"+t.Name+".pinf"), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// output is one kind of output that a build produces for a recording.
type output struct {
	name   string
	args   []string                                     // FILE is the recording
	decode func(data []byte) (map[string]string, error) // nil: the text unchanged
}

// peaks replace those measured on a machine.
var peaks = []string{"--peak-bandwidth", "39.5", "--peak-flops", "1500"}

// outputs returns all of them.
func outputs() []output {
	var all []output
	add := func(name string, decode func([]byte) (map[string]string, error), args ...string) {
		all = append(all, output{name, args, decode})
	}
	for _, by := range []string{"weight", "op", "layer", "block", "thread"} {
		add("stat-"+by+".json", nil, append([]string{"stat", "-i", "FILE", "--json", "--by", by},
			peaks...)...)
		add("stat-"+by+".txt", nil, append([]string{"stat", "-i", "FILE", "--by", by, "-v"}, peaks...)...)
	}
	add("stat-nopeaks.json", nil, "stat", "-i", "FILE", "--json", "--no-peaks")
	add("slow.json", nil, "stat", "-i", "FILE", "--slow", "--json")
	add("slow.txt", nil, "stat", "-i", "FILE", "--slow", "-v")
	for _, t := range tables.Names() {
		add("table-"+t+".csv", nil, "export", "-i", "FILE", "--table", t, "--format", "csv")
	}
	for _, phase := range []string{"prefill", "decode"} {
		add("graph-"+phase+".dot", nil, "export", "-i", "FILE", "--format", "dot", "--phase", phase)
	}
	add("layers.dot", nil, "export", "-i", "FILE", "--format", "dot", "--layers", "--color", "bandwidth")
	add("pprof", decodePprof, "export", "-i", "FILE", "--format", "pprof", "-o", "-")
	add("perfetto", decodePerfetto, "export", "-i", "FILE", "--format", "perfetto", "-o", "-")
	add("page", decodePage, append([]string{"report", "-i", "FILE", "-o", "OUT"}, peaks...)...)
	return all
}

// describe writes every output of every recording.
func describe(bin, dir, recordings string) error {
	files, err := filepath.Glob(filepath.Join(recordings, "*.pinf"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no recording in %s", recordings)
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	cache, err := os.MkdirTemp("", "corpus")
	if err != nil {
		return err
	}
	defer os.RemoveAll(cache)
	var wait sync.WaitGroup
	var lock sync.Mutex
	var failed []error
	free := make(chan struct{}, runtime.NumCPU())
	for _, f := range files {
		to := filepath.Join(dir, strings.TrimSuffix(filepath.Base(f), ".pinf"))
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		for _, o := range outputs() {
			free <- struct{}{}
			wait.Go(func() {
				defer func() { <-free }()
				if err := write(bin, cache, f, to, o); err != nil {
					lock.Lock()
					failed = append(failed, fmt.Errorf("%s, %s: %w", f, o.name, err))
					lock.Unlock()
				}
			})
		}
	}
	wait.Wait()
	return errors.Join(failed...)
}

// write runs the program for one output. Its stderr and its exit status belong to the output.
func write(bin, cache, file, to string, o output) error {
	made := filepath.Join(cache, filepath.Base(to)+"-"+o.name)
	args := make([]string, len(o.args))
	for i, a := range o.args {
		switch a {
		case "FILE":
			a = filepath.Base(file) // independent of the recordings' location
		case "OUT":
			a = made
		}
		args[i] = a
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Minute)
	defer stop()
	c := exec.CommandContext(ctx, bin, args...)
	c.Dir = filepath.Dir(file)
	c.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache, "HOME="+cache, "NO_COLOR=1", "COLUMNS=140")
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	said := strings.ReplaceAll(stderr.String(), made, "OUT")
	if said = fmt.Sprintf("%sexit status %d\n", said, c.ProcessState.ExitCode()); said != "exit status 0\n" {
		if err := os.WriteFile(filepath.Join(to, o.name+".stderr"), []byte(said), 0o644); err != nil {
			return err
		}
	}
	data := stdout.Bytes()
	if b, err := os.ReadFile(made); err == nil {
		data = b
		os.Remove(made)
	}
	if o.decode == nil || len(data) == 0 {
		return keep(filepath.Join(to, o.name), data)
	}
	texts, err := o.decode(data)
	if err != nil {
		return err
	}
	for name, text := range texts {
		if err := keep(filepath.Join(to, strings.ReplaceAll(o.name+name, "/", "-")+".txt"),
			[]byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// keptBytes is how much of an output is kept as text; the digest covers all of it.
const keptBytes = 4 << 20

// long matches numbers whose last digits depend on the order of a sum.
var long = regexp.MustCompile(`[0-9]+\.[0-9]{10,}(e[-+][0-9]+)?`)

func keep(path string, data []byte) error {
	data = long.ReplaceAllFunc(data, func(n []byte) []byte {
		v, err := strconv.ParseFloat(string(n), 64)
		if err != nil {
			return n
		}
		return strconv.AppendFloat(nil, v, 'g', 12, 64)
	})
	if len(data) > keptBytes {
		data = fmt.Appendf(data[:keptBytes:keptBytes], "\n... %d bytes, SHA-256 %x\n", len(data),
			sha256.Sum256(data))
	}
	return os.WriteFile(path, data, 0o644)
}
