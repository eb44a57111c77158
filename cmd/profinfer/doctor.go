// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/profinfer/profinfer/doctor"
	"github.com/profinfer/profinfer/record"
	doctorview "github.com/profinfer/profinfer/views/doctor"
	"github.com/profinfer/profinfer/views/terminal"
)

func doctorCommand() *cobra.Command {
	var opt doctor.Options
	var procs pids
	var json, log bool
	c := &cobra.Command{
		Use:   "doctor [-p PID | FILE...]",
		Short: "Check whether profinfer can record here, and what it finds in an engine",
		Long: `Doctor checks whether profinfer can record on this machine, and what is degraded. With a process or
ELF files it shows the engine that it finds, its probe sites with their cost, and how each layout
was found. Give all libraries of an engine together, or the one program that has it linked in.

Exit status: 0 where it can record, 4 where something needed is missing.`,
		Example: `  profinfer doctor
  profinfer doctor -p $(pidof llama-server)
  profinfer doctor libggml-base.so libggml-cpu-haswell.so libllama.so`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 && len(procs) > 0 {
				return usage("doctor takes either -p PID or files, not both")
			}
			var err error
			if opt.PID, err = procs.one("doctor"); err != nil {
				return err
			}
			opt.Files, opt.Version = args, version()
			return doDoctor(opt, json, log)
		},
	}
	f := c.Flags()
	addPIDs(f, &procs, "look at this process")
	f.BoolVar(&json, "json", false, "as JSON")
	f.BoolVar(&log, "verifier-log", false, "with the kernel verifier's log of refused programs")
	return c
}

func doDoctor(opt doctor.Options, json, log bool) error {
	defer record.LimitMemory()()
	opt.Engine = newEngine()
	r, err := doctor.Run(opt)
	if err != nil {
		return err
	}
	if !log {
		r.VerifierLog = ""
	}
	w := results(os.Stdout, json)
	if json {
		err = terminal.JSON(w, r)
	} else {
		o := terminal.Detect(os.Stdout)
		o.Verbose = log
		err = doctorview.Text(w, r, o)
	}
	if err == nil {
		err = w.Flush()
	}
	if err == nil && !r.Verdict.OK {
		return &statusError{statusMissing, nil}
	}
	return err
}
