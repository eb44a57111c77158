// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
	"github.com/profinfer/profinfer/views/terminal"
)

func statCommand() *cobra.Command {
	var in []string
	var by, phase string
	var json, verbose, full bool
	var flags roofFlags
	var slow bool
	opt := stat.Options{}
	c := &cobra.Command{
		Use:   "stat [FILE...]",
		Short: "Say where a recording's time went: phases, operators, threads",
		Example: `  profinfer stat
  profinfer stat --by layer --phase decode
  profinfer stat --by op --json | jq '.phases'
  profinfer stat server.pinf
  profinfer stat t1.pinf t4.pinf
  profinfer stat --slow --top 20`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if opt.By, err = facts.ParseBy(by); err != nil {
				return &statusError{statusUsage, err}
			}
			if phase != "" {
				ph, err := profile.ParsePhase(phase)
				if err != nil {
					return &statusError{statusUsage, err}
				}
				opt.Phases = []profile.Phase{ph}
			}
			if opt.Top < 0 {
				return usage("--top is a number of rows, 0 for all")
			}
			several := len(named(c, in, args)) > 1
			switch {
			case slow && flags.set():
				return usage("--slow compares steps with one another, not with the machine: it does not go with --peak-bandwidth, --peak-flops and --no-peaks")
			case several && flags.set():
				return usage("several recordings are compared with one another, not with the machine: that does not go with --peak-bandwidth, --peak-flops and --no-peaks")
			}
			if slow {
				if c.Flags().Changed("by") {
					return usage("--slow lists steps; it does not go with --by")
				}
				if several {
					return usage("--slow is of one recording")
				}
			}
			if in, err = inputs(c, in, args); err != nil {
				return err
			}
			if slow {
				return doSlow(in[0], opt, json, verbose)
			}
			if len(in) > 1 {
				return doCompare(in, opt, json)
			}
			top, err := flags.roof()
			if err != nil {
				return err
			}
			o := terminal.Detect(os.Stdout)
			o.File, o.Verbose, o.Full = in[0], verbose, full
			o.Rows = c.Flags().Changed("by") || opt.Top > 0
			return doStat(in[0], opt, top, json, o)
		},
	}
	f := c.Flags()
	f.StringArrayVarP(&in, "input", "i", []string{defaultTrace},
		"recording to read, as FILE is; several: compare them, phase by phase")
	f.StringVar(&by, "by", "weight",
		"rows: op, weight, layer, block, thread or step; expert: which experts tokens chose")
	f.StringVar(&phase, "phase", "", "only this phase: prefill, decode, encode or unknown")
	f.Int32Var(&opt.PID, "pid", 0, "only this process of the recording")
	f.IntVar(&opt.Top, "top", 0, "at most this many rows, the others summed up (0: all)")
	f.BoolVar(&full, "full", false, "all statistics of all phases, requests and threads, not one screen of them")
	f.BoolVar(&json, "json", false, "as JSON, every figure of the table and more")
	f.BoolVarP(&verbose, "verbose", "v", false, "every warning and thread")
	f.BoolVar(&slow, "slow", false,
		"latency outliers against their local baseline, with causes, and CPU contention by process (10 of each, or --top N)")
	flags.add(c)
	return c
}

func doStat(in string, opt stat.Options, top *machineRoof, json bool, o terminal.Options) error {
	r, err := trace.Open(in)
	if err != nil {
		return err
	}
	defer r.Close()
	opt.Peaks = top.peaks
	opt.Pool = &profile.OpPool{}
	b := stat.New(opt)
	read := showProgress(r)
	h, err := profile.ReplayReusing(r, b, opt.Pool)
	read()
	if err != nil {
		return err
	}
	s := b.Finish(h)
	w := results(os.Stdout, json)
	if json {
		err = terminal.JSON(w, s)
	} else {
		err = terminal.Stat(w, s, o)
	}
	if err != nil {
		return err
	}
	return w.Flush()
}
