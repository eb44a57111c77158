// SPDX-License-Identifier: Apache-2.0

// Command shares checks profinfer's shares of time against a profiler that knows nothing of it:
// perf samples the same threads of the same run by the CPU time they use, and what it finds by
// the names of functions (matrix products, attention, the rest) is compared with what the trace
// says, over the same graphs. With -against budget a full recording is compared with one made
// at the same time under an overhead budget.
//
//	go run ./internal/bench/shares [-against perf|budget] [-npm 3.22.1] [-threads 2] [-prompt 1500] [-tokens 300]
//
// It needs root, perf, npm's build of llama.cpp (which has symbols; it is fetched if it is missing)
// and 600 MB for a model. It ends with status 1 where a share of decode is off by more than the limit.
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

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/profile"
)

var (
	against = flag.String("against", "perf",
		"what to compare a full recording with: perf, or budget (a recording with -budget)")
	version = flag.String("npm", "3.22.1", "version of npm's build")
	threads = flag.Int("threads", 2, "threads of the engine")
	prompt  = flag.Int("prompt", 1500, "tokens of the prompt")
	tokens  = flag.Int("tokens", 300, "tokens to decode")
	vocab   = flag.Int("vocabulary", 32768,
		"size of the model's vocabulary; its shape is LLaMA-3.2-1B's otherwise")
	rate      = flag.Int("rate", 999, "perf's samples a second and thread")
	callGraph = flag.String("call-graph", "dwarf,1024",
		"how perf finds callers; fp is lighter and leaves more time in no class")
	budget  = flag.String("budget", "0.5%", "overhead budget to compare with")
	limit   = flag.Float64("limit", 0, "points that a share may differ (default 2, with -against budget 1)")
	program = flag.String("profinfer", "", "profinfer to check (default: built from this folder)")
	options = flag.String("record", "", "further options of the full recording, such as --two-hits")
	keep    = flag.String("keep", "", "keep recordings in this folder")
	again   = flag.String("again", "",
		"run nothing: compare the recordings that an earlier run kept in this folder")
)

// errOff is returned where a share differs by more than the limit.
var errOff = errors.New("shares differ by more than the limit")

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "shares:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if *against != "perf" && *against != "budget" {
		return fmt.Errorf("-against is perf or budget, not %q", *against)
	}
	if os.Geteuid() != 0 && *again == "" {
		return fmt.Errorf("recording needs root")
	}
	if *against == "perf" {
		if _, err := exec.LookPath("perf"); err != nil {
			return errNoPerf
		}
	}
	if *again != "" {
		return report(ctx, *again)
	}
	dir := *keep
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "shares"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	bin := *program
	if bin == "" {
		bin = filepath.Join(dir, "profinfer")
		if out, err := exec.Command("go", "build", "-o", bin,
			"./cmd/profinfer").CombinedOutput(); err != nil {
			return fmt.Errorf("building profinfer (run this from the repository's folder, or use -profinfer): %w\n%s", err, out)
		}
	}
	if *against == "budget" {
		help, _ := exec.Command(bin, "record", "--help").Output()
		if !strings.Contains(string(help), "--overhead-budget") {
			return fmt.Errorf("%s knows no --overhead-budget", bin)
		}
	}
	e, err := startEngine(ctx)
	if err != nil {
		return err
	}
	defer e.stop()
	recordings := []*exec.Cmd{record(bin, e.pid(), filepath.Join(dir, fullFile), strings.Fields(*options)...)}
	var s *sampler
	if *against == "budget" {
		recordings = append(recordings,
			record(bin, e.pid(), filepath.Join(dir, budgetFile), "--overhead-budget", *budget))
	} else {
		if s, err = startPerf(e.pid(), *rate, *callGraph, filepath.Join(dir, perfFile)); err != nil {
			return err
		}
		defer s.cmd.Process.Kill()
	}
	for _, r := range recordings {
		if err := r.Start(); err != nil {
			return err
		}
		defer r.Process.Kill()
	}
	time.Sleep(3 * time.Second) // they attach
	before := load1()
	fmt.Fprintf(os.Stderr, "evaluating %d tokens, decoding %d\n", *prompt, *tokens)
	if err := e.run(); err != nil {
		return err
	}
	for _, r := range recordings {
		if err := r.Wait(); err != nil {
			return fmt.Errorf("profinfer record: %w", err)
		}
	}
	fmt.Printf("npm's llama.cpp %s, LLaMA-3.2-1B's shape with %d tokens of vocabulary, Q4_0, %d threads, prompt of %d tokens, %d decoded; load of the machine %s before, %s after\n",
		*version, *vocab, *threads, *prompt, *tokens, before, load1())
	if *options != "" {
		fmt.Println("full recording with", *options)
	}
	if s != nil {
		if err := s.wait(); err != nil {
			return err
		}
	}
	return report(ctx, dir)
}

// Files of a folder with recordings.
const (
	fullFile   = "full.pinf"
	budgetFile = "budget.pinf"
	perfFile   = "perf.data"
)

// report compares the recordings in a folder.
func report(ctx context.Context, dir string) error {
	c, err := load(filepath.Join(dir, fullFile))
	if err != nil {
		return err
	}
	if *against == "budget" {
		return reportBudget(os.Stdout, c, filepath.Join(dir, budgetFile))
	}
	return reportPerf(ctx, os.Stdout, c, filepath.Join(dir, perfFile))
}

// load1 is the load average over a minute: on a loaded machine threads wait for each other.
func load1() string {
	b, err := os.ReadFile("/proc/loadavg")
	f := strings.Fields(string(b))
	if err != nil || len(f) == 0 {
		return "unknown"
	}
	return f[0]
}

func record(bin string, pid int, path string, args ...string) *exec.Cmd {
	cmd := exec.Command(bin, append([]string{"record", "-p", strconv.Itoa(pid), "-o", path}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd
}

func limitOr(points float64) float64 {
	if *limit > 0 {
		return *limit
	}
	return points
}

func reportPerf(ctx context.Context, w io.Writer, c *recording, path string) error {
	in := map[profile.Phase]*sampled{}
	var out outside
	weights := false // in the code that attention's products use too
	fmt.Fprintln(os.Stderr, "unwinding perf's samples")
	err := samples(ctx, path, func(x *sample) {
		if !c.tids[x.tid] {
			out.unwanted++
			return
		}
		k, inside := classify(x.chain, c.kv)
		weights = weights || c.kv && k == products && slices.ContainsFunc(x.chain, func(f frame) bool {
			return plainProduct.MatchString(f.symbol)
		})
		g, ok := c.at(x.time)
		if !ok {
			out.n++
			if k == products || k == attention {
				out.compute++
			}
			return
		}
		t := in[g.phase]
		if t == nil {
			t = &sampled{}
			in[g.phase] = t
		}
		t.add(k, inside, name(x.chain))
	})
	if err != nil {
		return err
	}
	if c.kv {
		fmt.Fprintln(w, "attention is not fused: its products are told from those with weights by the types of what they call")
	}
	for _, s := range in {
		s.decide(weights)
	}
	compare(w, profile.Prefill, in[profile.Prefill], c.phases[profile.Prefill], limitOr(2))
	ok := compare(w, profile.Decode, in[profile.Decode], c.phases[profile.Decode], limitOr(2))
	fmt.Fprintf(w, "\nof the same threads while no graph ran: %d samples, %d of them in products or attention; %d samples of other threads\n", out.n, out.compute, out.unwanted)
	if !ok {
		return errOff
	}
	return nil
}

// name is the innermost symbol outside the kernel.
func name(chain []frame) string {
	for _, f := range chain {
		if !f.kernel {
			return f.symbol
		}
	}
	return "kernel"
}

func reportBudget(w io.Writer, full *recording, path string) error {
	part, err := load(path)
	if err != nil {
		return err
	}
	compareBudget(w, profile.Prefill, full.phases[profile.Prefill], part.phases[profile.Prefill], limitOr(1))
	if !compareBudget(w, profile.Decode, full.phases[profile.Decode], part.phases[profile.Decode],
		limitOr(1)) {
		return errOff
	}
	return nil
}

// engine is npm's build with the model loaded, waiting to begin.
type engine struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	log strings.Builder
}

func startEngine(ctx context.Context) (*engine, error) {
	dir, err := engines.Dir()
	if err != nil {
		return nil, err
	}
	progress := func(what string, _, _ int64) { fmt.Fprintln(os.Stderr, what) }
	n, err := engines.InstallNPM(ctx, dir, *version, progress)
	if err != nil {
		return nil, err
	}
	spec, err := demo.Model("llama-1b")
	if err != nil {
		return nil, err
	}
	spec.Tokens = *vocab // all of it is a large part of a model this small
	spec = spec.WithVocabulary()
	spec.Name = fmt.Sprintf("%s-%d", spec.Name, *vocab)
	model, err := demo.Ensure(ctx, filepath.Join(dir, "models"), spec, nil)
	if err != nil {
		return nil, err
	}
	argv := n.Command(model, *prompt, *tokens, *threads, "--ctx", strconv.Itoa(*prompt+*tokens+64), "--wait")
	e := &engine{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...)} // what records it ends with it
	e.cmd.Stderr = &e.log
	if e.in, err = e.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	e.out = bufio.NewReader(out)
	if err := e.cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := e.out.ReadString('\n'); strings.TrimSpace(line) != "ready" {
		e.stop()
		return nil, fmt.Errorf("npm's build %s did not load the model: %v\n%s", *version, err, e.log.String())
	}
	return e, nil
}

func (e *engine) pid() int { return e.cmd.Process.Pid }

// run lets the engine work and returns when it ended.
func (e *engine) run() error {
	if _, err := io.WriteString(e.in, "\n"); err != nil {
		return err
	}
	io.Copy(io.Discard, e.out)
	if err := e.cmd.Wait(); err != nil {
		return fmt.Errorf("npm's build %s: %w\n%s", *version, err, e.log.String())
	}
	return nil
}

func (e *engine) stop() {
	e.cmd.Process.Kill()
	e.cmd.Wait()
}
