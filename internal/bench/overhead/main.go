// SPDX-License-Identifier: Apache-2.0

// Command overhead measures what being recorded costs an engine: one long llama-bench, in which
// states (nothing, profinfer, bpftrace) take turns. Each state's elapsed time a step is compared with
// that of the spans without it before and after; what is printed is the median of these ratios
// with a bootstrap interval. A recording of steps alone, two hits a token, is the clock for all of them.
//
//	go run ./internal/bench/overhead -rounds 12 -span 4s -threads 2
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/target"
	"github.com/profinfer/profinfer/trace"
)

var (
	rounds  = flag.Int("rounds", 12, "spans of each state")
	span    = flag.Duration("span", 4*time.Second, "length of a span")
	threads = flag.Int("threads", 2, "threads of the engine")
	model   = flag.String("model", "llama-1b", "model, see profinfer demo")
	states  = flag.String("states", "op,graph,bpftrace", "states to measure")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "overhead:", err)
		os.Exit(1)
	}
}

// window is a span in which a state held, ns of CLOCK_BOOTTIME.
type window struct {
	state    string // "" is nothing attached
	from, to int64
	ops      int
	lost     uint64
}

func run() error {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "overhead")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "profinfer")
	if out, err := exec.Command("go", "build", "-o", program, "./cmd/profinfer").CombinedOutput(); err != nil {
		return fmt.Errorf("building profinfer: %w\n%s", err, out)
	}
	pid, stop, err := engine(ctx)
	if err != nil {
		return err
	}
	defer stop()
	clock := filepath.Join(dir, "clock.pinf")
	rec := exec.Command(program, "record", "--level", "step", "--no-sched", "-p", strconv.Itoa(pid), "-o", clock)
	rec.Stderr = os.Stderr
	if err := rec.Start(); err != nil {
		return err
	}
	time.Sleep(time.Second)
	var ws []window
	idle := func() {
		from := probe.Now()
		time.Sleep(*span)
		ws = append(ws, window{from: from, to: probe.Now()})
	}
	idle()
	for r := range *rounds {
		for _, state := range strings.Split(*states, ",") {
			w, err := attach(state, program, filepath.Join(dir, "op.pinf"), pid)
			if err != nil {
				return fmt.Errorf("%s: %w", state, err)
			}
			w.state = state
			ws = append(ws, w)
			time.Sleep(500 * time.Millisecond) // probes are being taken away
			idle()
		}
		fmt.Fprintf(os.Stderr, "\rround %d of %d", r+1, *rounds)
	}
	fmt.Fprintln(os.Stderr)
	rec.Process.Signal(os.Interrupt)
	if err := rec.Wait(); err != nil {
		return fmt.Errorf("the clock's recording: %w", err)
	}
	steps, err := stepsOf(clock)
	if err != nil {
		return err
	}
	report(steps, ws)
	return nil
}

// engine starts a llama-bench that decodes until it is stopped.
func engine(ctx context.Context) (pid int, stop func(), err error) {
	cache, err := demo.Cache()
	if d := os.Getenv("PROFINFER_ENGINES"); d != "" {
		cache, err = d, nil
	}
	if err != nil {
		return 0, nil, err
	}
	e, err := demo.Provide(ctx, cache, nil)
	if err != nil {
		return 0, nil, err
	}
	spec, err := demo.Model(*model)
	if err != nil {
		return 0, nil, err
	}
	path, err := demo.Ensure(ctx, e.ModelDir(filepath.Join(cache, "models")), spec, nil)
	if err != nil {
		return 0, nil, err
	}
	inside, err := e.Inside(path)
	if err != nil {
		return 0, nil, err
	}
	argv := e.Command("llama-bench", "-m", inside, "-t", strconv.Itoa(*threads), "-p", "0", "-n", "256", "-r", "1000")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	stop = func() { cmd.Process.Kill(); cmd.Wait() }
	for range 200 { // until its CPU backend is there
		time.Sleep(50 * time.Millisecond)
		if cpuLibrary(cmd.Process.Pid) != "" {
			time.Sleep(3 * time.Second)
			return cmd.Process.Pid, stop, nil
		}
	}
	stop()
	return 0, nil, fmt.Errorf("llama-bench did not load a CPU backend")
}

func cpuLibrary(pid int) string {
	maps, err := target.Maps(pid)
	if err != nil {
		return ""
	}
	for _, m := range target.ExecutableFiles(maps) {
		if strings.Contains(m.Path, "libggml-cpu") {
			return fmt.Sprintf("/proc/%d/root%s", pid, strings.TrimPrefix(m.Path, rootOf(pid)))
		}
	}
	return ""
}

func rootOf(pid int) string {
	root, _ := os.Readlink(fmt.Sprintf("/proc/%d/root", pid))
	return strings.TrimSuffix(root, "/")
}

// attach holds a state for a span and returns when it held. The first and last fifth of a second are left out.
func attach(state, program, out string, pid int) (window, error) {
	const edge = int64(200 * time.Millisecond)
	if state == "bpftrace" {
		lib := cpuLibrary(pid)
		cmd := exec.Command("bpftrace", "-p", strconv.Itoa(pid), "-e",
			fmt.Sprintf("uprobe:%s:ggml_cpu_extra_compute_forward { @a = count(); } uprobe:%s:ggml_barrier { @b = count(); }", lib, lib))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			return window{}, err
		}
		time.Sleep(1500 * time.Millisecond) // it compiles and attaches
		from := probe.Now()
		time.Sleep(*span)
		to := probe.Now()
		cmd.Process.Signal(syscall.SIGINT)
		return window{from: from + edge, to: to - edge}, cmd.Wait()
	}
	cmd := exec.Command(program, "record", "--level", state, "-p", strconv.Itoa(pid), "--duration", span.String(), "-o", out)
	if msg, err := cmd.CombinedOutput(); err != nil {
		return window{}, fmt.Errorf("%w\n%s", err, msg)
	}
	c := &counter{}
	r, err := trace.Open(out)
	if err != nil {
		return window{}, err
	}
	defer r.Close()
	h, err := profile.Replay(r, c)
	if err != nil {
		return window{}, err
	}
	if h.End == nil || len(h.Processes) == 0 || state == "op" && c.ops == 0 {
		return window{}, fmt.Errorf("the recording holds nothing")
	}
	return window{from: h.Processes[0].Attached + edge, to: h.End.Time - edge - int64(300*time.Millisecond), ops: c.ops, lost: h.End.Lost}, nil
}

type counter struct{ ops int }

func (c *counter) Op(*profile.Op) error     { c.ops++; return nil }
func (*counter) Graph(*profile.Graph) error { return nil }
func (*counter) Step(*profile.Step) error   { return nil }
func (*counter) Sched(*trace.Sched) error   { return nil }

type starts struct{ at []int64 }

func (*starts) Op(*profile.Op) error         { return nil }
func (*starts) Graph(*profile.Graph) error   { return nil }
func (s *starts) Step(p *profile.Step) error { s.at = append(s.at, p.Start); return nil }
func (*starts) Sched(*trace.Sched) error     { return nil }

func stepsOf(path string) ([]int64, error) {
	r, err := trace.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s := &starts{}
	_, err = profile.Replay(r, s)
	slices.Sort(s.at)
	return s.at, err
}

// perStep is the elapsed time a step in a window, 0 if there are too few.
func perStep(steps []int64, w window) float64 {
	a, _ := slices.BinarySearch(steps, w.from)
	b, _ := slices.BinarySearch(steps, w.to)
	if b-a < 10 {
		return 0
	}
	return float64(steps[b-1]-steps[a]) / float64(b-1-a)
}

func report(steps []int64, ws []window) {
	fmt.Printf("%s, %d threads, %d rounds of %v; %d steps in all\n", *model, *threads, *rounds, *span, len(steps))
	for _, state := range strings.Split(*states, ",") {
		var ratios []float64
		var ops int
		var lost uint64
		for i, w := range ws {
			if w.state != state || i == 0 || i+1 >= len(ws) {
				continue
			}
			x, before, after := perStep(steps, w), perStep(steps, ws[i-1]), perStep(steps, ws[i+1])
			ops, lost = ops+w.ops, lost+w.lost
			if x > 0 && before > 0 && after > 0 {
				ratios = append(ratios, 100*(2*x/(before+after)-1))
			}
		}
		if len(ratios) == 0 {
			fmt.Printf("%-10s no span with enough steps\n", state)
			continue
		}
		lo, hi := interval(ratios)
		fmt.Printf("%-10s %+.1f %%   95 %%: %+.1f to %+.1f   (%d spans, %d operators recorded, %d events lost)\n", state, median(ratios), lo, hi, len(ratios), ops, lost)
	}
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	if n := len(x); n%2 == 0 {
		return (x[n/2-1] + x[n/2]) / 2
	}
	return x[len(x)/2]
}

// interval is the bootstrap's 95 % interval of the median.
func interval(x []float64) (lo, hi float64) {
	const n = 2000
	var ms []float64
	for range n {
		y := make([]float64, len(x))
		for i := range y {
			y[i] = x[rand.IntN(len(x))]
		}
		ms = append(ms, median(y))
	}
	slices.Sort(ms)
	return ms[n*25/1000], ms[n*975/1000]
}
