// SPDX-License-Identifier: Apache-2.0

package trace

import "slices"

// readAhead is how many blocks are read in advance. It bounds memory: a block of hits unpacks to at most
// maxCount of them, and to 2 MiB as profinfer writes them.
const readAhead = 4

// Ahead reads a trace's blocks in a goroutine of its own, some blocks in advance, in the same order and with
// the same errors as [Reader.Next]. While it is in use, only Header and Meta of the reader may be called;
// [Reader.Problems] and [Reader.Torn] are complete once Next returned an error.
type Ahead struct {
	r      *Reader
	blocks chan aheadBlock
	spare  chan []Hit
	quit   chan struct{}
	closed bool
	err    error
}

type aheadBlock struct {
	b   Block
	err error
}

// Ahead starts reading ahead. Close must be called before the reader is used again or closed.
func (r *Reader) Ahead() *Ahead {
	r.hits.buf = nil // it may be in use
	a := &Ahead{r: r, blocks: make(chan aheadBlock, readAhead), spare: make(chan []Hit, 2*readAhead),
		quit: make(chan struct{})}
	go a.run()
	return a
}

func (a *Ahead) run() {
	defer close(a.blocks)
	for {
		if a.r.hits.buf == nil {
			select {
			case a.r.hits.buf = <-a.spare:
			default:
			}
		}
		b, err := a.r.next()
		if b.Hits != nil {
			a.r.hits.buf = nil
		}
		// The other types are few; the reader keeps their buffers.
		b.Marks, b.StepSeqs, b.Sched = slices.Clone(b.Marks), slices.Clone(b.StepSeqs), slices.Clone(b.Sched)
		select {
		case a.blocks <- aheadBlock{b, err}:
		case <-a.quit:
			return
		}
		if err != nil {
			return
		}
	}
}

// Next returns the next block; io.EOF at the end. The caller owns its slices.
func (a *Ahead) Next() (Block, error) {
	if a.err != nil {
		return Block{}, a.err
	}
	n := <-a.blocks
	a.err = n.err
	if n.b.Meta != nil {
		a.r.meta = n.b.Meta
	}
	return n.b, n.err
}

// Reuse takes back the hits of a block that the caller no longer needs.
func (a *Ahead) Reuse(hits []Hit) {
	select {
	case a.spare <- hits[:0]:
	default:
	}
}

// Close stops reading. Next must not be called afterwards.
func (a *Ahead) Close() {
	if a.closed {
		return
	}
	a.closed = true
	close(a.quit)
	for range a.blocks { // until the goroutine has ended
	}
	a.r.hits.buf = nil
}
