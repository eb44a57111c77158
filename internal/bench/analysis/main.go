// SPDX-License-Identifier: Apache-2.0

// Command analysis measures profinfer itself: what reading a long recording costs (ten million operators, each
// counted once for each thread, in steps of the shape of a model of 1B and in many small ones), what
// recording adds to a short command, and what attaching to a server takes. It prints one table, and how loud
// the machine was. With -base it runs another build in turns and prints ratios. With -trace-processor
// Perfetto's own tool, which loads the export, is measured on the first recording too.
//
//	go run ./internal/bench/analysis
//	go run ./internal/bench/analysis -base /tmp/profinfer.before -runs 9
//	go run ./internal/bench/analysis -trace run.pinf -parts reading -trace-processor ~/bin/trace_processor_shell
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/internal/bench/measure"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

var (
	events = flag.Int("events", 10_000_000, "operators in a recording, counted once for each thread")
	parts  = flag.String("parts", "reading,begin", "reading: recordings; begin: short commands, attaching")
	base   = flag.String("base", "", "another build of profinfer, to compare with")
	given  = flag.String("trace", "", "read these recordings, by commas; none is made")
	keep   = flag.String("keep", "",
		"keep what was recorded in this file, of several in FILE.1, FILE.2 ...; with -trace, what was repeated")
	times = flag.Int("repeat", 1, "read the recording repeated this many times")
	runs  = flag.Int("runs", 5,
		"times that each command runs, beginnings four times as often (0: measure nothing)")
	threads = flag.Int("threads", 2, "threads of the engine")
	model   = flag.String("model", "llama-1b,llama-tiny", "models to record, see profinfer demo")
	options = flag.String("record", "", "further options of profinfer record")
	limit   = flag.Duration("limit", 10*time.Minute,
		"longest time to record, and to wait for trace_processor")
	processor = flag.String("trace-processor", "",
		"trace_processor_shell, or a folder with trace_processor.wasm and its engine (needs node)")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "analysis:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "analysis")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "profinfer")
	if err := measure.Build(program); err != nil {
		return err
	}
	chosen := map[string]bool{}
	for p := range strings.SplitSeq(*parts, ",") {
		if p != "reading" && p != "begin" {
			return fmt.Errorf("-parts is reading, begin or both, not %q", *parts)
		}
		chosen[p] = true
	}
	var paths []string
	if chosen["reading"] {
		if paths, err = recordings(program, dir); err != nil || *runs <= 0 {
			return err
		}
	}
	t := &measure.Table{Out: os.Stdout, Noise: measure.Listen(), Runs: *runs, New: program, Base: *base,
		Limit: *limit}
	for i, path := range paths {
		if err := reading(t, dir, path, i == 0); err != nil {
			return err
		}
	}
	if chosen["begin"] {
		t.Runs = 4 * *runs
		if err := begin(t, dir); err != nil {
			return err
		}
	}
	fmt.Println(t.Noise)
	return nil
}

// recordings makes the recordings that are read, or takes those that are given.
func recordings(program, dir string) (paths []string, err error) {
	n := *times
	if *given != "" {
		paths = strings.Split(*given, ",")
	} else {
		for i, m := range strings.Split(*model, ",") {
			path := *keep
			if path == "" {
				path = filepath.Join(dir, "run.pinf")
			}
			if strings.Contains(*model, ",") {
				path = fmt.Sprintf("%s.%d", path, i+1)
			}
			wanted, n := *events, 1
			if m == slow {
				wanted, n = *events/slowParts, slowParts
			}
			if err := record(program, path, m, wanted); err != nil {
				return nil, err
			}
			if n > 1 {
				short := path + ".part"
				if err := os.Rename(path, short); err != nil {
					return nil, err
				}
				err := repeat(short, path, n)
				os.Remove(short)
				if err != nil {
					return nil, fmt.Errorf("repeating %s: %w", path, err)
				}
			}
			paths = append(paths, path)
		}
	}
	if n <= 1 {
		return paths, nil
	}
	for i, path := range paths {
		long := filepath.Join(dir, fmt.Sprintf("long%d.pinf", i))
		if *given != "" && *keep != "" && len(paths) == 1 {
			long = *keep
		}
		if err := repeat(path, long, n); err != nil {
			return nil, fmt.Errorf("repeating %s: %w", path, err)
		}
		paths[i] = long
	}
	return paths, nil
}

// A model that decodes few tokens a second is recorded for a part of the events, which is then repeated.
const (
	slow      = "llama-1b"
	slowParts = 10
)

// reading measures what reads a recording.
func reading(t *measure.Table, dir, path string, first bool) error {
	n, err := count(path)
	if err != nil {
		return err
	}
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d operators, %d by thread (events), %d steps, %.1f MB, %.2f bytes an event, lost %d\n",
		filepath.Base(path), n.ops, n.events, n.steps, float64(st.Size())/1e6,
		float64(st.Size())/float64(n.events), n.lost)
	pftrace := filepath.Join(dir, "run.pftrace.gz")
	for _, c := range []struct {
		name string
		args []string
	}{
		{"stat", []string{"stat"}},
		{"stat --json", []string{"stat", "--json"}},
		{"report", []string{"report", "-o", filepath.Join(dir, "run.html")}},
		{"op_threads as ndjson", []string{"export", "--table", "op_threads", "--format", "ndjson", "-o",
			os.DevNull}},
		{"perfetto", []string{"export", "--format", "perfetto", "-o", pftrace}},
	} {
		f := measure.Figure{Name: fmt.Sprintf("%s, %.1f M events", c.name, float64(n.events)/1e6),
			Run: t.Command(append(c.args, "-i", path)...)}
		if err := t.Add(f); err != nil {
			return err
		}
	}
	if !first {
		return nil
	}
	return foreign(dir, t.New, path, pftrace, n.events)
}

// record records a model until enough events are in the file.
func record(program, path, model string, events int) error {
	argv, err := engine(context.Background(), model, "llama-bench", "-t", strconv.Itoa(*threads), "-p", "0",
		"-n", "256", "-r", "100000")
	if err != nil {
		return err
	}
	args := append([]string{"record", "-o", path}, strings.Fields(*options)...)
	cmd := exec.Command(program, append(append(args, "--"), argv...)...)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var c counter
	for start := time.Now(); c.events < events; {
		select {
		case err := <-ended:
			return fmt.Errorf("the recording ended with %d events (%v): %s", c.events, err, said.String())
		case <-time.After(time.Second):
		}
		c.more(path)
		fmt.Fprintf(os.Stderr, "\r\x1b[Krecording: %.1f million events in %.0f s", float64(c.events)/1e6,
			time.Since(start).Seconds())
		if time.Since(start) > *limit {
			fmt.Fprintf(os.Stderr, "; that is enough time")
			break
		}
	}
	fmt.Fprintln(os.Stderr)
	cmd.Process.Signal(os.Interrupt)
	err = <-ended
	if _, e := os.Stat(path); e != nil {
		return errors.Join(err, e)
	}
	return nil // interrupted, as asked
}

// engine returns the command that runs a program of the engine on a model.
func engine(ctx context.Context, model, program string, args ...string) ([]string, error) {
	cache, err := demo.Cache()
	if d := os.Getenv("PROFINFER_ENGINES"); d != "" {
		cache, err = d, nil
	}
	if err != nil {
		return nil, err
	}
	e, err := demo.Provide(ctx, cache, nil)
	if err != nil {
		return nil, err
	}
	spec, err := demo.Model(model)
	if err != nil {
		return nil, err
	}
	path, err := demo.Ensure(ctx, e.ModelDir(filepath.Join(cache, "models")), spec, nil)
	if err != nil {
		return nil, err
	}
	inside, err := e.Inside(path)
	if err != nil {
		return nil, err
	}
	return e.Command(program, append([]string{"-m", inside}, args...)...), nil
}

// counter counts the events of a file that grows.
type counter struct {
	events int
	last   int64 // offset of the last block counted
}

func (c *counter) more(path string) {
	f, err := os.Open(path)
	if err != nil {
		return // not begun
	}
	defer f.Close()
	const head = 32 // of a trace; where its blocks begin
	from := max(c.last, head)
	r, err := trace.NewReader(io.MultiReader(io.NewSectionReader(f, 0, head),
		io.NewSectionReader(f, from, 1<<62)))
	if err != nil {
		return
	}
	defer r.Close()
	r.Want(trace.TypeHits)
	for {
		b, err := r.Next()
		if err != nil {
			return
		}
		at := from + b.Offset - head
		if at <= c.last {
			continue
		}
		c.last = at
		for i := range b.Hits {
			if b.Hits[i].Kind == trace.HitOpEnd {
				c.events++
			}
		}
	}
}

// totals are what a recording holds.
type totals struct {
	profile.BaseSink
	ops, events, steps int
	lost               uint64
}

func (t *totals) Op(o *profile.Op) error   { t.ops++; t.events += len(o.Threads); return nil }
func (t *totals) Step(*profile.Step) error { t.steps++; return nil }

func count(path string) (t totals, err error) {
	r, err := trace.Open(path)
	if err != nil {
		return t, err
	}
	defer r.Close()
	h, err := profile.Replay(r, &t)
	if err != nil {
		return t, err
	}
	for _, l := range h.Losses {
		if l.Why == "lost" {
			t.lost += l.Events
		}
	}
	if t.events == 0 {
		err = fmt.Errorf("%s holds no operators", path)
	}
	return t, err
}
