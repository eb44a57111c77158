// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"math"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// checked is a trace as a parser sees it. It is read field by field; anything that is not
// understood fails.
type checked struct {
	t        *testing.T
	tracks   map[uint64]*checkedTrack
	interned map[protowire.Number]map[uint64]string
	slices   []slice
	counters map[uint64][]float64
	switches map[uint64][]int64 // times by CPU
	running  map[uint64]int64
	threads  map[int64]string // of the process tree
	kernel   string
	packets  int
}

type checkedTrack struct {
	name, thread, process string
	pid, tid              int64
	parent                uint64
	unit                  string
	last                  int64
	open                  []slice
}

type slice struct {
	track      uint64
	name, cat  string
	start, dur int64
	depth      int
	notes      map[string]string
	flows      []uint64
	ends       []uint64
}

// fields calls f for each field of a message.
func fields(t *testing.T, b []byte, f func(num protowire.Number, v uint64, s []byte)) {
	t.Helper()
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatalf("bad tag: %v", protowire.ParseError(n))
		}
		b = b[n:]
		switch typ {
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				t.Fatal("bad varint")
			}
			f(num, v, nil)
			b = b[n:]
		case protowire.Fixed64Type:
			v, n := protowire.ConsumeFixed64(b)
			if n < 0 {
				t.Fatal("bad fixed64")
			}
			f(num, v, nil)
			b = b[n:]
		case protowire.BytesType:
			s, n := protowire.ConsumeBytes(b)
			if n < 0 {
				t.Fatal("bad bytes")
			}
			f(num, 0, s)
			b = b[n:]
		default:
			t.Fatalf("field %d has wire type %d", num, typ)
		}
	}
}

// check reads a gzipped trace and fails where slices do not nest, time goes back on a track or
// CPU, a string is not text, or a reference leads nowhere.
func check(t *testing.T, gz []byte) *checked {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(gz))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	c := &checked{t: t, tracks: map[uint64]*checkedTrack{}, counters: map[uint64][]float64{},
		switches: map[uint64][]int64{}, running: map[uint64]int64{}, threads: map[int64]string{}}
	first := true
	fields(t, raw, func(num protowire.Number, _ uint64, s []byte) {
		if num != tracePacket {
			t.Fatalf("Trace has a field %d", num)
		}
		c.packet(s, &first)
	})
	for id, k := range c.tracks {
		if len(k.open) > 0 {
			t.Errorf("track %d (%s%s) ends with %d open slices, the first %q", id, k.name, k.thread,
				len(k.open), k.open[0].name)
		}
		if k.parent != 0 && c.tracks[k.parent] == nil {
			t.Errorf("track %d has a parent that is not described", id)
		}
	}
	return c
}

func (c *checked) text(s []byte) string {
	if !utf8.Valid(s) {
		c.t.Errorf("%q is not UTF-8", s)
	}
	for _, b := range s {
		if b < 0x20 {
			c.t.Errorf("%q holds control characters", s)
			break
		}
	}
	return string(s)
}

func (c *checked) packet(b []byte, first *bool) {
	c.packets++
	var at int64
	var seq, flags uint64
	hasTime, isFirst := false, false
	var event, interned, desc, ftrace, tree, info []byte
	fields(c.t, b, func(num protowire.Number, v uint64, s []byte) {
		switch num {
		case packetTimestamp:
			at, hasTime = int64(v), true
		case packetSequence:
			seq = v
		case packetSequenceFlags:
			flags = v
		case packetFirst:
			isFirst = true
		case packetTrackEvent:
			event = s
		case packetInterned:
			interned = s
		case packetDescriptor:
			desc = s
		case packetFtrace:
			ftrace = s
		case packetProcessTree:
			tree = s
		case packetSystemInfo:
			info = s
		default:
			c.t.Fatalf("TracePacket has a field %d", num)
		}
	})
	if seq == 0 {
		c.t.Fatal("a packet has no sequence")
	}
	if flags&flagCleared != 0 {
		c.interned = map[protowire.Number]map[uint64]string{}
	}
	if interned != nil {
		fields(c.t, interned, func(num protowire.Number, _ uint64, s []byte) {
			var id uint64
			var name string
			fields(c.t, s, func(f protowire.Number, v uint64, s []byte) {
				if f == entryIID {
					id = v
				} else {
					name = c.text(s)
				}
			})
			if c.interned[num] == nil {
				c.interned[num] = map[uint64]string{}
			}
			if id == 0 || c.interned[num][id] != "" {
				c.t.Errorf("interned string %d of table %d is told twice or has no number", id, num)
			}
			c.interned[num][id] = name
		})
	}
	if event != nil {
		if *first != isFirst || (isFirst && flags&flagCleared == 0) {
			c.t.Error("the first packet of the sequence is not marked, or another one is")
		}
		*first = false
		if seq != eventSequence || !hasTime || flags&flagNeedState == 0 {
			c.t.Error("a track event lacks its sequence, time or flags")
		}
		c.event(at, event)
	}
	if desc != nil {
		c.descriptor(desc)
	}
	if ftrace != nil {
		c.ftrace(ftrace)
	}
	if tree != nil {
		fields(c.t, tree, func(num protowire.Number, _ uint64, s []byte) {
			if num != treeThread {
				return
			}
			var tid int64
			fields(c.t, s, func(f protowire.Number, v uint64, s []byte) {
				switch f {
				case 1:
					tid = int64(v)
				case 2:
					c.threads[tid] = c.text(s)
				}
			})
		})
	}
	if info != nil {
		fields(c.t, info, func(_ protowire.Number, _ uint64, s []byte) {
			fields(c.t, s, func(f protowire.Number, _ uint64, s []byte) {
				if f == 3 {
					c.kernel = c.text(s)
				}
			})
		})
	}
}

func (c *checked) descriptor(b []byte) {
	var id uint64
	k := &checkedTrack{}
	fields(c.t, b, func(num protowire.Number, v uint64, s []byte) {
		switch num {
		case descUUID:
			id = v
		case descName:
			k.name = c.text(s)
		case descParent:
			k.parent = v
		case descProcess, descThread:
			fields(c.t, s, func(f protowire.Number, v uint64, s []byte) {
				switch {
				case f == 1:
					k.pid = int64(v)
				case num == descThread && f == threadTID:
					k.tid = int64(v)
				case num == descThread && f == threadName:
					k.thread = c.text(s)
				case num == descProcess && f == procName:
					k.process = c.text(s)
				}
			})
		case descCounter:
			fields(c.t, s, func(_ protowire.Number, _ uint64, s []byte) { k.unit = c.text(s) })
		default:
			c.t.Fatalf("TrackDescriptor has a field %d", num)
		}
	})
	if id == 0 {
		c.t.Fatal("a track has no number")
	}
	if old := c.tracks[id]; old != nil { // told again: only names may change
		if old.pid != k.pid || old.tid != k.tid || old.parent != k.parent {
			c.t.Errorf("track %d became another one", id)
		}
		k.last, k.open = old.last, old.open
	}
	c.tracks[id] = k
}

func (c *checked) lookup(table protowire.Number, id uint64) string {
	s, ok := c.interned[table][id]
	if !ok {
		c.t.Errorf("string %d of table %d was never told", id, table)
	}
	return s
}

func (c *checked) event(at int64, b []byte) {
	var typ, id uint64
	s := slice{start: at, notes: map[string]string{}}
	value := math.NaN()
	fields(c.t, b, func(num protowire.Number, v uint64, m []byte) {
		switch num {
		case eventType:
			typ = v
		case eventTrack:
			id = v
		case eventName:
			s.name = c.lookup(internEvents, v)
		case eventCategory:
			s.cat = c.lookup(internCategories, v)
		case eventDouble:
			value = math.Float64frombits(v)
		case eventNote:
			var name, val string
			fields(c.t, m, func(f protowire.Number, v uint64, _ []byte) {
				switch f {
				case noteName:
					name = c.lookup(internNotes, v)
				case noteInt:
					val = fmt.Sprint(int64(v))
				case noteDouble:
					val = fmt.Sprintf("%.6g", math.Float64frombits(v))
				case noteString:
					val = c.lookup(internNoteStrings, v)
				default:
					c.t.Fatalf("DebugAnnotation has a field %d", f)
				}
			})
			s.notes[name] = val
		case eventFlow:
			s.flows = append(s.flows, v)
		case eventFlowEnd:
			s.ends = append(s.ends, v)
		default:
			c.t.Fatalf("TrackEvent has a field %d", num)
		}
	})
	k := c.tracks[id]
	if k == nil {
		c.t.Fatalf("an event is on track %d, which is not described yet", id)
	}
	if at < k.last {
		c.t.Errorf("time goes back on track %d from %d to %d (%q)", id, k.last, at, s.name)
	}
	k.last = at
	s.track = id
	switch typ {
	case typeBegin:
		s.depth = len(k.open)
		k.open = append(k.open, s)
	case typeEnd:
		if len(k.open) == 0 {
			c.t.Fatalf("a slice ends on track %d at %d that did not begin", id, at)
		}
		begun := k.open[len(k.open)-1]
		k.open = k.open[:len(k.open)-1]
		begun.dur = at - begun.start
		maps.Copy(begun.notes, s.notes)
		c.slices = append(c.slices, begun)
	case typeCounter:
		if math.IsNaN(value) {
			c.t.Error("a counter has no value")
		}
		c.counters[id] = append(c.counters[id], value)
	default:
		c.t.Fatalf("an event has type %d", typ)
	}
}

func (c *checked) ftrace(b []byte) {
	cpu := ^uint64(0)
	fields(c.t, b, func(num protowire.Number, v uint64, s []byte) {
		switch num {
		case bundleCPU:
			cpu = v
		case bundleEvent:
			var at int64
			fields(c.t, s, func(f protowire.Number, v uint64, s []byte) {
				switch f {
				case ftraceTime:
					at = int64(v)
				case ftraceSwitch:
					var prev, next int64
					fields(c.t, s, func(f protowire.Number, v uint64, s []byte) {
						switch f {
						case 1, 5:
							c.text(s)
						case 2:
							prev = int64(v)
						case 6:
							next = int64(v)
						}
					})
					if n := len(c.switches[cpu]); n > 0 {
						if at < c.switches[cpu][n-1] {
							c.t.Errorf("time goes back on CPU %d", cpu)
						}
						if c.running[cpu] != prev {
							c.t.Errorf("CPU %d at %d: thread %d leaves, but %d ran", cpu, at, prev,
								c.running[cpu])
						}
					}
					c.switches[cpu] = append(c.switches[cpu], at)
					c.running[cpu] = next
				}
			})
		}
	})
}

// named returns the slices of a name.
func (c *checked) named(name string) (out []slice) {
	for _, s := range c.slices {
		if s.name == name {
			out = append(out, s)
		}
	}
	return out
}
