// SPDX-License-Identifier: Apache-2.0

// Command analysis measures what reading a long recording costs: it records the tiny model flat out
// until enough operators ran, each counted once for each thread, and prints the size of the file, and
// the time and memory of profinfer's statistics and exports of it. With -trace-processor the same is
// measured for Perfetto's own tool, which loads the export.
//
//	go run ./internal/bench/analysis -events 10000000
//	go run ./internal/bench/analysis -trace run.pinf -trace-processor ~/bin/trace_processor_shell
//	go run ./internal/bench/analysis -trace run.pinf -repeat 100 -keep week.pinf
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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

var (
	events  = flag.Int("events", 10_000_000, "operators to record, counted once for each thread")
	given   = flag.String("trace", "", "measure this recording; none is made")
	keep    = flag.String("keep", "", "keep the recording in this file")
	times   = flag.Int("repeat", 1, "measure a recording that is so many of it, one after the other")
	runs    = flag.Int("runs", 3, "times that each command runs; the median is printed (0: measure nothing)")
	threads = flag.Int("threads", 2, "threads of the engine")
	model   = flag.String("model", "llama-tiny", "model, see profinfer demo")
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
	if out, err := exec.Command("go", "build", "-o", program,
		"./cmd/profinfer").CombinedOutput(); err != nil {
		return fmt.Errorf("building profinfer: %w\n%s", err, out)
	}
	path := *given
	if path == "" {
		if path = *keep; path == "" {
			path = filepath.Join(dir, "run.pinf")
		}
		if err := record(program, path); err != nil {
			return err
		}
	}
	if *times > 1 {
		long := filepath.Join(dir, "long.pinf")
		if *given != "" && *keep != "" {
			long = *keep
		}
		if err := repeat(path, long, *times); err != nil {
			return fmt.Errorf("repeating %s: %w", path, err)
		}
		path = long
	}
	if *runs <= 0 {
		return nil
	}
	n, err := count(path)
	if err != nil {
		return err
	}
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d operators, %d by thread (\"events\" below), %d steps\n", filepath.Base(path), n.ops,
		n.events, n.steps)
	fmt.Printf("%.1f MB, %.2f bytes an event; lost %d\n\n", float64(st.Size())/1e6,
		float64(st.Size())/float64(n.events), n.lost)
	fmt.Printf("%-54s %8s %8s %10s %9s\n", "", "wall s", "CPU s", "Mevents/s", "peak MiB")
	pftrace := filepath.Join(dir, "run.pftrace.gz")
	for _, c := range [][]string{
		{"stat"}, {"stat", "--json"},
		{"report", "-o", filepath.Join(dir, "run.html")},
		{"export", "--table", "op_threads", "--format", "ndjson", "-o", os.DevNull},
		{"export", "--format", "perfetto", "-o", pftrace},
	} {
		u, err := measure(*runs, program, append(slices.Clone(c), "-i", path)...)
		if err != nil {
			return fmt.Errorf("profinfer %s: %w", c[0], err)
		}
		show("profinfer "+strings.ReplaceAll(strings.Join(c, " "), dir+"/", ""), u, n.events)
	}
	return foreign(dir, program, path, pftrace, n.events)
}

func show(what string, u usage, events int) {
	fmt.Printf("%-54s %8.2f %8.2f %10.2f %9.0f\n", strings.TrimSuffix(what, " -o "+os.DevNull),
		u.wall.Seconds(), u.cpu.Seconds(), float64(events)/u.wall.Seconds()/1e6, float64(u.rss)/(1<<20))
}

// usage is what a process took.
type usage struct {
	wall, cpu time.Duration
	rss       int64 // largest, bytes
}

// measure runs a command n times and returns the run of median wall time.
func measure(n int, program string, args ...string) (usage, error) {
	var us []usage
	for range max(1, n) {
		u, err := once(program, args...)
		if err != nil {
			return u, err
		}
		us = append(us, u)
	}
	slices.SortFunc(us, func(a, b usage) int { return int(a.wall - b.wall) })
	return us[len(us)/2], nil
}

func once(program string, args ...string) (u usage, err error) {
	ctx, stop := context.WithTimeout(context.Background(), *limit)
	defer stop()
	cmd := exec.CommandContext(ctx, program, args...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = io.Discard, &said
	start := time.Now()
	err = cmd.Run()
	u.wall = time.Since(start)
	if s := cmd.ProcessState; s != nil {
		u.cpu = s.UserTime() + s.SystemTime()
		if ru, ok := s.SysUsage().(*syscall.Rusage); ok {
			u.rss = ru.Maxrss << 10
		}
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("it was stopped after %v", *limit)
	} else if err != nil {
		err = fmt.Errorf("%w: %s", err, lastWords(said.String()))
	}
	return u, err
}

// lastWords returns the line of what a program said that tells why it ended, the last one if none does.
func lastWords(s string) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\r' || r == '\n' })
	for _, l := range slices.Backward(lines) {
		if strings.Contains(l, "rror") || strings.Contains(l, "memory") {
			return l[:min(len(l), 300)]
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

// record records the model until enough events are in the file.
func record(program, path string) error {
	argv, err := engine(context.Background())
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
	for start := time.Now(); c.events < *events; {
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

// engine returns the command that runs the model for longer than any recording takes.
func engine(ctx context.Context) ([]string, error) {
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
	spec, err := demo.Model(*model)
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
	return e.Command("llama-bench", "-m", inside, "-t", strconv.Itoa(*threads), "-p", "0", "-n", "256", "-r",
		"100000"), nil
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
