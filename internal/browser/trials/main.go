// SPDX-License-Identifier: Apache-2.0

// Command trials writes the recordings that every view has to stand into a folder, to look at them:
//
//	go run ./internal/browser/trials DIR [NAME...]
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/profinfer/profinfer/profile/profiletest"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: trials DIR [NAME...]")
		os.Exit(2)
	}
	for _, t := range profiletest.Trials() {
		if len(os.Args) > 2 && !slices.Contains(os.Args[2:], t.Name) {
			continue
		}
		if err := write(filepath.Join(os.Args[1], t.Name+".pinf"), t); err != nil {
			fmt.Fprintln(os.Stderr, "trials:", err)
			os.Exit(1)
		}
		fmt.Printf("%-16s %s\n", t.Name, t.What)
	}
}

func write(path string, t profiletest.Trial) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := t.Write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
