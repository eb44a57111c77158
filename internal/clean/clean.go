// SPDX-License-Identifier: Apache-2.0

// Package clean makes text that comes from files and processes safe to show: nobody vouches for a name. What
// is shown how differs by where it stands, so there is a function for each place. web/src/lib/format.ts does
// it for what the page draws.
package clean

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Terminal makes text from a file or a process safe to print: control characters, escapes,
// invalid UTF-8 and characters that reorder or hide others are written out (\x1b, \u202e). In
// ASCII mode every other character beyond ASCII is written out too.
func Terminal(s string, ascii bool) string { return escape(s, ascii, false) }

// Message makes a text of several lines safe that names were put into: an error, a warning. Newlines stay,
// and backslashes, as what is in quotes (%q) is escaped already.
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

// Writer lets text through to w as [Message] does, for data in a format of its own (CSV, JSON) that goes to a
// terminal after all.
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

// Short is Terminal's text, cut to at most most bytes: for files that other programs show.
func Short(s string, most int) string {
	s = Terminal(s, false)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// Hidden tells that a character is not shown as it is in a table's file: control characters of both sets,
// line separators, and format characters that change the direction of text or are invisible.
func Hidden(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

// Title shows characters that nobody sees, or that turn the direction of text around, as what they are: as
// the page does with every name.
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

// Perfetto returns valid UTF-8 without control characters, which become U+FFFD: a parser drops a packet whose
// strings it cannot read.
func Perfetto(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}
