// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// unknownCommand suggests what a first word that is not a command may have meant.
func unknownCommand(root *cobra.Command, word string) error {
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if near := nearest(word, names); near != "" {
		return usage("unknown command %q; did you mean %s?\n  see profinfer --help", word, near)
	}
	if strings.HasPrefix(word, "-") {
		return usage("unknown command %q\n  see profinfer --help", word)
	}
	if st, err := os.Stat(word); err == nil && st.Mode().IsRegular() {
		if st.Mode()&0o111 != 0 && !strings.Contains(word, ".pinf") {
			return usage("%q is a program, no command of profinfer; to record it: profinfer record -- %s",
				word, asProgram(word))
		}
		return usage("%q is a file, no command; to see what is in a recording: profinfer stat %s", word, word)
	}
	if _, err := exec.LookPath(word); err == nil {
		return usage("%q is a program, no command of profinfer; to record it: profinfer record -- %s", word,
			word)
	}
	return usage("unknown command %q\n  see profinfer --help", word)
}

// asProgram returns a file's name as a shell would run it.
func asProgram(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return "./" + name
}

// nearest returns, quoted, the names that a word may have been meant for; empty: none is similar.
func nearest(word string, names []string) string {
	if len(word) < 2 {
		return ""
	}
	// cobra compares words, but only with names of commands
	c := &cobra.Command{SuggestionsMinimumDistance: 2}
	if len(word) < 4 {
		c.SuggestionsMinimumDistance = 1
	}
	for _, n := range names {
		c.AddCommand(&cobra.Command{Use: n, Run: func(*cobra.Command, []string) {}})
	}
	var near []string
	for _, n := range c.SuggestionsFor(word) {
		near = append(near, fmt.Sprintf("%q", n))
	}
	slices.Sort(near)
	return strings.Join(near, " or ")
}

// helpCommand is help NAME; cobra's own succeeds for a name that does not exist.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		Args:  cobra.MaximumNArgs(1),
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string,
			cobra.ShellCompDirective) {
			var names []string
			for _, v := range c.Root().Commands() {
				if len(args) == 0 && v.IsAvailableCommand() {
					names = append(names, v.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Root().Help()
			}
			of, _, err := c.Root().Find(args)
			if err != nil || of == c.Root() {
				return unknownCommand(c.Root(), args[0])
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// helpOfNone rejects NAME --help if there is no such command: cobra would show the program's help.
func helpOfNone(root *cobra.Command, args []string) error {
	at := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	if at < 0 || slices.Contains(args[:at], "--") {
		return nil
	}
	word := args[at]
	if word == cobra.ShellCompRequestCmd || word == cobra.ShellCompNoDescRequestCmd ||
		slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool {
			return c.Name() == word
		}) {
		return nil
	}
	return unknownCommand(root, word)
}

// flagError suggests what an unknown flag may have meant, and how processes are named.
func flagError(c *cobra.Command, err error) error {
	var none *pflag.NotExistError
	var lacks *pflag.ValueRequiredError
	var wrong *pflag.InvalidValueError
	switch {
	case errors.As(err, &none) && none.GetSpecifiedShortnames() == "":
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, "--"+f.Name)
			}
		})
		if near := nearest("--"+none.GetSpecifiedName(), names); near != "" {
			err = fmt.Errorf("%w; did you mean %s?", err, strings.ReplaceAll(near, `"`, ""))
		}
	case errors.As(err, &lacks) && isPID(lacks.GetFlag()):
		err = fmt.Errorf("-p is given no process%s", noProcess)
	case errors.As(err, &wrong) && isPID(wrong.GetFlag()):
		err = wrong.Unwrap() // a complete sentence
	}
	return &statusError{statusUsage, fmt.Errorf("%w\n  see %s --help", err, c.CommandPath())}
}
