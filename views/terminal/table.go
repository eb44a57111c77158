// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"strings"
)

// column is one column of a table.
type column struct {
	title string
	left  bool // aligned left
	keep  int  // columns with the smallest go first where the terminal is narrow
	min   int  // > 0: can be shortened to so many columns, in the middle
	tight bool // one space before it, not two
	cells []string
	style []string // by cell; nil: plain
}

// table is a grid of columns.
type table struct {
	cols []*column
}

func (t *table) col(c column) *column {
	t.cols = append(t.cols, &c)
	return t.cols[len(t.cols)-1]
}

func (c *column) add(cell string) { c.cells = append(c.cells, cell) }

func (c *column) width() int {
	w := textWidth(c.title)
	for _, s := range c.cells {
		w = max(w, textWidth(s))
	}
	return w
}

// empty is true for columns that say nothing: no cell tells anything.
func (c *column) empty() bool {
	for _, s := range c.cells {
		if s != "" && s != "-" {
			return false
		}
	}
	return true
}

func (c *column) gap() int {
	if c.tight {
		return 1
	}
	return 2
}

// fit drops and shortens columns until the table is at most limit wide (0: no limit).
func (t *table) fit(limit int, mark string) {
	kept := t.cols[:0]
	for i, c := range t.cols {
		if i == 0 || !c.empty() {
			kept = append(kept, c)
		}
	}
	t.cols = kept
	if limit <= 0 {
		return
	}
	for t.width() > limit {
		if t.shrink(limit, mark) {
			continue
		}
		drop := -1
		for i, c := range t.cols {
			if i > 0 && (drop < 0 || c.keep < t.cols[drop].keep) {
				drop = i
			}
		}
		if drop < 0 {
			return
		}
		t.cols = append(t.cols[:drop], t.cols[drop+1:]...)
	}
}

// shrink shortens cells if that alone makes the table fit.
func (t *table) shrink(limit int, mark string) bool {
	over := t.width() - limit
	for _, c := range t.cols {
		if c.min <= 0 {
			continue
		}
		if w := c.width(); w-over >= max(c.min, textWidth(c.title)) {
			for i := range c.cells {
				c.cells[i] = cutMiddle(c.cells[i], w-over, mark)
			}
			return true
		}
	}
	return false
}

func (t *table) width() int {
	n := 0
	for i, c := range t.cols {
		n += c.width()
		if i > 0 {
			n += c.gap()
		}
	}
	return n
}

// lines draws the table, its head first.
func (t *table) lines(o *Options) []string {
	t.fit(o.Width, o.ellipsis())
	rows := 0
	widths := make([]int, len(t.cols))
	for i, c := range t.cols {
		rows = max(rows, len(c.cells))
		widths[i] = c.width()
	}
	out := make([]string, 0, rows+1)
	for r := -1; r < rows; r++ {
		var b strings.Builder
		pad := 0 // spaces owed, so that no line ends in any
		for i, c := range t.cols {
			text, style := c.title, dim
			if i == 0 {
				style = bold
			}
			if r >= 0 {
				text, style = "", plain
				if r < len(c.cells) {
					text = c.cells[r]
				}
				if r < len(c.style) {
					style = c.style[r]
				}
			}
			if i > 0 {
				pad += c.gap()
			}
			space := widths[i] - textWidth(text)
			if !c.left {
				pad += space
			}
			if text != "" {
				b.WriteString(strings.Repeat(" ", pad))
				b.WriteString(o.style(text, style))
				pad = 0
			}
			if c.left {
				pad += space
			} else if text == "" {
				continue
			}
		}
		out = append(out, b.String())
	}
	return out
}
