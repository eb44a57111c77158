// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// textWidth returns the display width of s in columns; s must not contain control characters.
func textWidth(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// widths are independent of the locale's setting for characters of ambiguous width.
var widths = runewidth.Condition{StrictEmojiNeutral: true}

func runeWidth(r rune) int { return widths.RuneWidth(r) }

// cutEnd shortens a name at its end to width columns.
func cutEnd(s string, width int, mark string) string {
	if textWidth(s) <= width {
		return s
	}
	if keep := width - textWidth(mark); keep >= 1 {
		return strings.TrimRight(takeLeft(s, keep), " ") + mark
	}
	return takeLeft(s, width)
}

// cutPath shortens a path to width columns by omitting its first folders: the file's name is most
// informative.
func cutPath(s string, width int, mark string) string {
	if textWidth(s) <= width {
		return s
	}
	end := mark
	if mark == ".." {
		mark = "..." // ../ would be a folder
	}
	for i := 1; i < len(s); i++ {
		if s[i] == '/' && textWidth(mark)+textWidth(s[i:]) <= width {
			return mark + s[i:]
		}
	}
	return cutEnd(s[strings.LastIndexByte(s, '/')+1:], width, end)
}

// maxName is the maximum length of a name among others: longer than any thread's.
const maxName = 28

// name returns one name among others, safe to print.
func (p *page) name(s string) string {
	s = p.o.clean(s)
	if p.o.Width > 0 {
		s = cutEnd(s, maxName, p.o.ellipsis())
	}
	return s
}

// path returns a file's path, safe to print and no longer than a line.
func (p *page) path(s string) string {
	s = p.o.clean(s)
	if p.o.Width > 0 {
		s = cutPath(s, p.o.Width, p.o.ellipsis())
	}
	return s
}

func takeLeft(s string, width int) string {
	n := 0
	for i, r := range s {
		if n += runeWidth(r); n > width {
			return s[:i]
		}
	}
	return s
}

// wrap wraps text at spaces to lines of at most width columns; later lines are indented. A longer word
// continues on the next line.
func wrap(text string, width, indent int) []string {
	if width <= 0 {
		return []string{text}
	}
	var lines []string
	line, n := "", 0
	for _, word := range words(text) {
		w := textWidth(word)
		if n > 0 && n+1+w > width {
			lines = append(lines, line)
			line, n = strings.Repeat(" ", indent), indent
		} else if n > 0 {
			line, n = line+" ", n+1
		}
		for n+w > width && width > indent {
			part := takeLeft(word, width-n)
			if part == "" {
				break
			}
			lines = append(lines, line+part)
			word = word[len(part):]
			line, n, w = strings.Repeat(" ", indent), indent, textWidth(word)
		}
		line, n = line+word, n+w
	}
	return append(lines, line)
}

// words splits text at its spaces, but keeps a number with its unit.
func words(text string) []string {
	var out []string
	for w := range strings.SplitSeq(text, " ") {
		switch strings.TrimRight(w, ".,;:)") {
		case "%", "s", "ms", "us", "µs", "ns", "GB/s":
			if len(out) > 0 {
				out[len(out)-1] += " " + w
				continue
			}
		}
		out = append(out, w)
	}
	return out
}
