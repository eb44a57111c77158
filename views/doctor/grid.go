// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"

	"github.com/profinfer/profinfer/views/terminal"
)

// grid is a table whose last column is wrapped where it is too wide. A row of one cell is a heading. Cells
// must be safe to print.
type grid struct {
	head   []string
	rows   [][]string
	blocks bool // on a narrow terminal, each row becomes a block of lines
}

const (
	gap     = "  "
	minLast = 28 // if narrower, the last column moves below
)

func (p *page) grid(g *grid) {
	if len(g.rows) == 0 {
		return
	}
	last := len(g.head) - 1
	widths := make([]int, last)
	for i := range widths {
		widths[i] = terminal.Columns(g.head[i])
	}
	for _, r := range g.rows {
		for i := range min(last, len(r)) {
			if len(r) > 1 {
				widths[i] = max(widths[i], terminal.Columns(r[i]))
			}
		}
	}
	at := 0
	for _, w := range widths {
		at += w + len(gap)
	}
	below := p.o.Width > 0 && p.o.Width-at < minLast
	p.blank()
	if below && (g.blocks || at-len(gap) > p.o.Width) {
		p.blocks(g)
		return
	}
	head := g.head
	if below {
		head = head[:last]
	}
	p.b.WriteString(p.o.Dim(strings.TrimRight(row(head, widths), " ")) + "\n")
	for _, r := range g.rows {
		if len(r) == 1 {
			p.b.WriteString(r[0] + "\n")
			continue
		}
		left := row(r[:last], widths)
		room, indent := p.o.Width-at, at
		if below {
			p.b.WriteString(strings.TrimRight(left, " ") + "\n")
			room, indent = p.o.Width-4, 4
			left = strings.Repeat(" ", indent)
		} else if p.o.Width == 0 {
			room = 0
		}
		for i, l := range terminal.Wrap(r[last], room, 0) {
			if i > 0 {
				left = strings.Repeat(" ", indent)
			}
			p.b.WriteString(strings.TrimRight(left+l, " ") + "\n")
		}
	}
}

// blocks writes each row as its first cell and, below it, the others in as few lines as possible. No cell is
// shortened.
func (p *page) blocks(g *grid) {
	p.b.WriteString(p.o.Dim(terminal.Wrap(strings.Join(g.head, ", "), p.o.Width, 0)[0]) + "\n")
	for _, r := range g.rows {
		for _, l := range terminal.Wrap(r[0], p.o.Width, 2) {
			p.b.WriteString(l + "\n")
		}
		line := ""
		for i := 1; i < len(r); i++ {
			if line != "" && (i == len(r)-1 || 4+terminal.Columns(line+gap+r[i]) > p.o.Width) {
				p.b.WriteString("    " + line + "\n")
				line = ""
			}
			if line != "" {
				line += gap
			}
			line += r[i]
		}
		for _, l := range terminal.Wrap(line, p.o.Width-4, 0) {
			if l != "" {
				p.b.WriteString("    " + l + "\n")
			}
		}
	}
}

// row pads cells to their columns' widths; cells beyond the widths are unchanged.
func row(cells []string, widths []int) string {
	var b strings.Builder
	for i, c := range cells {
		b.WriteString(c)
		if i < len(widths) {
			b.WriteString(strings.Repeat(" ", widths[i]-terminal.Columns(c)) + gap)
		}
	}
	return b.String()
}
