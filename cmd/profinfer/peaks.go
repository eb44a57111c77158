// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/profinfer/profinfer/peaks"
	"github.com/profinfer/profinfer/views/terminal"
)

func peaksCommand() *cobra.Command {
	var opt peaks.Options
	var how peaksHow
	c := &cobra.Command{
		Use:   "peaks",
		Short: "Measure this machine's roofline: peak memory bandwidth and FLOP/s, by number of threads",
		Long: `Peaks measures this machine's roofline ceilings in some seconds: peak memory bandwidth, and peak
FLOP/s of float32 vectors, 8-bit dot products and what else its CPUs have, with 1, 2 ... threads.
The result is kept for this machine; other commands compare recordings with it: memory-bound or
compute-bound, and how far from the peak. A result does not replace one from a quieter machine, or
of more threads.

Every CPU that the process may use is taken for these seconds: measure while the machine does
nothing else. It needs no privileges.

Exit status: 0; 1 if it could not be measured, or with --show if it never was; 130 after an
interrupt.`,
		Example: `  profinfer peaks
  profinfer peaks --show
  profinfer peaks --json | jq '.points[] | {threads, read: .read_gb_s.best, f32: .f32_gflop_s.best}'
  taskset -c 0-3 profinfer peaks --no-save`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case how.show && (len(opt.Threads) > 0 || opt.Trial != 0 || opt.Trials != 0 || how.drop ||
				how.force):
				return usage("--show measures nothing: give it without --threads, --trial, --trials, --no-save and --force")
			case c.Flags().Changed("trial") && (opt.Trial < time.Millisecond || opt.Trial > time.Minute):
				return usage("--trial is a time from 1ms to 1m")
			case c.Flags().Changed("trials") && (opt.Trials < 3 || opt.Trials > 1000):
				return usage("--trials is a number from 3 to 1000")
			}
			for _, n := range opt.Threads {
				if n < 1 {
					return usage("--threads is a list of numbers from 1 on")
				}
			}
			opt.Tool = version()
			return doPeaks(opt, how)
		},
	}
	f := c.Flags()
	f.BoolVar(&how.show, "show", false, "show what was measured before")
	f.BoolVar(&how.json, "json", false, "as JSON")
	f.BoolVarP(&how.verbose, "verbose", "v", false, "with the rate of each loop that was tried")
	f.IntSliceVar(&opt.Threads, "threads", nil, "measure these numbers of threads (1,2,4)")
	f.DurationVar(&opt.Trial, "trial", 0, "length of a trial (default 60ms for reading, 20ms for computing)")
	f.IntVar(&opt.Trials, "trials", 0, "least number of trials of a figure (default 5)")
	f.BoolVar(&how.drop, "no-save", false, "do not keep the result")
	f.BoolVar(&how.force, "force", false,
		"keep the result in place of one from a quieter machine, or of more threads")
	return c
}

// peaksHow holds the options besides the figures.
type peaksHow struct{ json, show, drop, force, verbose bool }

func doPeaks(opt peaks.Options, how peaksHow) error {
	p, err := peaksOf(opt, how)
	if err != nil {
		return err
	}
	w := results(os.Stdout, how.json)
	if how.json {
		err = terminal.JSON(w, p)
	} else {
		o := terminal.Detect(os.Stdout)
		o.Verbose = how.verbose
		err = terminal.Peaks(w, p, time.Now(), o)
	}
	if err == nil {
		err = w.Flush()
	}
	return err
}

// peaksOf loads or measures the peaks.
func peaksOf(opt peaks.Options, how peaksHow) (*peaks.Peaks, error) {
	if how.show {
		p, err := peaks.Load()
		if err == nil && p == nil {
			err = errors.New("this machine's peaks were never measured\n  measure them: profinfer peaks")
		}
		return p, err
	}
	ctx, stop := notify(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	begin, shown := time.Now(), false
	if term.IsTerminal(int(os.Stderr.Fd())) {
		opt.Progress = func(share float64, what string) {
			if time.Since(begin) > 500*time.Millisecond {
				sayInPlace("measuring: %.0f %%  %s  (ctrl-C ends)", share*100, what)
				shown = true
			}
		}
	}
	p, err := peaks.Measure(ctx, opt)
	if shown {
		sayInPlace("")
	}
	if ctx.Err() != nil {
		return nil, &statusError{130, errors.New("interrupted before all was measured: nothing is kept")}
	}
	if err != nil || how.drop {
		return p, err
	}
	if old, err := peaks.Load(); err == nil && !how.force {
		if ok, why := p.Replaces(old); !ok {
			say("profinfer: not kept, as %s; the peaks of %s stay (--force replaces them)", why,
				old.Measured.Format("2006-01-02 15:04 MST"))
			return p, nil
		}
	}
	name, err := peaks.Save(p)
	if err != nil {
		// the figures are available anyway
		warn("%v", err)
		return p, nil
	}
	say("profinfer: kept in %s", name)
	return p, nil
}
