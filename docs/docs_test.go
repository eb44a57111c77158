// SPDX-License-Identifier: Apache-2.0

// Package docs has no code: these tests read the documents.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documents returns the repository's Markdown files by name, from its root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"../*.md", "*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			out[name] = string(b)
		}
	}
	if len(out) < 10 {
		t.Fatalf("%d documents were found", len(out))
	}
	return out
}

// outsideOfCode calls f with each line that stands in no block of code, and its number from 1.
func outsideOfCode(text string, f func(n int, line string)) {
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if !fenced && !strings.HasPrefix(line, "    ") {
			f(i+1, line)
		}
	}
}

// leftovers tells what a merge that went wrong leaves: its markers, lines of which the first 60 bytes are
// the same, a heading that is glued to what stands before it.
func leftovers(text string) []string {
	var out []string
	seen := map[string]int{}
	before := ""
	outsideOfCode(text, func(n int, line string) {
		for _, mark := range []string{"<<<<<<< ", "=======", ">>>>>>> "} {
			if strings.HasPrefix(line, mark) {
				out = append(out, fmt.Sprintf("line %d: a merge's marker", n))
			}
		}
		if len(line) >= 60 {
			if first, ok := seen[line[:60]]; ok {
				out = append(out, fmt.Sprintf("line %d begins as line %d does: %q", n, first, line[:60]))
			} else {
				seen[line[:60]] = n
			}
		}
		if strings.HasPrefix(line, "#") && strings.TrimSpace(before) != "" {
			out = append(out, fmt.Sprintf("line %d: the heading %q follows a text without an empty line", n,
				line))
		}
		before = line
	})
	return out
}

func TestNoLeftovers(t *testing.T) {
	for name, text := range documents(t) {
		for _, bad := range leftovers(text) {
			t.Errorf("%s, %s", name, bad)
		}
	}
}

func TestLeftoversAreSeen(t *testing.T) {
	long := strings.Repeat("one thing after the other ", 3)
	for _, c := range []struct {
		text string
		want int
	}{
		{"# A\n\n" + long + "a\n\n" + long + "b\n", 1},
		{"# A\n\ntext\n## B\n", 1},
		{"<<<<<<< HEAD\na\n=======\nb\n>>>>>>> other\n", 3},
		{"# A\n\n    " + long + "\n    " + long + "\n\n```\n" + long + "\n" + long + "\n```\n", 0},
	} {
		if got := leftovers(c.text); len(got) != c.want {
			t.Errorf("%q: %q, want %d", c.text, got, c.want)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Links within the repository lead to files, and to headings that are there.
func TestLinks(t *testing.T) {
	docs := documents(t)
	for name, text := range docs {
		outsideOfCode(text, func(n int, line string) {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if strings.Contains(m[1], "://") {
					continue
				}
				file, anchor, _ := strings.Cut(m[1], "#")
				to := name
				if file != "" {
					to = filepath.Join(filepath.Dir(name), file)
					if _, err := os.Stat(to); err != nil {
						t.Errorf("%s:%d: %s is not there", name, n, m[1])
						continue
					}
				}
				if anchor != "" && filepath.Ext(to) == ".md" && !anchors(docs[strings.TrimPrefix(to, "../docs/")])[anchor] {
					t.Errorf("%s:%d: %s has no heading %q", name, n, to, anchor)
				}
			}
		})
	}
}

// anchors are the names that a forge gives headings: lower case, spaces as hyphens, punctuation left out.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	outsideOfCode(text, func(_ int, line string) {
		title := strings.TrimLeft(line, "#")
		if title == line {
			return
		}
		title = strings.ToLower(strings.TrimSpace(title))
		title = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(title, "")
		out[strings.ReplaceAll(title, " ", "-")] = true
	})
	return out
}

// Pictures that nothing shows are not kept.
func TestPictures(t *testing.T) {
	var all strings.Builder
	for _, text := range documents(t) {
		all.WriteString(text)
	}
	pictures, err := filepath.Glob("img/*")
	if err != nil || len(pictures) == 0 {
		t.Fatalf("%v: no pictures", err)
	}
	for _, p := range pictures {
		if !strings.Contains(all.String(), p) {
			t.Errorf("%s is in no document", p)
		}
	}
}

// The gallery follows the order of the paper's figures.
func TestGalleryInOrder(t *testing.T) {
	last := 0
	for _, m := range regexp.MustCompile(`(?m)^## (\d+)\.`).FindAllStringSubmatch(documents(t)["gallery.md"],
		-1) {
		var n int
		if _, err := fmt.Sscan(m[1], &n); err != nil {
			t.Fatal(err)
		}
		if n <= last {
			t.Errorf("section %d stands after section %d", n, last)
		}
		last = n
	}
	if last == 0 {
		t.Error("no sections")
	}
}

// Tests that SECURITY.md names are there.
func TestNamedTests(t *testing.T) {
	text, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			b, e := os.ReadFile(path)
			all.Write(b)
			err = e
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(all.String(), "func "+m[1]+"(") {
			t.Errorf("SECURITY.md names %s, which is no test", m[1])
		}
	}
}
