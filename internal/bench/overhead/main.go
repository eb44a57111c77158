// SPDX-License-Identifier: Apache-2.0

// Command overhead prints the tables of docs/overhead.md: what being recorded costs a llama-bench that
// decodes, at one and at two threads, beside bpftrace on the same engine and llama.cpp's own way of tracing,
// all in one run.
//
//	go run ./internal/bench/overhead                         all of it, about 24 minutes
//	go run ./internal/bench/overhead -states op -threads 2   one line of it
//
// With counters on, beside the same without, in some 7 minutes (9 where the CPUs have counters):
//
//	go run ./internal/bench/overhead -states op,counters-software,counters -callback 0
//
// With everything on, in some 7 minutes each: on the dense model, on a mixture of experts of 8 GB, whose
// weights stay mapped as a copy would need another 8 GB, and on prompts:
//
//	go run ./internal/bench/overhead -states op,all -callback 0
//	go run ./internal/bench/overhead -states op,all -callback 0 -model qwen1.5-moe-a2.7b -engine "--repack 0 -lm mmap" -threads 2 -span 5s
//	go run ./internal/bench/overhead -states op,no-experts -callback 0 -model moe-small -prompt 128 -threads 2
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/overhead/drive"
	"github.com/profinfer/profinfer/pmu"
	"github.com/profinfer/profinfer/views/terminal"
)

var (
	rounds  = flag.Int("rounds", 12, "spans of each state")
	span    = flag.Duration("span", 3*time.Second, "length of a span")
	threads = flag.String("threads", "1,2", "threads of the engine, a table for each")
	model   = flag.String("model", "llama-1b", "model, see profinfer demo")
	prompt  = flag.Int("prompt", 0,
		"tokens of a prompt: the engine computes prompts instead of decoding; 0: decode")
	args     = flag.String("engine", "", "further arguments of llama-bench, by spaces")
	names    = flag.String("states", usual, "states to measure, of "+stateNames())
	repeat   = flag.Int("repeat", 1, "how often to print the tables")
	callback = flag.Int("callback", 3, "runs of llama-eval-callback, each beside one without it; 0: none")
	program  = flag.String("profinfer", "", "profinfer to measure (default: built from this tree)")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "overhead:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	chosen, err := choose(*names)
	if err != nil {
		return err
	}
	var teams []int
	for t := range strings.SplitSeq(*threads, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(t))
		if err != nil || n < 1 || n > 1024 {
			return fmt.Errorf("-threads is a list of numbers from 1 to 1024, not %q", *threads)
		}
		teams = append(teams, n)
	}
	if *prompt < 0 || *prompt > 1<<16 {
		return fmt.Errorf("-prompt is a number of tokens up to %d, not %d", 1<<16, *prompt)
	}
	dir, err := os.MkdirTemp("", "overhead")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if *program == "" {
		*program = filepath.Join(dir, "profinfer")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", *program,
			"./cmd/profinfer").CombinedOutput(); err != nil {
			return fmt.Errorf("building profinfer: %w\n%s", err, out)
		}
	}
	lab, err := open(ctx)
	if err != nil {
		return err
	}
	for r := range *repeat {
		if *repeat > 1 {
			fmt.Printf("run %d of %d, %s\n\n", r+1, *repeat, time.Now().Format(time.RFC3339))
		}
		for _, n := range teams {
			if err := lab.states(ctx, chosen, n); err != nil {
				return err
			}
		}
		if *callback > 0 {
			if err := lab.callback(ctx, dir, teams[len(teams)-1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// lab is the engine and where its models lie.
type lab struct {
	e     demo.Engine
	cache string
}

func open(ctx context.Context) (*lab, error) {
	cache, err := demo.Cache()
	if d := os.Getenv("PROFINFER_ENGINES"); d != "" {
		cache, err = d, nil
	}
	if err != nil {
		return nil, err
	}
	if e, ok := demo.Installed(ctx); ok {
		return &lab{e, cache}, nil
	}
	packages := slices.Clone(demo.Tools)
	if *callback > 0 {
		packages = append(packages, "llama.cpp-examples")
	}
	e, err := demo.Debian(ctx, filepath.Join(cache, demo.DebianFolder), packages, said())
	return &lab{e, cache}, err
}

// said tells each stage of a download once.
func said() demo.Progress {
	last := ""
	return func(what string, _, _ int64) {
		if what != last {
			last = what
			fmt.Fprintln(os.Stderr, what)
		}
	}
}

// file returns the name by which the engine knows a model, which is made if it is not there.
func (l *lab) file(ctx context.Context, spec demo.Spec) (string, error) {
	path, err := demo.Ensure(ctx, l.e.ModelDir(filepath.Join(l.cache, "models")), spec, said())
	if err != nil {
		return "", err
	}
	return l.e.Inside(path)
}

// states prints the table of one team of threads.
func (l *lab) states(ctx context.Context, chosen []drive.State, n int) error {
	spec, err := demo.Model(*model)
	if err != nil {
		return err
	}
	file, err := l.file(ctx, spec)
	if err != nil {
		return err
	}
	work := []string{"-p", "0", "-n", "256"}
	what := format.Plural(n, "thread")
	if *prompt > 0 {
		work = []string{"-p", strconv.Itoa(*prompt), "-n", "0", "-b", strconv.Itoa(*prompt), "-ub",
			strconv.Itoa(*prompt)}
		what += fmt.Sprintf(", prompts of %d tokens", *prompt)
	}
	if spec.Experts > 0 {
		chosen = withExperts(chosen)
	}
	argv := l.e.Command("llama-bench",
		slices.Concat([]string{"-m", file, "-t", strconv.Itoa(n)}, work, []string{"-r", "100000"},
			strings.Fields(*args))...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	if err := ready(ctx, cmd.Process.Pid); err != nil {
		return err
	}
	rep, err := drive.Run(ctx, drive.Options{Program: *program, PID: cmd.Process.Pid, States: chosen,
		Rounds: *rounds, Span: *span,
		Progress: func(p drive.Progress) {
			if p.Waiting == "" && tty() {
				fmt.Fprintf(os.Stderr, "\r\x1b[K%s: round %d of %d, %v left", format.Plural(n, "thread"),
					p.Round, p.Rounds, p.Left.Round(time.Second))
			}
		},
		Warn: func(s string) { clearLine(); fmt.Fprintln(os.Stderr, "warning:", s) },
	})
	clearLine()
	if err != nil {
		return err
	}
	fmt.Printf("%s, %s\n", spec.About, what)
	w := bufio.NewWriter(os.Stdout)
	if err := terminal.Overhead(w, rep, terminal.Detect(os.Stdout)); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := w.Flush(); err != nil {
		return err
	}
	if rep.Ended != "" {
		return fmt.Errorf("ended early: %s", rep.Ended)
	}
	return nil
}

func tty() bool { return term.IsTerminal(int(os.Stderr.Fd())) }

func clearLine() {
	if tty() {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
}

// ready waits until a llama-bench has loaded its CPU backend.
func ready(ctx context.Context, pid int) error {
	for range 600 {
		if cpuLibrary(pid) != "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("llama-bench did not load a CPU backend within 30 s")
}

func choose(list string) ([]drive.State, error) {
	var out []drive.State
	for n := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(table, func(s named) bool { return s.key == strings.TrimSpace(n) })
		if i < 0 {
			return nil, fmt.Errorf("there is no state %q: choose of %s", n, stateNames())
		}
		if table[i].Counts == "cycles" {
			if m, err := pmu.ReadMachine(); err == nil && len(m.PMUs) == 0 {
				fmt.Fprintf(os.Stderr, "%s is left out: this machine shows no counters of its CPUs\n",
					table[i].Name)
				continue
			}
		}
		out = append(out, table[i].State)
	}
	if len(out) == 0 {
		return nil, errors.New("there is nothing left to measure")
	}
	return out, nil
}
