// SPDX-License-Identifier: Apache-2.0

package trace

// Encoders and decoders of the record types. The two halves of each type are next to each other: both must
// predict from the same values. Differences wrap at 64 bits.

// Columns of a hits block.
const (
	hitHead = iota // one byte each: kind in the low four bits, then what differs from the context
	hitTime        // difference to the previous hit
	hitCPU         // difference to the previous hit
	hitArg         // difference to the previous hit of the same kind
	hitPID         // difference to the context, if any; likewise the next three
	hitTID
	hitIth
	hitNth
	hitKind // kinds from 15 on
	hitColumns
)

const (
	headKind   = 0x0f
	kindEscape = 0x0f
	headPID    = 0x10
	headTID    = 0x20
	headIth    = 0x40
	headNth    = 0x80
)

// hitContext is the last hit on a CPU (modulo 256) of a kind (modulo 8): a CPU runs the same thread most of
// the time, and begins have a team while ends do not.
type hitContext struct {
	pid, tid int32
	ith, nth uint16
}

type hitState struct {
	time int64
	cpu  uint16
	arg  [16]uint64
	ctx  [256 * 8]hitContext
}

func (s *hitState) context(cpu uint16, k HitKind) *hitContext {
	return &s.ctx[int(cpu&255)<<3|int(k&7)]
}

type hitEncoder struct {
	columns
	s hitState
}

func (e *hitEncoder) reset() {
	e.columns.reset()
	e.s = hitState{}
}

func (e *hitEncoder) add(hs []Hit) {
	s := &e.s
	for i := range hs {
		h := &hs[i]
		e.at(h.Time)
		head := byte(h.Kind)
		if h.Kind >= kindEscape {
			head = kindEscape
			e.c[hitKind] = appendUint(e.c[hitKind], uint64(h.Kind))
		}
		e.c[hitTime] = appendInt(e.c[hitTime], h.Time-s.time)
		s.time = h.Time
		e.c[hitCPU] = appendInt(e.c[hitCPU], int64(h.CPU)-int64(s.cpu))
		s.cpu = h.CPU
		a := &s.arg[h.Kind&15]
		e.c[hitArg] = appendInt(e.c[hitArg], int64(h.Arg-*a))
		*a = h.Arg
		x := s.context(h.CPU, h.Kind)
		if h.PID != x.pid {
			head |= headPID
			e.c[hitPID] = appendInt(e.c[hitPID], int64(h.PID)-int64(x.pid))
			x.pid = h.PID
		}
		if h.TID != x.tid {
			head |= headTID
			e.c[hitTID] = appendInt(e.c[hitTID], int64(h.TID)-int64(x.tid))
			x.tid = h.TID
		}
		if h.Ith != x.ith {
			head |= headIth
			e.c[hitIth] = appendInt(e.c[hitIth], int64(h.Ith)-int64(x.ith))
			x.ith = h.Ith
		}
		if h.Nth != x.nth {
			head |= headNth
			e.c[hitNth] = appendInt(e.c[hitNth], int64(h.Nth)-int64(x.nth))
			x.nth = h.Nth
		}
		e.c[hitHead] = append(e.c[hitHead], head)
	}
}

type hitDecoder struct {
	s   hitState
	buf []Hit
}

func (d *hitDecoder) decode(p []byte, count int) ([]Hit, error) {
	var c [hitColumns]column
	if err := splitColumns(p, c[:]); err != nil {
		return nil, err
	}
	heads := c[hitHead].b
	if len(heads) != count || count > maxCount {
		return nil, errColumn
	}
	if cap(d.buf) < count { // the next block has about the same size
		d.buf = make([]Hit, count, count+count/8)
	}
	d.buf = d.buf[:count]
	d.s = hitState{}
	s := &d.s
	// The columns that every hit has. This code does what column.int does, which takes twice as long: a
	// recording has millions of hits.
	times, cpus, args := c[hitTime].b, c[hitCPU].b, c[hitArg].b
	var time int64
	var cpu uint16
	for i, head := range heads {
		h := &d.buf[i]
		k := HitKind(head & headKind)
		if k == kindEscape {
			k = HitKind(c[hitKind].uint())
		}
		switch {
		case len(times) > 0 && times[0] < 0x80:
			time += unzig(uint64(times[0]))
			times = times[1:]
		case len(times) > 1 && times[1] < 0x80:
			time += unzig(uint64(times[0]&0x7f) | uint64(times[1])<<7)
			times = times[2:]
		default:
			c[hitTime].b = times
			time += c[hitTime].int()
			times = c[hitTime].b
		}
		if len(cpus) > 0 && cpus[0] < 0x80 {
			cpu += uint16(unzig(uint64(cpus[0])))
			cpus = cpus[1:]
		} else {
			c[hitCPU].b = cpus
			cpu += uint16(c[hitCPU].int())
			cpus = c[hitCPU].b
		}
		a := &s.arg[k&15]
		if len(args) > 0 && args[0] < 0x80 {
			*a += uint64(unzig(uint64(args[0])))
			args = args[1:]
		} else {
			c[hitArg].b = args
			*a += uint64(c[hitArg].int())
			args = c[hitArg].b
		}
		x := s.context(cpu, k)
		if head&(headPID|headTID|headIth|headNth) != 0 {
			if head&headPID != 0 {
				x.pid += int32(c[hitPID].int())
			}
			if head&headTID != 0 {
				x.tid += int32(c[hitTID].int())
			}
			if head&headIth != 0 {
				x.ith += uint16(c[hitIth].int())
			}
			if head&headNth != 0 {
				x.nth += uint16(c[hitNth].int())
			}
		}
		h.Time, h.Arg, h.PID, h.TID, h.CPU, h.Ith, h.Nth, h.Kind = time, *a, x.pid, x.tid, cpu, x.ith, x.nth,
			k
	}
	c[hitHead].b, c[hitTime].b, c[hitCPU].b, c[hitArg].b = nil, times, cpus, args
	return d.buf, finish(c[:])
}

// Columns of a marks block. All except kind and time are differences to the previous mark of the same kind
// (modulo 16).
const (
	markKind = iota // one byte each
	markTime        // difference to the previous mark
	markPID
	markTID
	markCPU
	markSite
	markCtx
	markGraph
	markShape
	markUID
	markNNodes
	markThreads
	markNTokens
	markType
	markColumns
)

type markEncoder struct {
	columns
	time int64
	prev [16]Mark
}

func (e *markEncoder) reset() {
	e.columns.reset()
	e.time, e.prev = 0, [16]Mark{}
}

func (e *markEncoder) add(ms []Mark) {
	for i := range ms {
		m := &ms[i]
		p := &e.prev[m.Kind&15]
		e.at(m.Time)
		e.c[markKind] = append(e.c[markKind], byte(m.Kind))
		for j, v := range [...]int64{
			markTime:    m.Time - e.time,
			markPID:     int64(m.PID) - int64(p.PID),
			markTID:     int64(m.TID) - int64(p.TID),
			markCPU:     int64(m.CPU) - int64(p.CPU),
			markSite:    int64(m.Site) - int64(p.Site),
			markCtx:     int64(m.Ctx - p.Ctx),
			markGraph:   int64(m.Graph - p.Graph),
			markShape:   int64(m.Shape - p.Shape),
			markUID:     int64(m.UID - p.UID),
			markNNodes:  int64(m.NNodes) - int64(p.NNodes),
			markThreads: int64(m.Threads) - int64(p.Threads),
			markNTokens: int64(m.NTokens) - int64(p.NTokens),
			markType:    int64(m.Type) - int64(p.Type),
		} {
			if j != markKind {
				e.c[j] = appendInt(e.c[j], v)
			}
		}
		e.time, *p = m.Time, *m
	}
}

type markDecoder struct{ buf []Mark }

func (d *markDecoder) decode(b []byte, count int) ([]Mark, error) {
	var c [markColumns]column
	if err := splitColumns(b, c[:]); err != nil {
		return nil, err
	}
	kinds := c[markKind].b
	if len(kinds) != count || count > maxCount {
		return nil, errColumn
	}
	d.buf = resize(d.buf, count)
	var prev [16]Mark
	var time int64
	for i, k := range kinds {
		m := &prev[k&15]
		m.Kind = MarkKind(k)
		time += c[markTime].int()
		m.Time = time
		m.PID += int32(c[markPID].int())
		m.TID += int32(c[markTID].int())
		m.CPU += uint16(c[markCPU].int())
		m.Site += uint32(c[markSite].int())
		m.Ctx += uint64(c[markCtx].int())
		m.Graph += uint64(c[markGraph].int())
		m.Shape += uint64(c[markShape].int())
		m.UID += uint64(c[markUID].int())
		m.NNodes += int32(c[markNNodes].int())
		m.Threads += int32(c[markThreads].int())
		m.NTokens += int32(c[markNTokens].int())
		m.Type += int32(c[markType].int())
		d.buf[i] = *m
	}
	c[markKind].b = nil
	return d.buf, finish(c[:])
}

// Columns of a stepseqs block: differences to the previous record.
const (
	seqTime = iota
	seqTID
	seqSeq
	seqNTokens
	seqPos
	seqOutputs
	seqColumns
)

type seqEncoder struct {
	columns
	prev StepSeq
}

func (e *seqEncoder) reset() {
	e.columns.reset()
	e.prev = StepSeq{}
}

func (e *seqEncoder) add(ss []StepSeq) {
	for i := range ss {
		s, p := &ss[i], &e.prev
		e.at(s.Time)
		e.c[seqTime] = appendInt(e.c[seqTime], s.Time-p.Time)
		e.c[seqTID] = appendInt(e.c[seqTID], int64(s.TID)-int64(p.TID))
		e.c[seqSeq] = appendInt(e.c[seqSeq], int64(s.Seq)-int64(p.Seq))
		e.c[seqNTokens] = appendInt(e.c[seqNTokens], int64(s.NTokens)-int64(p.NTokens))
		e.c[seqPos] = appendInt(e.c[seqPos], int64(s.Pos)-int64(p.Pos))
		e.c[seqOutputs] = appendInt(e.c[seqOutputs], int64(s.Outputs)-int64(p.Outputs))
		*p = *s
	}
}

type seqDecoder struct{ buf []StepSeq }

func (d *seqDecoder) decode(b []byte, count int) ([]StepSeq, error) {
	var c [seqColumns]column
	if err := splitColumns(b, c[:]); err != nil {
		return nil, err
	}
	if len(c[seqTime].b) < count || count > maxCount { // at least a byte each
		return nil, errColumn
	}
	d.buf = resize(d.buf, count)
	var s StepSeq
	for i := range d.buf {
		s.Time += c[seqTime].int()
		s.TID += int32(c[seqTID].int())
		s.Seq += int32(c[seqSeq].int())
		s.NTokens += int32(c[seqNTokens].int())
		s.Pos += int32(c[seqPos].int())
		s.Outputs += int32(c[seqOutputs].int())
		d.buf[i] = s
	}
	return d.buf, finish(c[:])
}

// resize returns a slice of n elements that reuses s if it can.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
