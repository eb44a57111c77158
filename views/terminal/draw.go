// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"encoding/json"
	"io"
)

// Drawing functions for other views. Text passed to them must already be safe (see [Options.Clean]).

// Bold, Dim, Warn and Bad style text if colour is enabled.
func (o *Options) Bold(s string) string { return o.style(s, bold) }

// Dim is for less important text.
func (o *Options) Dim(s string) string { return o.style(s, dim) }

// Warn is for what is degraded.
func (o *Options) Warn(s string) string { return o.style(s, warn) }

// Bad is for what is missing.
func (o *Options) Bad(s string) string { return o.style(s, bad) }

// Clean makes text safe for this terminal.
func (o *Options) Clean(s string) string { return o.clean(s) }

// Columns returns the display width of s in columns.
func Columns(s string) int { return textWidth(s) }

// Wrap wraps text at spaces to lines of at most width columns (0: no limit); later lines are indented.
func Wrap(text string, width, indent int) []string { return wrap(text, width, indent) }

// JSON writes a document for programs: figures unrounded, null for unknown values. It returns w's errors.
func JSON(w io.Writer, document any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(document)
}
