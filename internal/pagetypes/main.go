// SPDX-License-Identifier: Apache-2.0

// Command pagetypes writes the types of the report page's data in TypeScript: of each section that
// [report.Sections] names, what encoding/json makes of its Go type. Documentation comes along, and constants
// of a string type become a union.
//
//	go run ./internal/pagetypes FILE    in the repository; go generate ./views/report does
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/profinfer/profinfer/views/report"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pagetypes FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pagetypes:", err)
		os.Exit(1)
	}
}

func run(file string) error {
	text, err := generate(report.IndexType(), report.Sections())
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, text) {
		return nil
	}
	return os.WriteFile(file, text, 0o644)
}
