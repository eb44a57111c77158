// SPDX-License-Identifier: Apache-2.0

package trace

// Experts are rows of a choice: which experts each token is routed to in one layer. They are copied while an
// operator that uses them runs, by the thread that runs its graph; operators that share a choice share one
// copy. A choice for many tokens is split into several parts.
type Experts struct {
	Time   int64 // of the operator's begin or, if only arrivals were probed, of its arrival
	PID    int32
	TID    int32
	Node   uint64 // address of the operator's tensor: a node of the graph that the thread runs
	Source uint64 // address of the tensor with the choice: one of the node's sources
	Used   int32  // experts per token
	Tokens int32  // rows of the whole choice
	First  int32  // first row in Chosen
	// Chosen are the numbers of the rows, Used per row, as found: of experts or, where the engine keeps some
	// of them in a cache, of its slots; the source's name shows which.
	Chosen []int32
}

// Columns of an experts block.
const (
	expertTime = iota // difference to the previous record; likewise all but the last two
	expertPID
	expertTID
	expertNode
	expertSource
	expertUsed
	expertTokens
	expertFirst
	expertCount  // how many numbers
	expertChosen // the numbers
	expertColumns
)

type expertEncoder struct {
	columns
	last Experts
}

func newExpertEncoder() expertEncoder { return expertEncoder{columns: newColumns(expertColumns)} }

func (e *expertEncoder) reset() {
	e.columns.reset()
	e.last = Experts{}
}

func (e *expertEncoder) add(es []Experts) {
	for i := range es {
		x := &es[i]
		e.at(x.Time)
		put := func(col int, v int64) { e.c[col] = appendInt(e.c[col], v) }
		l := &e.last
		put(expertTime, x.Time-l.Time)
		put(expertPID, int64(x.PID)-int64(l.PID))
		put(expertTID, int64(x.TID)-int64(l.TID))
		put(expertNode, int64(x.Node-l.Node))
		put(expertSource, int64(x.Source-l.Source))
		put(expertUsed, int64(x.Used)-int64(l.Used))
		put(expertTokens, int64(x.Tokens)-int64(l.Tokens))
		put(expertFirst, int64(x.First)-int64(l.First))
		e.c[expertCount] = appendUint(e.c[expertCount], uint64(len(x.Chosen)))
		for _, v := range x.Chosen {
			put(expertChosen, int64(v))
		}
		*l = *x
		l.Chosen = nil
	}
}

// Experts writes the experts that tokens are routed to.
func (w *Writer) Experts(es []Experts) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(es) > 0 {
		n := min(len(es), 64)
		if err := add(w, TypeExperts, es[:n], &w.experts.columns, w.experts.add,
			w.experts.reset); err != nil {
			return err
		}
		es = es[n:]
		if w.experts.size() >= cutBytes { // its records are long: their number means little
			if err := w.bulk(TypeExperts, &w.experts.columns, w.experts.reset); err != nil {
				return err
			}
		}
	}
	return w.state()
}

// decodeExperts reads a block. The caller owns the result.
func decodeExperts(p []byte, count int) ([]Experts, error) {
	var c [expertColumns]column
	if err := splitColumns(p, c[:]); err != nil {
		return nil, err
	}
	// a record has at least one byte in the column of its time, a number at least one in that of numbers:
	// that bounds what a block can request
	if len(c[expertTime].b) < count || count > maxCount {
		return nil, errColumn
	}
	numbers := make([]int32, 0, len(c[expertChosen].b))
	out := make([]Experts, count)
	var l Experts
	for i := range out {
		l.Time += c[expertTime].int()
		l.PID += int32(c[expertPID].int())
		l.TID += int32(c[expertTID].int())
		l.Node += uint64(c[expertNode].int())
		l.Source += uint64(c[expertSource].int())
		l.Used += int32(c[expertUsed].int())
		l.Tokens += int32(c[expertTokens].int())
		l.First += int32(c[expertFirst].int())
		n := c[expertCount].uint()
		if n > uint64(cap(numbers)-len(numbers)) {
			return nil, errColumn
		}
		from := len(numbers)
		for range n {
			numbers = append(numbers, int32(c[expertChosen].int()))
		}
		out[i] = l
		out[i].Chosen = numbers[from:len(numbers):len(numbers)]
	}
	return out, finish(c[:])
}
