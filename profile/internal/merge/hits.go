// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/trace"
)

// hitMerge merges hits by time, in place. A block holds a few ascending runs, one for each ring drained. Runs
// that follow each other in time form a chain, and a heap of chains yields the hits in order. There are about
// as many chains as CPUs.
type hitMerge struct {
	chains []*hitChain // those with hits; a heap by first hit while emit runs
	seq    int64       // number of runs so far
	Free   func([]trace.Hit)
}

// hitBlock is a block's hits, with runs that are still to be read.
type hitBlock struct {
	hits []trace.Hit
	runs int
}

// hitRun is an ascending part of a block.
type hitRun struct {
	hits  []trace.Hit
	seq   int64 // arrival order of the runs
	block *hitBlock
}

// hitChain is a list of runs in which each begins when, or after, the previous one ends.
type hitChain struct {
	runs []hitRun // the first may be partly read
	last int64    // time of the last hit
}

const (
	// maxChains bounds the chains that a run is compared with, so that disorder does not make the cost
	// quadratic in its length.
	maxChains = 128
	// A block with shorter runs than this, on average, is sorted.
	minRun = 8
)

func (m *hitMerge) add(hits []trace.Hit) {
	if len(hits) == 0 {
		return
	}
	n := 1
	for i := 1; i < len(hits); i++ {
		if hits[i].Time < hits[i-1].Time {
			n++
		}
	}
	b := &hitBlock{hits: hits}
	if n > 2*maxChains && len(hits)/n < minRun {
		hits = slices.Clone(hits)
		slices.SortStableFunc(hits, func(a, b trace.Hit) int { return cmp.Compare(a.Time, b.Time) })
	}
	from := 0
	for i := 1; i <= len(hits); i++ {
		if i == len(hits) || hits[i].Time < hits[i-1].Time {
			m.addRun(hits[from:i], b)
			from = i
		}
	}
}

// addRun appends a run to the chain that ends closest before it.
func (m *hitMerge) addRun(hits []trace.Hit, b *hitBlock) {
	b.runs++
	m.seq++
	r := hitRun{hits, m.seq, b}
	var best *hitChain
	for _, c := range m.chains[max(0, len(m.chains)-maxChains):] {
		if c.last <= hits[0].Time && (best == nil || c.last > best.last) {
			best = c
		}
	}
	if best == nil {
		best = &hitChain{}
		m.chains = append(m.chains, best)
	}
	best.runs = append(best.runs, r)
	best.last = hits[len(hits)-1].Time
}

// before orders chains by their first hit: by time, then by arrival order.
func (c *hitChain) before(o *hitChain) bool {
	r, q := &c.runs[0], &o.runs[0]
	if r.hits[0].Time != q.hits[0].Time {
		return r.hits[0].Time < q.hits[0].Time
	}
	return r.seq < q.seq
}

// emit hands all hits older than limit to the handler.
func (m *hitMerge) emit(limit int64, to Handler) error {
	for i := len(m.chains)/2 - 1; i >= 0; i-- {
		m.sink(i)
	}
	for len(m.chains) > 0 {
		c := m.chains[0]
		// Up to the time where another chain comes first.
		until, seq := limit, int64(0)
		if len(m.chains) > 1 {
			o := m.chains[1]
			if len(m.chains) > 2 && m.chains[2].before(o) {
				o = m.chains[2]
			}
			if h := &o.runs[0]; h.hits[0].Time < limit {
				until, seq = h.hits[0].Time, h.seq
			}
		}
		if c.runs[0].hits[0].Time >= limit {
			return nil
		}
		r := &c.runs[0]
		hits, n := r.hits, 0
		for n < len(hits) && (hits[n].Time < until || hits[n].Time == until && r.seq < seq) {
			if err := to.Hit(&hits[n]); err != nil {
				return err
			}
			n++
		}
		if r.hits = hits[n:]; len(r.hits) == 0 {
			m.release(r.block)
			c.runs = slices.Delete(c.runs, 0, 1)
			if len(c.runs) == 0 {
				last := len(m.chains) - 1
				m.chains[0] = m.chains[last]
				m.chains[last] = nil
				m.chains = m.chains[:last]
			}
		}
		m.sink(0)
	}
	return nil
}

func (m *hitMerge) release(b *hitBlock) {
	if b.runs--; b.runs == 0 && m.Free != nil {
		m.Free(b.hits)
	}
}

// sink moves chain i down the heap to its place.
func (m *hitMerge) sink(i int) {
	for {
		j := 2*i + 1
		if j >= len(m.chains) {
			return
		}
		if k := j + 1; k < len(m.chains) && m.chains[k].before(m.chains[j]) {
			j = k
		}
		if !m.chains[j].before(m.chains[i]) {
			return
		}
		m.chains[i], m.chains[j] = m.chains[j], m.chains[i]
		i = j
	}
}
