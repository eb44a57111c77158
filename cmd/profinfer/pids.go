// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/profinfer/profinfer/internal/clean"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/target"
)

// pids is the value of -p: processes in the given order, without duplicates.
type pids []int

const noProcess = ": if it was to come from $(pidof NAME), none of that name is running"

func (p *pids) String() string {
	var words []string
	for _, n := range *p {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ",")
}

func (p *pids) Type() string { return "PID..." }

// Set accepts numbers separated by commas or spaces: -p 12,34 as well as -p "$(pidof llama-server)".
func (p *pids) Set(s string) error {
	words := pidWords(s)
	if len(words) == 0 {
		return fmt.Errorf("-p is given no process%s", noProcess)
	}
	if s[0] == '-' && strings.Trim(s[1:], "0123456789") != "" {
		return fmt.Errorf("-p is given no process, but %s%s", s, noProcess)
	}
	for _, w := range words {
		n, err := strconv.ParseInt(w, 10, 32)
		switch {
		case err != nil && strings.Trim(w, "-+.0123456789") != "":
			return fmt.Errorf("-p takes the number of a process, not %q; of a name: -p $(pidof %s)", w, w)
		case err != nil || n <= 0:
			return fmt.Errorf("-p takes the number of a process, not %q", w)
		case !slices.Contains(*p, int(n)):
			*p = append(*p, int(n))
		}
	}
	return nil
}

func pidWords(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(", \t\n", r) })
}

func addPIDs(f *pflag.FlagSet, p *pids, what string) {
	f.VarP(p, "pid", "p", what)
}

// one returns the process for a command that accepts only one; 0: none was given.
func (p pids) one(command string) (int, error) {
	switch len(p) {
	case 0:
		return 0, nil
	case 1:
		return p[0], nil
	}
	return 0, usage("%s takes one process, not %d: -p %d\n  which is which: ps -p %s", command, len(p), p[0],
		p.String())
}

// recordable rejects processes that cannot sensibly be recorded. Process 1 of the machine is an ancestor of
// every other one: threads of sshd, of PAM, of everything that loads a library would be stopped and
// inspected. (In a PID namespace of its own profinfer cannot record, and says so.) Recording profinfer itself
// would record the recording. Its parents are permitted: a server may start profinfer to have itself
// recorded.
func (p pids) recordable() error {
	for _, pid := range p {
		switch {
		case pid == os.Getpid():
			return usage("-p %d is profinfer itself: give the engine's process, as -p $(pidof llama-server)",
				pid)
		case pid == 1 && probe.CheckNamespace() == nil:
			comm, _ := target.Comm(pid)
			return usage(`-p 1 is the first process of this machine (%s): all others are its children, and would be recorded with it
  an engine: -p $(pidof llama-server)
  the first process of a container, by its number out here: -p $(docker inspect -f '{{.State.Pid}}' NAME)`, clean.Terminal(comm, false))
		}
	}
	return nil
}

func isPID(f *pflag.Flag) bool {
	if f == nil {
		return false
	}
	_, ok := f.Value.(*pids)
	return ok
}

// separatePIDs lets -p take several numbers, as $(pidof NAME) prints them: each after the first gets its own
// -p. What follows -- or a command's name is left alone.
func separatePIDs(root *cobra.Command, args []string) []string {
	if len(args) == 0 {
		return args
	}
	at := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == args[0] })
	if at < 0 {
		return args
	}
	flags := root.Commands()[at].Flags()
	out := args[:1:1]
	for i := 1; i < len(args); i++ {
		f, value := flagOf(flags, args[i])
		if f == nil && (args[i] == "--" || args[i] == "-" || !strings.HasPrefix(args[i], "-")) {
			return append(out, args[i:]...)
		}
		out = append(out, args[i])
		if f == nil || !value && i+1 == len(args) {
			continue // the parser rejects unknown flags
		}
		if !value {
			i++
			out = append(out, args[i])
		}
		for isPID(f) && i+1 < len(args) && numbers(args[i+1]) {
			i++
			out = append(out, "-p", args[i])
		}
	}
	return out
}

// numbers reports whether a word contains nothing but numbers.
func numbers(s string) bool {
	return len(pidWords(s)) > 0 && strings.Trim(s, "0123456789, \t\n") == ""
}

// flagOf finds the flag that takes the value of a word. value reports whether the word contains the value or
// the flag needs none. A boolean does not end a cluster: in -vp 12, -p takes the value.
func flagOf(flags *pflag.FlagSet, word string) (f *pflag.Flag, value bool) {
	if name, ok := strings.CutPrefix(word, "--"); ok {
		name, _, value = strings.Cut(name, "=")
		if name != "" {
			f = flags.Lookup(name)
		}
		return f, value || f != nil && f.NoOptDefVal != ""
	}
	cluster, ok := strings.CutPrefix(word, "-")
	for i := 0; ok && i < len(cluster); i++ {
		if f = flags.ShorthandLookup(cluster[i : i+1]); f == nil || f.NoOptDefVal == "" {
			return f, i+1 < len(cluster)
		}
	}
	return f, true
}
