// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/profinfer/profinfer/internal/clean"
)

const defaultTrace = "run.pinf"

// named returns the recordings given to a command: those of -i, then the arguments.
func named(c *cobra.Command, flag, args []string) []string {
	if !c.Flags().Changed("input") {
		flag = nil
	}
	return slices.Concat(flag, args)
}

// inputs returns the recordings that a command reads: those given, or run.pinf.
func inputs(c *cobra.Command, flag, args []string) ([]string, error) {
	in := named(c, flag, args)
	if slices.Contains(in, "") {
		return nil, usage("a recording without a name: is a variable empty?")
	}
	if len(in) > 0 {
		return in, nil
	}
	if _, err := os.Stat(defaultTrace); err != nil && os.IsNotExist(err) {
		return nil, fmt.Errorf("there is no %s here: %s", defaultTrace, otherwise(c.CommandPath()))
	}
	return []string{defaultTrace}, nil
}

// maxListed is how many recordings are suggested if none was named.
const maxListed = 6

// otherwise names what can be read instead of run.pinf.
func otherwise(command string) string {
	files, _ := filepath.Glob("*.pinf")
	type found struct {
		name string
		info fs.FileInfo
	}
	var here []found
	for _, name := range files {
		if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() {
			here = append(here, found{name, st})
		}
	}
	if len(here) == 0 {
		return "nor another recording; make one: profinfer record -- COMMAND"
	}
	slices.SortStableFunc(here, func(a, b found) int {
		return cmp.Compare(b.info.ModTime().UnixNano(), a.info.ModTime().UnixNano())
	})
	var names []string
	for _, f := range here[:min(len(here), maxListed)] {
		names = append(names, clean.Terminal(f.name, false))
	}
	list := strings.Join(names, ", ")
	if n := len(here) - len(names); n > 0 {
		list += fmt.Sprintf(", +%d more", n)
	}
	return fmt.Sprintf("%s, the latest first\n  %s %s", list, command, names[0])
}
