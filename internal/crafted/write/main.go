// SPDX-License-Identifier: Apache-2.0

// Write writes the crafted files into a folder: some gigabytes, mostly sparse.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/profinfer/profinfer/internal/crafted"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: write DIR")
		os.Exit(2)
	}
	for _, f := range crafted.Rows() {
		path := filepath.Join(os.Args[1], f.Name+".so")
		if err := f.Write(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Printf("%s: %s\n", path, f.What)
	}
}
