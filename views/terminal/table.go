// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// column is one column of a table.
type column struct {
	title string
	left  bool // aligned left
	keep  int  // on a narrow terminal, columns with the smallest are shortened and dropped first
	min   int  // > 0: cells are names, which can be shortened at their end to this width
	path  bool // cells are paths, and are shortened at their beginning
	whole int  // for lists: items kept as long as a less important column can be dropped instead; 0: 1
	tight bool // one space before it, not two
	cells []string
	style []string   // by cell; nil: plain
	lists [][]string // by cell: its items; whole items are cut off at the end of a cell
	sep   string     // of items; empty: ", "
	most  int        // most items of a list on any width; 0: all
	brief []string   // by cell: a shorter text, used if all cells have one

	last bool // a less important column was dropped: cells keep only the minimum
}

// table is a grid of columns.
type table struct {
	cols   []*column
	groups []group // none: one, from the first row on, whose title is that of the first column
}

// group is a part of a table's rows with a head of its own, so that the parts' columns and units agree.
type group struct {
	row   int
	title string // of the first column
	notes []note // below it
}

// note is a line of text.
type note struct{ text, style string }

// group begins a group at the next row.
func (t *table) group(title string) {
	t.groups = append(t.groups, group{row: len(t.cols[0].cells), title: title})
}

// note writes a line below the last group.
func (t *table) note(text, style string) {
	g := &t.groups[len(t.groups)-1]
	g.notes = append(g.notes, note{text, style})
}

func (t *table) col(c column) *column {
	t.cols = append(t.cols, &c)
	return t.cols[len(t.cols)-1]
}

func (c *column) add(cell string) { c.cells = append(c.cells, cell) }

// addList adds a cell of several items, the most important first.
func (c *column) addList(items []string) {
	for len(c.lists) < len(c.cells) {
		c.lists = append(c.lists, nil)
	}
	c.lists = append(c.lists, items)
	c.add(c.items(items, cmp.Or(c.most, len(items))))
}

// addOr adds a cell with a shorter alternative.
func (c *column) addOr(cell, brief string) {
	c.add(cell)
	c.brief = append(c.brief, brief)
}

// items formats the first n, and how many more there are.
func (c *column) items(list []string, n int) string {
	sep := cmp.Or(c.sep, ", ")
	if n >= len(list) {
		return strings.Join(list, sep)
	}
	return strings.Join(list[:n], sep) + sep + fmt.Sprintf("+%d more", len(list)-n)
}

func widest(title string, cells []string) int {
	w := textWidth(title)
	for _, s := range cells {
		w = max(w, textWidth(s))
	}
	return w
}

func (c *column) width() int { return widest(c.title, c.cells) }

// least is the minimum width of the column in a table of limit columns.
func (c *column) least(limit int) int {
	switch {
	case len(c.brief) > 0:
		return min(c.width(), widest(c.title, c.brief))
	case c.lists != nil:
		n := max(c.whole, 1)
		if c.last {
			n = 1
		}
		if c.most > 0 {
			n = min(n, c.most)
		}
		w := textWidth(c.title)
		for i, l := range c.lists {
			w = max(w, min(textWidth(c.cells[i]), textWidth(c.items(l, n))))
		}
		return w
	case c.min > 0 || c.path:
		w := max(c.min, textWidth(c.title))
		if !c.last { // a name gets a third of a table
			w = max(w, limit/3)
		}
		return min(c.width(), w)
	}
	return c.width()
}

// within returns the cells, shortened to at most width columns.
func (c *column) within(width int, mark string) []string {
	if c.width() <= width {
		return c.cells
	}
	if len(c.brief) > 0 {
		return c.brief
	}
	out := make([]string, len(c.cells))
	for i, s := range c.cells {
		switch {
		case textWidth(s) <= width:
		case i < len(c.lists) && len(c.lists[i]) > 1:
			n := min(len(c.lists[i])-1, cmp.Or(c.most, len(c.lists[i])))
			for n > 1 && textWidth(c.items(c.lists[i], n)) > width {
				n--
			}
			s = c.items(c.lists[i], n)
		case c.path:
			s = cutPath(s, width, mark)
		case c.min > 0:
			s = cutEnd(s, width, mark)
		}
		out[i] = s
	}
	return out
}

// empty reports whether no cell of the column has content.
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

// fit drops and shortens columns until the table is at most limit wide (0: no limit). The least important are
// shortened first, as far as they stay readable; if that is not enough, the least important is dropped.
func (t *table) fit(limit int, mark string) {
	t.cols = slices.DeleteFunc(t.cols, func(c *column) bool { return c != t.cols[0] && c.empty() })
	if limit <= 0 {
		return
	}
	for t.width() > limit && !t.shorten(limit, mark) {
		victim := t.cols[0]
		if len(t.cols) > 1 {
			victim = slices.MinFunc(t.cols[1:], func(a, b *column) int { return cmp.Compare(a.keep, b.keep) })
		}
		was, first := victim.least(limit), !victim.last
		victim.last = true
		switch {
		case first && victim.least(limit) < was:
		case len(t.cols) > 1:
			t.cols = slices.DeleteFunc(t.cols, func(c *column) bool { return c == victim })
		default:
			victim.title = cutEnd(victim.title, limit, mark)
			victim.cells = victim.within(limit, mark)
			return
		}
	}
}

// shorten shortens cells if that alone makes the table fit.
func (t *table) shorten(limit int, mark string) bool {
	over := t.width() - limit
	for _, c := range t.cols {
		over -= c.width() - c.least(limit)
	}
	if over > 0 {
		return false
	}
	order := slices.Clone(t.cols)
	slices.SortStableFunc(order, func(a, b *column) int { return cmp.Compare(a.keep, b.keep) })
	cells := make([][]string, len(order))
	over = t.width() - limit
	for i, c := range order {
		cells[i] = c.cells
		if least := c.least(limit); over > 0 && least < c.width() {
			cells[i] = c.within(max(least, c.width()-over), mark)
			over -= c.width() - widest(c.title, cells[i])
		}
	}
	for i := len(order) - 1; i >= 0; i-- { // whole items leave room, which other columns can use
		c := order[i]
		w := widest(c.title, cells[i])
		cells[i] = c.within(w-over, mark)
		over += widest(c.title, cells[i]) - w
	}
	for i, c := range order {
		c.cells = cells[i]
	}
	return true
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

// parts draws the table's groups, each with its head.
func (t *table) parts(o *Options) [][]string {
	if len(t.groups) == 0 {
		t.groups = []group{{title: t.cols[0].title}}
	}
	first := t.cols[0]
	first.title = ""
	for _, g := range t.groups { // the widest counts
		if textWidth(g.title) > textWidth(first.title) {
			first.title = g.title
		}
	}
	t.fit(o.Width, o.ellipsis())
	rows := 0
	widths := make([]int, len(t.cols))
	for i, c := range t.cols {
		rows = max(rows, len(c.cells))
		widths[i] = c.width()
	}
	out := make([][]string, len(t.groups))
	for i, g := range t.groups {
		end := rows
		if i+1 < len(t.groups) {
			end = t.groups[i+1].row
		}
		head := make([]string, len(t.cols))
		for k, c := range t.cols {
			head[k] = c.title
		}
		head[0] = cutEnd(g.title, widths[0], o.ellipsis())
		out[i] = append(out[i], t.draw(o, widths, head, func(k int) string {
			if k == 0 {
				return bold
			}
			return dim
		}))
		for r := g.row; r < end; r++ {
			cells := make([]string, len(t.cols))
			for k, c := range t.cols {
				if r < len(c.cells) {
					cells[k] = c.cells[r]
				}
			}
			out[i] = append(out[i], t.draw(o, widths, cells, func(k int) string {
				if c := t.cols[k]; r < len(c.style) {
					return c.style[r]
				}
				return plain
			}))
		}
	}
	return out
}

// draw draws one row.
func (t *table) draw(o *Options, widths []int, cells []string, style func(int) string) string {
	var b strings.Builder
	pad := 0 // pending spaces, so that no line ends in spaces
	for i, c := range t.cols {
		text := cells[i]
		if i > 0 {
			pad += c.gap()
		}
		space := widths[i] - textWidth(text)
		if !c.left {
			pad += space
		}
		if text != "" {
			b.WriteString(strings.Repeat(" ", pad))
			b.WriteString(o.style(text, style(i)))
			pad = 0
		}
		if c.left {
			pad += space
		}
	}
	return b.String()
}
