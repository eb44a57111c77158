// SPDX-License-Identifier: Apache-2.0

package experts

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/profinfer/profinfer/profile"
)

// What each token chose, layer by layer, in bounded memory.

// cellBudget bounds the numbers that all phases keep in total.
type cellBudget struct {
	most, used int
	maps       []*tokenMaps
}

// tokenMaps are the maps of a phase, by layer.
type tokenMaps struct {
	budget *cellBudget
	layers map[layerKey]*tokenMap
	wide   int // tokens per merged column
}

// tokenMap is what tokens chose in one layer, in order. A column is one token or, if wide is more than 1, at
// most wide tokens.
type tokenMap struct {
	experts, used, wide int
	cols                []tokenColumn
	chosen              []uint16 // used expert numbers per column
	counts              []uint32 // or, per column, token counts by expert
	open                int      // first column of the step in progress, with single tokens
	tokens              int32    // of that step's batch, -1: unknown
}

type tokenColumn struct {
	step, last int64 // of the first and last token
	n          int32 // tokens
	pos        int32 // of the token, -1: unknown
}

func (m *tokenMap) cells() int { return len(m.chosen) + len(m.counts) }

// add takes a complete choice.
func (t *tokenMaps) add(k layerKey, s *profile.Step, c *profile.Choice) {
	m := t.layers[k]
	if m == nil {
		if t.layers == nil {
			t.layers = map[layerKey]*tokenMap{}
		}
		m = &tokenMap{experts: k.experts, used: k.used, wide: 1}
		t.layers[k] = m
	}
	before := m.cells()
	m.add(s, c)
	t.budget.used += m.cells() - before
	t.budget.keep()
}

// keep merges tokens until the budget is met, or merging no longer helps.
func (b *cellBudget) keep() {
	for b.used > b.most {
		slices.SortStableFunc(b.maps, func(x, y *tokenMaps) int { return cmp.Compare(y.cells(), x.cells()) })
		done := false
		for _, t := range b.maps {
			before := t.cells()
			if done = t.widen(); done {
				b.used += t.cells() - before
				break
			}
		}
		if !done {
			b.most = 2 * b.used // so many layers and experts that one column of each exceeds it
			return
		}
	}
}

func (t *tokenMaps) cells() (n int) {
	for _, m := range t.layers {
		n += m.cells()
	}
	return n
}

// widen merges tokens so that half as much is kept. It returns false where that is impossible.
func (t *tokenMaps) widen() bool {
	before := t.cells()
	for wide := max(2, 2*t.wide); wide <= 1<<20; wide *= 2 {
		after := 0
		for _, m := range t.layers {
			after += m.cellsAt(wide)
		}
		if after <= before/2 {
			for _, m := range t.layers {
				m.widen(wide)
			}
			t.wide = wide
			return true
		}
	}
	return false
}

// cellsAt returns what would be kept with columns of that width: a layer reached by few tokens stays as it is
// where that takes less.
func (m *tokenMap) cellsAt(wide int) int {
	tokens := 0
	for i := range m.cols {
		tokens += int(m.cols[i].n)
	}
	return min(m.cells(), (tokens+wide-1)/wide*m.experts)
}

func (m *tokenMap) add(s *profile.Step, c *profile.Choice) {
	if m.wide > 1 {
		for t := range c.Tokens {
			m.fill(s.ID, s.ID, 1)
			m.count(c.Chosen[t*c.Used : (t+1)*c.Used])
		}
		return
	}
	if n := len(m.cols); m.open >= n || m.cols[n-1].step != s.ID {
		m.close()
		m.open, m.tokens = n, s.NTokens
	}
	pos := int32(-1)
	if len(s.Seqs) == 1 && s.Seqs[0].NTokens == s.NTokens && s.Seqs[0].Pos >= 0 {
		pos = s.Seqs[0].Pos
	}
	for range c.Tokens {
		p := int32(-1)
		if pos >= 0 {
			p = pos + int32(len(m.cols)-m.open)
		}
		m.cols = append(m.cols, tokenColumn{s.ID, s.ID, 1, p})
	}
	for _, x := range c.Chosen {
		m.chosen = append(m.chosen, uint16(x))
	}
}

// close removes the positions of a step's tokens if not all of its batch reached the layer: it is unknown
// which did.
func (m *tokenMap) close() {
	if m.wide > 1 || int32(len(m.cols)-m.open) == m.tokens {
		return
	}
	for i := m.open; i < len(m.cols); i++ {
		m.cols[i].pos = -1
	}
}

// fill adds n tokens to the last column or a new one.
func (m *tokenMap) fill(step, last int64, n int32) {
	if k := len(m.cols); k == 0 || int(m.cols[k-1].n+n) > m.wide {
		m.cols = append(m.cols, tokenColumn{step, last, n, -1})
		m.counts = append(m.counts, make([]uint32, m.experts)...)
		return
	}
	e := &m.cols[len(m.cols)-1]
	e.last = last
	e.n += n
}

func (m *tokenMap) count(row []int32) {
	at := m.counts[len(m.counts)-m.experts:]
	for _, x := range row {
		at[x]++
	}
}

// widen makes columns of that width, if that takes less.
func (m *tokenMap) widen(wide int) {
	if wide <= m.wide || m.cellsAt(wide) >= m.cells() {
		return
	}
	m.widenTo(wide)
}

// widenTo makes columns of that width, even if that takes more.
func (m *tokenMap) widenTo(wide int) {
	if wide <= m.wide {
		return
	}
	old := *m
	*m = tokenMap{experts: old.experts, used: old.used, wide: wide}
	for i := range old.cols {
		e := &old.cols[i]
		m.fill(e.step, e.last, e.n)
		at := m.counts[len(m.counts)-m.experts:]
		if old.wide > 1 {
			for x, n := range old.counts[i*m.experts : (i+1)*m.experts] {
				at[x] += n
			}
			continue
		}
		for _, x := range old.chosen[i*m.used : (i+1)*m.used] {
			at[x]++
		}
	}
}

// merge adds what tokens of another context of the same model chose, ordered by step number.
func (t *tokenMaps) merge(o *tokenMaps) {
	for k, from := range o.layers {
		to := t.layers[k]
		if to == nil {
			if t.layers == nil {
				t.layers = map[layerKey]*tokenMap{}
			}
			t.layers[k] = from
			continue
		}
		to.close()
		from.close()
		wide := max(to.wide, from.wide)
		if wide > 1 {
			to.widenTo(wide)
			from.widenTo(wide)
		}
		to.merge(from)
	}
	t.wide = max(t.wide, o.wide)
	o.layers = nil
}

// merge merges the columns of both in step order.
func (m *tokenMap) merge(o *tokenMap) {
	type place struct {
		from *tokenMap
		i    int
	}
	all := make([]place, 0, len(m.cols)+len(o.cols))
	for i := range m.cols {
		all = append(all, place{m, i})
	}
	for i := range o.cols {
		all = append(all, place{o, i})
	}
	slices.SortStableFunc(all, func(a, b place) int {
		return cmp.Compare(a.from.cols[a.i].step, b.from.cols[b.i].step)
	})
	r := tokenMap{experts: m.experts, used: m.used, wide: m.wide, open: len(all), tokens: 0}
	for _, p := range all {
		r.cols = append(r.cols, p.from.cols[p.i])
		if m.wide > 1 {
			r.counts = append(r.counts, p.from.counts[p.i*m.experts:(p.i+1)*m.experts]...)
		} else {
			r.chosen = append(r.chosen, p.from.chosen[p.i*m.used:(p.i+1)*m.used]...)
		}
	}
	*m = r
}

// axis returns the token axis of the columns.
func (m *tokenMap) axis() Axis {
	m.close()
	a := Axis{Step: []int64{}, N: []int32{}}
	for i := range m.cols {
		e := &m.cols[i]
		k := len(a.Step) - 1
		if m.wide == 1 && k >= 0 && a.Step[k] == e.step &&
			(e.pos < 0 && a.Pos[k] < 0 || e.pos >= 0 && a.Pos[k] >= 0 && a.Pos[k]+a.N[k] == e.pos) {
			a.N[k]++
			continue
		}
		a.Step = append(a.Step, e.step)
		a.N = append(a.N, e.n)
		if m.wide == 1 {
			a.Pos = append(a.Pos, e.pos)
		} else {
			a.Last = append(a.Last, e.last)
		}
	}
	return a
}

func (a *Axis) equal(b *Axis) bool {
	return slices.Equal(a.Step, b.Step) && slices.Equal(a.Last, b.Last) && slices.Equal(a.N, b.N) &&
		slices.Equal(a.Pos, b.Pos)
}

// pack appends the numbers, each in as many bytes as the largest possible or present one needs.
func (m *tokenMap) pack(data []byte) ([]byte, int) {
	if m.wide == 1 {
		if m.experts <= 1<<8 {
			for _, x := range m.chosen {
				data = append(data, byte(x))
			}
			return data, 1
		}
		for _, x := range m.chosen {
			data = binary.LittleEndian.AppendUint16(data, x)
		}
		return data, 2
	}
	most := uint32(0)
	for _, n := range m.counts {
		most = max(most, n)
	}
	switch {
	case most < 1<<8:
		for _, n := range m.counts {
			data = append(data, byte(n))
		}
		return data, 1
	case most < 1<<16:
		for _, n := range m.counts {
			data = binary.LittleEndian.AppendUint16(data, uint16(n))
		}
		return data, 2
	}
	for _, n := range m.counts {
		data = binary.LittleEndian.AppendUint32(data, n)
	}
	return data, 4
}
