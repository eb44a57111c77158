// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/profinfer/profinfer/profile/ops"
)

// The overview shows for each track how its time was used, in bins of equal width that are wide enough for it
// to be small for any run: drawing the whole run needs no chunk. The sums of a track's bins equal those of
// its spans, to the nanosecond.

// Overview describes the bins. The block of Timeline holds, for each track, its bins as columns, one per
// channel.
type Overview struct {
	Bin    int64           `json:"bin_ns"` // width of a bin
	Tracks []OverviewTrack `json:"tracks"`
}

// OverviewTrack are the bins of one track.
type OverviewTrack struct {
	// "thread": channels are the kinds of operators, then wait, then off-CPU; "cpu": engine's threads,
	// others, unknown
	Track string `json:"track"`
	Index int    `json:"index"`    // of Timeline.Threads; the CPU's number
	Start int64  `json:"start_ns"` // of its first bin
	Bins  int    `json:"bins"`
}

const (
	// Limits of the bins of one track and of all tracks.
	maxTrackBins = 1 << 13
	maxAllBins   = 1 << 16

	chanWait = ops.NumKinds
	chanOff  = ops.NumKinds + 1
	thChans  = ops.NumKinds + 2

	cpuOwn   = 0
	cpuOther = 1
	cpuLost  = 2
	cpuChans = 3
)

type overview struct {
	shift  uint // a bin is 1<<shift ns wide
	bins   int  // of all tracks
	tracks []*binTrack
	thread []*binTrack
	cpu    map[int]*binTrack
}

type binTrack struct {
	kind  string
	index int
	chans int
	first int64 // number of its first bin: time >> shift
	cells []int64
}

func (v *overview) add(kind string, index, chans int) *binTrack {
	t := &binTrack{kind: kind, index: index, chans: chans}
	v.tracks = append(v.tracks, t)
	return t
}

// operator adds an operator's span on a thread: busy and off-CPU from start to its arrival, then its wait
// until end.
func (v *overview) operator(thread, kind int, start, busy, off, end, wait int64) {
	for len(v.thread) <= thread {
		v.thread = append(v.thread, nil)
	}
	t := v.thread[thread]
	if t == nil {
		t = v.add("thread", thread, thChans)
		v.thread[thread] = t
	}
	v.spread(t, kind, start, busy+off, busy)
	v.spread(t, chanOff, start, busy+off, off)
	v.spread(t, chanWait, end-wait, wait, wait)
}

// onCPU adds a span of a CPU.
func (v *overview) onCPU(cpu, channel int, start, dur int64) {
	if v.cpu == nil {
		v.cpu = map[int]*binTrack{}
	}
	t := v.cpu[cpu]
	if t == nil {
		t = v.add("cpu", cpu, cpuChans)
		v.cpu[cpu] = t
	}
	v.spread(t, channel, start, dur, dur)
}

// spread adds amount to a channel's bins, evenly over dur from start. Rounding loses not a nanosecond.
func (v *overview) spread(t *binTrack, channel int, start, dur, amount int64) {
	if amount <= 0 || dur <= 0 || start < 0 || start+dur < start {
		return // of a trace with invalid times
	}
	end := start + dur
	v.reach(t, start>>v.shift, (end-1)>>v.shift)
	from, to := start>>v.shift, (end-1)>>v.shift
	var done int64
	for bin := from; bin <= to; bin++ {
		share := amount
		if edge := (bin + 1) << v.shift; bin < to {
			hi, lo := bits.Mul64(uint64(amount), uint64(edge-start))
			if hi < uint64(dur) {
				q, _ := bits.Div64(hi, lo, uint64(dur))
				share = int64(q)
			}
		}
		t.cells[int(bin-t.first)*t.chans+channel] += share - done
		done = share
	}
}

// reach makes room for bins from..to, of the width at the call; bins get wider if there would be too many.
func (v *overview) reach(t *binTrack, from, to int64) {
	width := v.shift
	for {
		a, b := from>>(v.shift-width), to>>(v.shift-width)
		n := int64(len(t.cells) / t.chans)
		if n > 0 {
			a, b = min(a, t.first), max(b, t.first+n-1)
		}
		if b-a+1 <= maxTrackBins && int64(v.bins)+b-a+1-n <= maxAllBins || v.shift >= 62 {
			if n == 0 {
				t.first = a
			}
			if a < t.first {
				t.cells = append(make([]int64, int(t.first-a)*t.chans, int(b-a+1)*t.chans), t.cells...)
				t.first = a
			}
			t.cells = append(t.cells, make([]int64, int(b-a+1)*t.chans-len(t.cells))...)
			v.bins += int(b - a + 1 - n)
			return
		}
		v.widen()
	}
}

// widen doubles the width of all bins.
func (v *overview) widen() {
	v.shift++
	v.bins = 0
	for _, t := range v.tracks {
		n := len(t.cells) / t.chans
		if n == 0 {
			continue
		}
		first := t.first >> 1
		last := (t.first + int64(n) - 1) >> 1
		cells := make([]int64, int(last-first+1)*t.chans)
		for i := range n {
			at := int((t.first+int64(i))>>1-first) * t.chans
			for c := range t.chans {
				cells[at+c] += t.cells[i*t.chans+c]
			}
		}
		t.first, t.cells = first, cells
		v.bins += int(last - first + 1)
	}
}

// encode returns the tracks and their bins: for each track the columns of its channels.
func (v *overview) encode(base int64) (Overview, []byte) {
	tracks := slices.Clone(v.tracks)
	slices.SortStableFunc(tracks, func(a, b *binTrack) int {
		return cmp.Or(cmp.Compare(b.kind, a.kind), cmp.Compare(a.index, b.index)) // threads first
	})
	o := Overview{Bin: 1 << v.shift}
	var out []byte
	for _, t := range tracks {
		n := len(t.cells) / t.chans
		o.Tracks = append(o.Tracks, OverviewTrack{Track: t.kind, Index: t.index,
			Start: t.first<<v.shift - base, Bins: n})
		c := columns{rows: n}
		c.init(t.chans)
		for i := range n {
			for k := range t.chans {
				c.col[k] = binary.AppendVarint(c.col[k], t.cells[i*t.chans+k])
			}
		}
		out = c.appendTo(out)
	}
	return o, out
}
