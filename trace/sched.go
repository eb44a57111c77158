// SPDX-License-Identifier: Apache-2.0

package trace

import "math"

// Columns of a sched block. The threads involved are in a table of the block, once each: a record refers to
// them by number.
const (
	schedKind  = iota // one byte each
	schedTime         // difference to the previous record
	schedCPU          // difference to the previous record
	schedState        // plain value
	schedPrev         // number in the thread table
	schedNext
	schedThreads // tid, pid, prio, number of the comm in the string table
	schedStrings // length and bytes
	schedHeld    // plain value
	schedFlags   // of each entry of the thread table
	schedColumns
)

// schedOfKernel is the flag of a kernel thread.
const schedOfKernel = 1

// maxComm is the maximum length of a comm, in bytes. The kernel's are at most 15.
const maxComm = 255

type schedThread struct {
	tid, pid, prio int32
	comm           string
	kernel         bool
}

type schedEncoder struct {
	columns
	time    int64
	cpu     uint16
	threads map[schedThread]uint32
	strings map[string]uint32
}

func newSchedEncoder() schedEncoder {
	return schedEncoder{columns: newColumns(schedColumns), threads: map[schedThread]uint32{},
		strings: map[string]uint32{}}
}

func (e *schedEncoder) reset() {
	e.columns.reset()
	e.time, e.cpu = 0, 0
	clear(e.threads)
	clear(e.strings)
}

func (e *schedEncoder) thread(t schedThread) uint64 {
	if i, ok := e.threads[t]; ok {
		return uint64(i)
	}
	if len(t.comm) > maxComm {
		t.comm = t.comm[:maxComm]
		return e.thread(t)
	}
	s, ok := e.strings[t.comm]
	if !ok {
		s = uint32(len(e.strings))
		e.strings[t.comm] = s
		e.c[schedStrings] = append(appendUint(e.c[schedStrings], uint64(len(t.comm))), t.comm...)
	}
	c := e.c[schedThreads]
	c = appendInt(c, int64(t.tid))
	c = appendInt(c, int64(t.pid))
	c = appendInt(c, int64(t.prio))
	e.c[schedThreads] = appendUint(c, uint64(s))
	flags := uint64(0)
	if t.kernel {
		flags = schedOfKernel
	}
	e.c[schedFlags] = appendUint(e.c[schedFlags], flags)
	i := uint32(len(e.threads))
	e.threads[t] = i
	return uint64(i)
}

func (e *schedEncoder) add(ss []Sched) {
	for i := range ss {
		s := &ss[i]
		e.at(s.Time)
		e.c[schedKind] = append(e.c[schedKind], byte(s.Kind))
		e.c[schedTime] = appendInt(e.c[schedTime], s.Time-e.time)
		e.c[schedCPU] = appendInt(e.c[schedCPU], int64(s.CPU)-int64(e.cpu))
		e.c[schedState] = appendUint(e.c[schedState], uint64(s.PrevState))
		e.c[schedPrev] = appendUint(e.c[schedPrev],
			e.thread(schedThread{s.PrevTID, s.PrevPID, s.PrevPrio, s.PrevComm, s.PrevKernel}))
		e.c[schedNext] = appendUint(e.c[schedNext],
			e.thread(schedThread{s.NextTID, s.NextPID, s.NextPrio, s.NextComm, s.NextKernel}))
		e.c[schedHeld] = appendUint(e.c[schedHeld], uint64(max(0, s.Held)))
		e.time, e.cpu = s.Time, s.CPU
	}
}

type schedDecoder struct {
	buf     []Sched
	threads []schedThread
	strings []string
	// comms of earlier blocks, so that a comm is allocated once, not once per block
	interned map[string]string
}

func (d *schedDecoder) intern(b []byte) string {
	if s, ok := d.interned[string(b)]; ok {
		return s
	}
	if d.interned == nil || len(d.interned) >= 4096 {
		d.interned = map[string]string{}
	}
	s := string(b)
	d.interned[s] = s
	return s
}

func (d *schedDecoder) decode(b []byte, count int) ([]Sched, error) {
	var c [schedColumns]column
	if err := splitColumns(b, c[:]); err != nil {
		return nil, err
	}
	kinds := c[schedKind].b
	if len(kinds) != count || count > maxCount {
		return nil, errColumn
	}
	d.strings, d.threads = d.strings[:0], d.threads[:0]
	for st := &c[schedStrings]; len(st.b) > 0; {
		n := st.uint()
		if n > maxComm || len(d.strings) > 2*count {
			return nil, errColumn
		}
		d.strings = append(d.strings, d.intern(st.bytes(n)))
	}
	for th := &c[schedThreads]; len(th.b) > 0; {
		t := schedThread{tid: int32(th.int()), pid: int32(th.int()), prio: int32(th.int())}
		s := th.uint()
		if s >= uint64(len(d.strings)) || len(d.threads) > 2*count {
			return nil, errColumn
		}
		t.comm = d.strings[s]
		t.kernel = c[schedFlags].uint()&schedOfKernel != 0
		d.threads = append(d.threads, t)
	}
	d.buf = resize(d.buf, count)
	var time int64
	var cpu uint16
	for i, k := range kinds {
		time += c[schedTime].int()
		cpu += uint16(c[schedCPU].int())
		state := uint32(c[schedState].uint())
		p, n := c[schedPrev].uint(), c[schedNext].uint()
		if p >= uint64(len(d.threads)) || n >= uint64(len(d.threads)) {
			return nil, errColumn
		}
		pt, nt := &d.threads[p], &d.threads[n]
		d.buf[i] = Sched{Time: time, CPU: cpu, Kind: SchedKind(k), PrevState: state,
			PrevTID: pt.tid, PrevPID: pt.pid, PrevComm: pt.comm, PrevPrio: pt.prio,
			NextTID: nt.tid, NextPID: nt.pid, NextComm: nt.comm, NextPrio: nt.prio,
			Held: int64(c[schedHeld].uint() & math.MaxInt64), PrevKernel: pt.kernel, NextKernel: nt.kernel}
	}
	c[schedKind].b = nil
	return d.buf, finish(c[:])
}
