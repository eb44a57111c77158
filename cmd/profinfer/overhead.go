// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/profinfer/profinfer/overhead"
	"github.com/profinfer/profinfer/overhead/drive"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/views/terminal"
)

func overheadCommand() *cobra.Command {
	var opt drive.Options
	var procs pids
	var levels []string
	var input string
	var json bool
	c := &cobra.Command{
		Use:   "overhead [-p PID | -- COMMAND ...]",
		Short: "Measure the profiling overhead on your workload, at each level",
		Long: `Overhead measures the profiling overhead on your workload: recorders take turns on the running
engine, each for a span between two spans without it, and the elapsed time of the engine's steps is
compared. It prints the difference with its 95 % confidence interval, and says when it is not
statistically significant, or when the run was too short or too noisy.

The engine has to compute all the while: by default some three minutes. A command is ended when all
was measured; one that ends before is reported as far as it went. An interrupt (ctrl-C) ends it with
what was measured.

Exit status: 0 if the overhead of at least one level was found or is not statistically significant,
or after an interrupt; 1 if of none; 4 where something needed for recording is missing; 130 if
interrupted before anything was measured.`,
		Example: `  profinfer overhead -p $(pidof llama-server)
  profinfer overhead -- llama-bench -m model.gguf -p 0 -n 256 -r 100
  profinfer overhead --levels step,graph,op --rounds 20 --span 5s -p 1234
  profinfer record --overhead-budget 1% --duration 5m -p 1234 && profinfer overhead -i run.pinf
  profinfer overhead --json -p 1234 | jq '.states[] | {name, cost, low, high}'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			set := c.Flags().Changed("pid")
			switch {
			case input != "" && (len(args) > 0 || set):
				return usage("overhead takes a recording (-i), -p PID or a command, one of them")
			case input != "":
				return overheadOf(input, json)
			case len(args) > 0 && set:
				return usage("overhead takes either -p PID or a command, not both")
			case len(args) == 0 && !set:
				return usage("nothing to measure: give -- COMMAND or -p PID\n  profinfer overhead -p $(pidof llama-server)")
			case opt.Rounds < 1 || opt.Rounds > 10000:
				return usage("--rounds is a number from 1 to 10000; %d or more to tell anything",
					overhead.MinSpans)
			case opt.Span < 500*time.Millisecond || opt.Span > time.Hour:
				return usage("--span is a time from 500ms to 1h")
			}
			var err error
			if opt.PID, err = procs.one("overhead"); err != nil {
				return err
			}
			if err := procs.recordable(); err != nil {
				return err
			}
			if opt.States, err = drive.Levels(levels); err != nil {
				return usage("--levels: %v", err)
			}
			if len(opt.States) == 0 {
				return usage("--levels is a list of step, graph and op")
			}
			opt.Command = args
			return doOverhead(opt, json)
		},
	}
	f := c.Flags()
	f.SetInterspersed(false)
	f.StringVarP(&input, "input", "i", "",
		"compute the overhead of operators from a recording with --overhead-budget, instead of measuring")
	addPIDs(f, &procs, "measure this process and its children")
	f.StringSliceVar(&levels, "levels", []string{"graph", "op"}, "levels to measure: step, graph, op")
	f.IntVar(&opt.Rounds, "rounds", 10, "spans of each level")
	f.DurationVar(&opt.Span, "span", 3*time.Second, "length of a span; it has to hold 10 steps")
	f.BoolVar(&json, "json", false, "as JSON; the command's output goes to stderr then")
	return c
}

func doOverhead(opt drive.Options, json bool) error {
	if err := probe.Check(); err != nil {
		return err
	}
	var err error
	if opt.Program, err = os.Executable(); err != nil {
		return fmt.Errorf("finding profinfer's own file, which is run as the recorder: %w", err)
	}
	ctx, stop := notify(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	line := overheadLine{tty: term.IsTerminal(int(os.Stderr.Fd())), command: len(opt.Command) > 0}
	opt.Progress = line.show
	opt.Warn = func(s string) { line.clear(); warn("%s", s) }
	out := os.Stdout
	if json {
		os.Stdout = os.Stderr // the command's output must not be in the JSON
	}
	rep, err := drive.Run(ctx, opt)
	line.clear()
	var rec *drive.RecorderError
	switch {
	case errors.As(err, &rec):
		return &statusError{rec.Status, err}
	case errors.As(err, new(drive.Interrupted)):
		return &statusError{130, err}
	case err != nil:
		return err
	}
	err = showOverhead(out, rep, json)
	if err == nil && ctx.Err() == nil && !slices.ContainsFunc(rep.States, func(s overhead.State) bool {
		return s.Answers()
	}) {
		return &statusError{statusFailed, nil}
	}
	return err
}

// overheadOf reports the overhead of a recording that was made with a budget.
func overheadOf(path string, json bool) error {
	rep, err := drive.FromRecording(path)
	if err != nil {
		return err
	}
	if err := showOverhead(os.Stdout, rep, json); err != nil {
		return err
	}
	if !rep.States[0].Answers() {
		return &statusError{statusFailed, nil}
	}
	return nil
}

func showOverhead(out *os.File, rep *overhead.Report, json bool) error {
	w := results(out, json)
	show := func() error { return terminal.Overhead(w, rep, terminal.Detect(out)) }
	if json {
		show = func() error { return terminal.JSON(w, rep) }
	}
	if err := show(); err != nil {
		return err
	}
	return w.Flush()
}

// overheadLine shows the progress of a measurement. Beside a command's output it is not a line that stays in
// place. Without a terminal, it only says what is being waited for, if that takes long.
type overheadLine struct {
	inPlace
	tty, command bool
	what         string // last reported, or waited for
	since        time.Time
	said         bool
}

func (l *overheadLine) show(p drive.Progress) {
	text := fmt.Sprintf("round %d of %d, %v left", p.Round, p.Rounds, p.Left.Round(time.Second))
	if p.Waiting != "" {
		text = p.Waiting
	}
	switch {
	case l.tty && !l.command:
		if p.Waiting == "" && p.State != "" {
			text += ", recording " + p.State
		}
		sayInPlace("%s  (ctrl-C ends)", text)
		l.shown = true
		return
	case !l.tty && p.Waiting == "":
		return
	}
	what := fmt.Sprint(p.Waiting, p.Round)
	if what != l.what {
		l.what, l.since, l.said = what, time.Now(), false
	}
	if !l.said && (p.Waiting == "" || time.Since(l.since) > 3*time.Second) {
		l.said = true
		say("profinfer: %s", text)
	}
}
