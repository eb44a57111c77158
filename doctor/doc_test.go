// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// joints are where messages are put together.
var joints = regexp.MustCompile(`\.\.\.|: | is `)

// Every message of docs/troubleshooting.md is one that profinfer still has: its parts are found in
// the source.
func TestTroubleshooting(t *testing.T) {
	doc, err := os.ReadFile("../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources []string
	verbs := regexp.MustCompile(`%[#.0-9]*[a-zA-Z]|" \+ [^"]* \+ "|" \+\n\s*"`)
	inserted := regexp.MustCompile(`\$\{[^}]*\}`) // of the page's sources
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "node_modules":
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		switch filepath.Ext(path) {
		case ".go", ".ts", ".tsx":
			var b []byte
			if b, err = os.ReadFile(path); err == nil {
				sources = append(sources, inserted.ReplaceAllString(verbs.ReplaceAllString(string(b), "..."),
					"..."))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	n := 0
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.HasPrefix(strings.TrimSpace(cells[1]), "-") ||
			strings.HasPrefix(cells[1], " message") {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			n++
			for _, part := range joints.Split(" "+m[1], -1) {
				if part = strings.TrimSpace(part); !slices.ContainsFunc(sources, func(s string) bool {
					return strings.Contains(s, part)
				}) {
					t.Errorf("no source has %q of the message %q", part, m[1])
				}
			}
		}
	}
	if n < 60 {
		t.Errorf("%d messages were found in the page", n)
	}
}
