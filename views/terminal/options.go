// SPDX-License-Identifier: Apache-2.0

// Package terminal draws package profile's findings for a terminal.
package terminal

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/profinfer/profinfer/internal/clean"
)

// Options describe what the terminal can display. The zero value is plain ASCII of unlimited width.
type Options struct {
	File    string // the recording's name, for the first line
	Width   int    // columns; 0: no limit
	Color   bool
	Unicode bool
	// Verbose shows what is otherwise only counted: every warning, every thread.
	Verbose bool
	// Full shows all statistics, not one screen of them. Rows shows every row of operators.
	Full, Rows bool
}

// Detect determines what f can display. Colour needs a terminal and no NO_COLOR (https://no-color.org); the
// width is the terminal's, or COLUMNS; a file or pipe has no width.
func Detect(f *os.File) Options {
	return detect(f, os.Getenv)
}

func detect(f *os.File, getenv func(string) string) Options {
	var o Options
	o.Unicode = utf8Locale(getenv)
	tty := f != nil && term.IsTerminal(int(f.Fd()))
	if tty {
		o.Color = getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
		o.Width = 80
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			o.Width = w
		}
	}
	if c, err := strconv.Atoi(getenv("COLUMNS")); err == nil && c > 0 && c < 10000 {
		o.Width = c
	}
	return o
}

// utf8Locale follows POSIX: the first of the three variables that is set counts.
func utf8Locale(getenv func(string) string) bool {
	for _, k := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(k); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

func (o *Options) ellipsis() string { return either(o, "…", "..") }
func (o *Options) atMost() string   { return either(o, "≤", "<=") }
func (o *Options) atLeast() string  { return either(o, "≥", ">=") }

// either returns the variant that this terminal can display.
func either[T any](o *Options, unicode, ascii T) T {
	if o.Unicode {
		return unicode
	}
	return ascii
}

func (o *Options) clean(s string) string { return clean.Terminal(s, !o.Unicode) }

// Styles, as SGR parameters: the 16 colours that every theme defines.
const (
	plain = ""
	bold  = "1"
	dim   = "2"
	warn  = "33"
	bad   = "31"
	blue  = "34"
)

func (o *Options) style(s, sgr string) string {
	if !o.Color || sgr == "" || s == "" {
		return s
	}
	return "\x1b[" + sgr + "m" + s + "\x1b[0m"
}
