// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A sample in a document: a comment with the command, then what it prints, as code. Lines behind those asked
// for are left out.
//
//	<!-- run: stat --slow llama-1b.pinf -->
//	<!-- run, 8 lines: stat --json llama-1b.pinf -->
var documentRun = regexp.MustCompile("(?s)<!-- run(?:, (\\d+) lines)?: ([^\n]*?) -->\n```\n(.*?)```\n")

// Documents show what the program prints of the recording in docs/sample, 100 columns wide; with -update they
// are written anew.
func TestDocumentedOutput(t *testing.T) {
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range documents {
		if documents[i], err = filepath.Abs(name); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("COLUMNS", "100")
	t.Setenv("NO_COLOR", "1")
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // without the peaks of this machine
	t.Chdir(sampleDir)
	n := 0
	for _, name := range documents {
		old, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		now := documentRun.ReplaceAllStringFunc(string(old), func(block string) string {
			n++
			m := documentRun.FindStringSubmatch(block)
			status, out, errs := runs(t, strings.Fields(m[2])...)
			if status != 0 {
				t.Errorf("%s: profinfer %s: status %d: %s", name, m[2], status, errs)
			}
			out = strings.TrimRight(out, "\n") + "\n"
			if lines, err := strconv.Atoi(m[1]); err == nil {
				if all := strings.SplitAfter(out, "\n"); len(all) > lines+1 {
					out = strings.Join(all[:lines], "") + "...\n"
				}
			}
			head := strings.TrimSuffix(block[:strings.Index(block, "```")], "\n")
			return fmt.Sprintf("%s\n```\n$ profinfer %s\n%s```\n", head, m[2], out)
		})
		switch {
		case now == string(old):
		case !*update:
			t.Errorf("%s does not have what its commands print today: go test ./cmd/profinfer -run TestDocumentedOutput -update", name)
		default:
			if err := os.WriteFile(name, []byte(now), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n < 5 {
		t.Errorf("%d samples were found", n)
	}
}
