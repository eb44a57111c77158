// SPDX-License-Identifier: Apache-2.0

// Package clean makes text that comes from files and processes safe to show: such names are untrusted. How
// they are escaped depends on where they appear, so there is one function per place. web/src/lib/format.ts
// does the same for what the page draws.
package clean

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Terminal makes text from a file or a process safe to print: control characters, escapes, invalid UTF-8 and
// characters that reorder or hide others are escaped (\x1b, \u202e). In ASCII mode all non-ASCII characters
// are escaped too.
func Terminal(s string, ascii bool) string { return escape(s, ascii, false) }

// Message makes a text of several lines safe that contains names: an error, a warning. Newlines and
// backslashes stay, because what is in quotes (%q) is escaped already.
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
			b.WriteString(`\\`) // otherwise a name could pretend to be escaped
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case ascii || !unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r) ||
			unicode.Is(unicode.Variation_Selector, r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

// Writer passes text to w like [Message] does, for data in its own format (CSV, JSON) that goes to a
// terminal.
func Writer(w io.Writer) io.Writer { return &writer{w: w} }

type writer struct {
	w    io.Writer
	part []byte // of a character whose remainder has not been written yet
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

// Short is Terminal's text, truncated to most bytes: for files that other programs show.
func Short(s string, most int) string {
	s = Terminal(s, false)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// Hidden reports whether a character is escaped in a table's file: control characters of both sets, line
// separators, and format characters that change the direction of text or are invisible.
func Hidden(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

// Title makes characters visible that are invisible, or that reverse the direction of text, like the page
// does with every name.
func Title(s string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\ufffd") {
		if r == ' ' || unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Perfetto returns valid UTF-8 in which control characters are replaced by U+FFFD: a parser drops a packet
// whose strings it cannot read.
func Perfetto(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}
