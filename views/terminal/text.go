// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes text from a file or a process safe to print: control characters, escapes,
// invalid UTF-8 and characters that reorder or hide others are written out (\x1b, \u202e). In
// ASCII mode every other character beyond ASCII is written out too.
func Clean(s string, ascii bool) string { return escape(s, ascii, false) }

// Message makes a text of several lines safe that names were put into: an error, a warning. Newlines stay, and backslashes, as what is
// in quotes (%q) is escaped already.
func Message(s string) string { return escape(s, false, true) }

func escape(s string, ascii, lines bool) string {
	plain := func(c byte) bool { return c >= 0x20 && c < 0x7f && (c != '\\' || lines) || c == '\n' && lines }
	safe := true
	for i := range len(s) {
		if !plain(s[i]) {
			safe = false
			break
		}
	}
	if safe {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case n == 1 && plain(s[i]):
			b.WriteByte(s[i])
		case r == '\\':
			b.WriteString(`\\`) // or a name could pretend to be escaped
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case ascii || !unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Variation_Selector, r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

// Writer lets text through to w as [Message] does, for data in a format of its own (CSV, JSON) that goes to a terminal after all.
func Writer(w io.Writer) io.Writer { return &writer{w: w} }

type writer struct {
	w    io.Writer
	part []byte // of a character whose rest was not written yet
}

func (e *writer) Write(b []byte) (int, error) {
	all := append(e.part, b...)
	end := len(all)
	for n := 1; n < utf8.UTFMax && n <= end; n++ {
		if c := all[end-n]; utf8.RuneStart(c) {
			if !utf8.FullRune(all[end-n:]) {
				end -= n
			}
			break
		}
	}
	_, err := io.WriteString(e.w, Message(string(all[:end])))
	e.part = append(e.part[:0:0], all[end:]...)
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// wide are characters that take two columns (Unicode East Asian Width W and F, in coarse
// ranges: a table's alignment depends on it, nothing else).
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{{0x1100, 0x115f, 1}, {0x2e80, 0x303e, 1}, {0x3041, 0xa4cf, 1}, {0xac00, 0xd7a3, 1},
		{0xf900, 0xfaff, 1}, {0xfe30, 0xfe6f, 1}, {0xff01, 0xff60, 1}, {0xffe0, 0xffe6, 1}},
	R32: []unicode.Range32{{0x1f300, 0x1f64f, 1}, {0x1f900, 0x1f9ff, 1}, {0x20000, 0x3fffd, 1}},
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// textWidth returns the columns that s takes; s holds no control characters.
func textWidth(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// cutEnd shortens a name to width columns at its end.
func cutEnd(s string, width int, mark string) string {
	if textWidth(s) <= width {
		return s
	}
	if keep := width - textWidth(mark); keep >= 1 {
		return strings.TrimRight(takeLeft(s, keep), " ") + mark
	}
	return takeLeft(s, width)
}

// cutPath shortens a path to width columns by leaving out its first folders: the file's name tells most.
func cutPath(s string, width int, mark string) string {
	if textWidth(s) <= width {
		return s
	}
	end := mark
	if mark == ".." {
		mark = "..." // ../ is a folder
	}
	for i := 1; i < len(s); i++ {
		if s[i] == '/' && textWidth(mark)+textWidth(s[i:]) <= width {
			return mark + s[i:]
		}
	}
	return cutEnd(s[strings.LastIndexByte(s, '/')+1:], width, end)
}

// maxName is how much of a name stands among others: more than a thread's has.
const maxName = 28

// name is one among others, safe to print.
func (p *page) name(s string) string {
	s = p.o.clean(s)
	if p.o.Width > 0 {
		s = cutEnd(s, maxName, p.o.ellipsis())
	}
	return s
}

// path is a file's, safe to print and no longer than a line.
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

// wrap breaks text at spaces into lines of at most width columns; later lines are indented. A word that is longer goes
// on in the next line.
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

// words splits text at its spaces, but leaves a number with its unit.
func words(text string) []string {
	var out []string
	for _, w := range strings.Split(text, " ") {
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
