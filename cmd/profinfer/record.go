// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/peaks"
	"github.com/profinfer/profinfer/pmu"
	"github.com/profinfer/profinfer/record"
	"github.com/profinfer/profinfer/target"
)

// verbs are the program's commands, in the order of its help.
var verbs = []func() *cobra.Command{recordCommand, statCommand, exportCommand, reportCommand, serveCommand,
	demoCommand, doctorCommand, overheadCommand, peaksCommand}

func recordCommand() *cobra.Command {
	opt := record.Defaults()
	var procs pids
	var level string
	var ringKB int
	var noSched bool
	var faults string
	var budget, maxSize, switchSize, question string
	c := &cobra.Command{
		Use:   "record [-p PID...] [-- COMMAND ...]",
		Short: "Record an inference engine: a command, or running processes",
		Long: `Record launches a command, or attaches to running processes, and writes what their inference
engine does to a file. The engine is found by itself, also in children of the command, in
containers, and in libraries that are loaded later.

It ends with the command, with the processes, after --duration, or by an interrupt (ctrl-C).
With both -p and a command it ends with the command, as for an RPC server and its client.
-p takes several processes (-p 12 34, -p 12,34); a command that is a number stands behind --.

With --counters or -e it counts events per operator and thread: cycles, instructions, cache misses
where the machine has counters; page faults and context switches on every machine. Presets
(--counters) count user mode only; -e counts user and kernel mode unless :u is given, as perf does.

A process whose name contains "server" is recorded with --overhead-budget 1% unless --duration,
--steps, --two-hits or a filter is given.

The recording is readable by its owner alone: under sudo, by the user who called it, in a folder of
that user or of root. Secrets on command lines are not recorded (--keep-secrets). An older file of
its name is replaced if it is a recording (--force: whatever it is).`,
		Example: `  profinfer record -- llama-bench -m model.gguf
  profinfer record -p $(pidof llama-server) --duration 5s -o server.pinf
  profinfer record -p $(pidof ggml-rpc-server) -- llama-bench -m model.gguf --rpc 127.0.0.1:50052 -ngl 99
  profinfer record --counters auto -- llama-bench -m model.gguf -t 1,2,4
  profinfer record --counters software -e cache-misses:u -- llama-bench -m model.gguf`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			opt.PIDs = procs
			if len(args) == 0 && len(opt.PIDs) == 0 {
				return usage("nothing to record: give -- COMMAND or -p PID\n  profinfer record -- llama-bench -m model.gguf")
			}
			if err := procs.recordable(); err != nil {
				return err
			}
			switch level {
			case "step":
				opt.Level = engine.LevelStep
			case "graph":
				opt.Level = engine.LevelGraph
			case "op":
				opt.Level = engine.LevelOp
			default:
				return usage("--level is step, graph or op, not %q", level)
			}
			if ringKB < 0 || ringKB > 1<<20 {
				return usage("--ring-size is a number of KiB up to 1048576")
			}
			if opt.Steps < 0 || opt.MinTPS < 0 {
				return usage("--steps and --min-tps are positive numbers")
			}
			if opt.Level != engine.LevelOp &&
				(opt.TwoHits || opt.MinTPS > 0 || budget != "" ||
					len(opt.Ops)+len(opt.Phases)+len(opt.TIDs) > 0) {
				return usage("--overhead-budget, --min-tps, --two-hits, --op, --phase and --tid are for --level op")
			}
			var err error
			if opt.Budget, err = percent(budget); err != nil {
				return usage("--overhead-budget: %v", err)
			}
			opt.Command = args
			if budget == "" && serves(&opt) {
				opt.Budget = serverBudget
				say("profinfer: a server is recorded with --overhead-budget %g%% (--overhead-budget none, --duration or --steps: without)", 100*serverBudget)
			}
			if err := sizes(&opt, maxSize, switchSize); err != nil {
				return err
			}
			if err := counting(&opt, question, noSched); err != nil {
				return err
			}
			if err := faulting(&opt, faults); err != nil {
				return err
			}
			if err := opt.CheckFilters(); err != nil {
				return usage("%v", err)
			}
			opt.RingBytes, opt.Sched, opt.Tool = ringKB<<10, !noSched, version()
			return doRecord(opt)
		},
	}
	f := c.Flags()
	f.SetInterspersed(false)
	addPIDs(f, &procs, "attach to these processes and their children")
	f.StringVarP(&opt.Output, "output", "o", opt.Output,
		"file to write, its owner's alone; an older recording of that name is replaced once something was recorded")
	f.BoolVar(&opt.Force, "force", false, "replace the file of that name also where it is no recording")
	f.BoolVar(&opt.KeepSecrets, "keep-secrets", false,
		"keep keys, tokens and passwords in the command lines that are recorded (else: ***)")
	f.StringVar(&level, "level", "op", "what to record: step, graph (and steps), op (and graphs)")
	f.DurationVar(&opt.Duration, "duration", 0, "end after this time (5s, 2m)")
	f.IntVar(&ringKB, "ring-size", 0,
		"KiB of each CPU's ring (default: 64 MiB over all CPUs, at most 8 MiB each)")
	f.StringVar(&maxSize, "max-size", "",
		"keep the latest part of the recording, in two files of this size in all (500M, 2G)")
	f.StringVar(&switchSize, "switch-output", "",
		"begin a new file at this size (500M, 2G); older ones become FILE.1, FILE.2 ...")
	f.IntVar(&opt.SwitchFiles, "switch-max-files", 0,
		"with --switch-output: keep only the latest N files (0: all)")
	f.IntVar(&opt.Steps, "steps", 0, "end after so many steps")
	f.StringVar(&budget, "overhead-budget", "",
		"sample operators (on/off windows) to keep the overhead below this (0.5%; none). Servers without --duration: 1%")
	f.Float64Var(&opt.MinTPS, "min-tps", 0,
		"pause recording operators while decode is slower than this, in tokens per second of one sequence")
	f.StringVarP(&opt.Events, "event", "e", "",
		"count these events per operator and thread, as perf names them (cycles,instructions,cache-misses,r003c)")
	f.StringVar(&question, "counters", "",
		"count a preset (metric group), in user mode: "+questions())
	f.StringSliceVar(&opt.Ops, "op", nil, "record these operators only (MUL_MAT,MUL_MAT_ID)")
	f.StringSliceVar(&opt.Phases, "phase", nil,
		"record operators of these phases only: prefill, decode, encode, unknown")
	f.IntSliceVar(&opt.TIDs, "tid", nil, "record operators of these threads only")
	f.BoolVar(&opt.TwoHits, "two-hits", false,
		"probe every operator's entry too, not only of new graphs")
	faultsFlag(c, &faults)
	f.BoolVar(&opt.Experts, "experts", opt.Experts,
		"record which experts each token chooses, where the model has some (--experts=false: not)")
	f.BoolVar(&noSched, "no-sched", false, "do not record scheduling")
	return c
}

func doRecord(opt record.Options) error {
	// The terminal sends an interrupt to the command as well; the recording ends cleanly.
	ctx, stop := untilSignal(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	res, err := runRecording(ctx, opt, term.IsTerminal(int(os.Stderr.Fd())) && len(opt.Command) == 0)
	switch {
	case err != nil:
		return err
	case !res.Recorded:
		return &statusError{130, errors.New("interrupted before anything was recorded")}
	case res.Interrupted || res.Status <= 0:
		return nil
	}
	return &statusError{res.Status, nil}
}

// runRecording records and summarises the result in one line.
func runRecording(ctx context.Context, opt record.Options, progress bool) (record.Result, error) {
	line := &progressLine{on: progress}
	opt.Progress = line.show
	opt.Warn = func(s string) { line.clear(); warn("%s", s) }
	// whatever reads the recording reports what is wrong with them
	if p, err := peaks.Load(); err == nil && p != nil {
		opt.Peaks, _ = p.Compact()
	}
	res, err := record.Run(ctx, newEngine(), opt)
	line.clear()
	if err != nil {
		if res.Status >= 0 {
			err = fmt.Errorf("%w\n  the command ended with status %d", err, res.Status)
		}
		return res, err
	}
	if !res.Recorded {
		return res, nil
	}
	lost := ""
	if res.Lost > 0 {
		lost = fmt.Sprintf(", %d events dropped", res.Lost)
	}
	if res.Missed > 0 {
		lost += fmt.Sprintf(", %d processes not wholly recorded", res.Missed)
	}
	say("profinfer: %s: %d steps in %.1f s, %.1f MB%s (%s)   next: profinfer stat -i %s",
		opt.Output, res.Steps, res.Elapsed.Seconds(), float64(res.Bytes)/1e6, lost, res.Reason, opt.Output)
	return res, nil
}

// progressLine updates a line on the terminal for recordings of over two seconds.
type progressLine struct {
	inPlace
	on   bool
	last time.Time
}

func (l *progressLine) show(p record.Progress) {
	if !l.on || p.Elapsed < 2*time.Second || time.Since(l.last) < 500*time.Millisecond {
		return
	}
	l.last = time.Now()
	lost := ""
	if p.Lost > 0 {
		lost = fmt.Sprintf("  %d dropped", p.Lost)
	}
	sayInPlace("recording %.0f s  %d steps  %.1f MB%s  (ctrl-C ends)", p.Elapsed.Seconds(), p.Steps,
		float64(p.Bytes)/1e6, lost)
	l.shown = true
}

// serverBudget is the default overhead budget for recording a server without a set end.
const serverBudget = 0.01

// serves reports whether a server is to be recorded until a user stops it.
func serves(opt *record.Options) bool {
	if opt.Level != engine.LevelOp || len(opt.Command) > 0 || opt.Duration > 0 || opt.Steps > 0 ||
		opt.TwoHits || len(opt.Ops)+len(opt.Phases)+len(opt.TIDs) > 0 {
		return false
	}
	return slices.ContainsFunc(opt.PIDs, func(pid int) bool {
		comm, err := target.Comm(pid)
		return err == nil && strings.Contains(comm, "server")
	})
}

// counting parses what is to be counted.
func counting(opt *record.Options, question string, noSched bool) (err error) {
	if question != "" {
		if opt.Question, err = pmu.ParseQuestion(question); err != nil {
			return usage("%v", err)
		}
	}
	if opt.Events != "" {
		if _, err := pmu.ParseEvents(opt.Events); err != nil {
			return usage("%v", err)
		}
		if opt.Question == pmu.Off {
			return usage("--counters off and -e contradict each other")
		}
	}
	if opt.Events == "" && (opt.Question == "" || opt.Question == pmu.Off) {
		return nil
	}
	if opt.Level != engine.LevelOp {
		return usage("counters are read at operators: --level op")
	}
	if noSched {
		return usage("counters need the scheduler's events, to tell threads apart: leave --no-sched out")
	}
	return nil
}

// percent parses "0.5%", or a plain number of percent; empty or "none" is 0.
func percent(s string) (float64, error) {
	if s == "" || s == "none" {
		return 0, nil
	}
	x, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !(x/100 > 0 && x <= 100) {
		return 0, fmt.Errorf("%q is not a percentage between 0 and 100, as 0.5%%", s)
	}
	return x / 100, nil
}

// least is the smallest sensible size of a file: definitions alone take a part of it.
const least = 1 << 20

// sizes parses the limits of the files' sizes.
func sizes(opt *record.Options, maxSize, switchSize string) error {
	if maxSize != "" && (switchSize != "" || opt.SwitchFiles != 0) {
		return usage("--max-size is two files of half the size; give it or --switch-output and --switch-max-files")
	}
	if switchSize == "" && opt.SwitchFiles != 0 || opt.SwitchFiles < 0 || opt.SwitchFiles == 1 {
		return usage("--switch-max-files is 2 or more files, with --switch-output SIZE")
	}
	text := maxSize + switchSize
	if text == "" {
		return nil
	}
	n, err := bytesOf(text)
	if err != nil {
		return usage("%v", err)
	}
	if maxSize != "" {
		n /= 2
		opt.SwitchFiles = 2
	}
	if n < least {
		return usage("%s is too small: a file needs %d MB", text, least>>20)
	}
	opt.SwitchSize = n
	return nil
}

// bytesOf parses a size: 500M, 2G, 4096K, with powers of 1024.
func bytesOf(s string) (int64, error) {
	number := strings.TrimRight(strings.ToUpper(s), "BI")
	shift := 0
	if n := len(number); n > 0 {
		if i := strings.IndexByte("KMGT", number[n-1]); i >= 0 {
			shift = 10 * (i + 1)
			number = number[:n-1]
		}
	}
	x, err := strconv.ParseFloat(number, 64)
	x *= float64(int64(1) << shift)
	if err != nil || !(x >= 1 && x <= 1<<60) { // larger than any file: not a valid size either
		return 0, fmt.Errorf("%q is no size, as 500M or 2G", s)
	}
	return int64(x), nil
}

// questions lists the questions of --counters.
func questions() string {
	var all []string
	for _, q := range pmu.Questions() {
		if q == pmu.Software {
			q += " (on every machine)"
		}
		all = append(all, string(q))
	}
	return strings.Join(all, ", ")
}
