// SPDX-License-Identifier: Apache-2.0

// Command profinfer reports where an LLM inference engine spends its time.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/profinfer/profinfer/internal/clean"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/record"
	"github.com/profinfer/profinfer/target"
)

// Exit statuses that scripts rely on.
const (
	statusFailed  = 1
	statusUsage   = 2
	statusMissing = 4 // a privilege, kernel feature or engine function
)

// statusError carries an exit status; its message may be empty.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *statusError) Unwrap() error { return e.err }

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs the program with its arguments; help goes to out, errors go to errs. It returns the exit status.
func run(args []string, out, errs io.Writer) int {
	root := &cobra.Command{
		Use:           "profinfer",
		Short:         "An eBPF profiler for llama.cpp and other ggml-based LLM inference engines",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
		Args:          cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			return c.Help()
		},
	}
	root.SetOut(out)
	root.SetErr(errs)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	for _, verb := range verbs {
		root.AddCommand(verb())
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	typeArgErrors(root)
	args = separatePIDs(root, args)
	root.SetArgs(args)
	err := helpOfNone(root, args)
	if err == nil {
		err = root.Execute()
	}
	if err == nil {
		return 0
	}
	status := statusOf(err)
	if msg := err.Error(); msg != "" {
		fmt.Fprintln(errs, clean.Message("profinfer: "+msg))
	}
	return status
}

func statusOf(err error) int {
	var st *statusError
	if errors.As(err, &st) {
		return st.status
	}
	var missing *probe.Missing
	var none *record.NoEngine
	var refused *record.RefusedCounters
	if errors.As(err, &missing) || errors.As(err, &none) || errors.As(err, &refused) {
		return statusMissing
	}
	var many *probe.TooManyCounters
	if errors.As(err, &many) {
		return statusUsage
	}
	var launch *target.LaunchError
	if errors.As(err, &launch) {
		return launch.Status
	}
	return statusFailed
}

// typeArgErrors turns cobra's errors about a command's arguments, which are untyped, into usage errors.
func typeArgErrors(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return usage("%w", err)
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		typeArgErrors(sub)
	}
}

func usage(format string, args ...any) error {
	return &statusError{statusUsage, fmt.Errorf(format, args...)}
}

// version is the version of the module, or the commit that it was built from.
func version() string {
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := bi.Main.Version
	for _, s := range bi.Settings {
		if s.Key == "vcs.revision" && (v == "" || v == "(devel)") {
			v = "0.1.0-" + s.Value[:min(12, len(s.Value))]
		}
	}
	if v == "" || v == "(devel)" {
		v = "0.1.0"
	}
	return v
}
