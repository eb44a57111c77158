// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/profinfer/profinfer/internal/beside"
	"github.com/profinfer/profinfer/internal/clean"
)

const (
	eventSequence = 1 // all track events and descriptors
	schedSequence = 2 // all scheduling
	// maxInterned bounds the strings that a reader has to keep per sequence: beyond it, its state is reset.
	maxInterned = 1 << 16
)

// packets appends trace packets to a buffer, which is written when it is full, and tracks interned strings.
type packets struct {
	w       *beside.Writer
	out     []byte
	failed  bool // a write failed: w knows why
	started bool
	// Interned strings by field of InternedData, and those to be written with the next packet.
	categories, events, noteNames, noteStrings map[string]uint64

	n       int
	epoch   int // counts the states of a reader, from 1
	fresh   message
	cleared bool // the next packet begins a new state
	notes   [hotNotes]handle
}

// errWrite ends a replay whose export cannot be written.
var errWrite = errors.New("the export cannot be written")

// handle remembers the number of a string that is interned often.
type handle struct {
	epoch int // in which id is valid
	id    uint64
}

func newPackets(w *beside.Writer) *packets {
	p := &packets{w: w, cleared: true}
	p.out, _ = w.Pass(nil)
	p.forget()
	return p
}

func (p *packets) forget() {
	p.categories, p.events = map[string]uint64{}, map[string]uint64{}
	p.noteNames, p.noteStrings = map[string]uint64{}, map[string]uint64{}
	p.n = 0
	p.epoch++
}

// table returns the strings interned in a field of InternedData.
func (p *packets) table(field protowire.Number) map[string]uint64 {
	switch field {
	case internCategories:
		return p.categories
	case internEvents:
		return p.events
	case internNotes:
		return p.noteNames
	}
	return p.noteStrings
}

// intern returns the number of a string in one of the tables.
func (p *packets) intern(field protowire.Number, s string) uint64 {
	t := p.table(field)
	if id := t[s]; id != 0 {
		return id
	}
	id := uint64(len(t) + 1)
	t[s] = id
	p.n++
	p.fresh = p.fresh.sub(field, message(nil).uint(entryIID, id).str(entryName, clean.Perfetto(s)))
	return id
}

// known is intern for a string that h stands for.
func (p *packets) known(h *handle, field protowire.Number, s string) uint64 {
	if h.epoch != p.epoch {
		*h = handle{p.epoch, p.intern(field, s)}
	}
	return h.id
}

// write writes a packet.
func (p *packets) write(m message) {
	p.out = message(p.out).sub(tracePacket, m)
	p.written()
}

// written hands over what was written, once it is enough.
func (p *packets) written() {
	if p.w.Full(p.out) {
		p.flush()
	}
}

// flush hands over what was written.
func (p *packets) flush() {
	var ok bool
	if p.out, ok = p.w.Pass(p.out); !ok {
		p.failed = true
	}
}

// err returns an error that ends the export once a write has failed; the writer's is the one to tell.
func (p *packets) err() error {
	if p.failed {
		return errWrite
	}
	return nil
}

// room is more than what a packet has before its strings and annotations.
const room = 80

// event begins a packet of the events' sequence at time t: a track event of n bytes, with the strings interned
// for it. The caller writes the event's fields to b from i on, and calls ended.
func (p *packets) event(t int64, n int) (b *[room]byte, i int) {
	at := uint64(max(0, t))
	size := 1 + protowire.SizeVarint(at) + 2 + 2 + 1 + protowire.SizeVarint(uint64(n)) + n
	rare := p.cleared || len(p.fresh) > 0
	if rare {
		p.state(at, size)
	}
	from := len(p.out)
	if cap(p.out)-from < room {
		p.out = slices.Grow(p.out, room)
	}
	b = (*[room]byte)(p.out[from : from+room])
	if !rare {
		b[0] = tracePacket<<3 | lengthType
		i = put(b, 1, uint64(size))
		b[i] = packetTimestamp<<3 | varintType
		i = put(b, i+1, at)
		b[i], b[i+1] = packetSequence<<3|varintType, eventSequence
		b[i+2], b[i+3] = packetSequenceFlags<<3|varintType, flagNeedState
		i += 4
	}
	b[i] = packetTrackEvent<<3 | lengthType
	return b, put(b, i+1, uint64(n))
}

// state writes what is before the track event in a packet that begins a new state or that has new strings.
// size is the packet's without these.
func (p *packets) state(at uint64, size int) {
	flags := uint64(flagNeedState)
	first := p.cleared && !p.started
	if first {
		size += protowire.SizeTag(packetFirst) + 1
	}
	if p.cleared {
		flags |= flagCleared
		p.cleared, p.started = false, true
	}
	if len(p.fresh) > 0 {
		size += 1 + protowire.SizeBytes(len(p.fresh))
	}
	m := message(protowire.AppendTag(p.out, tracePacket, protowire.BytesType))
	m = protowire.AppendVarint(m, uint64(size))
	m = m.uint(packetTimestamp, at).uint(packetSequence, eventSequence).uint(packetSequenceFlags, flags)
	if first {
		m = m.uint(packetFirst, 1)
	}
	if len(p.fresh) > 0 {
		m = m.sub(packetInterned, p.fresh)
		p.fresh = p.fresh[:0]
	}
	p.out = m
}

// ended ends a packet that event began: the first n bytes were written, notes follow.
func (p *packets) ended(n int, notes message) {
	p.out = append(p.out[:len(p.out)+n], notes...)
	p.written()
	if p.n > maxInterned {
		p.forget()
		p.cleared = true
	}
}

// put writes v at b[i:] and returns what follows it.
func put(b *[room]byte, i int, v uint64) int {
	for v >= 1<<7 {
		b[i] = byte(v) | 1<<7
		v >>= 7
		i++
	}
	b[i] = byte(v)
	return i + 1
}

// begin writes the begin of a slice: its category and name are interned.
func (p *packets) begin(at int64, track, category, name uint64, notes message) {
	n := 1 + protowire.SizeVarint(category) + 2 + 1 + protowire.SizeVarint(track) +
		1 + protowire.SizeVarint(name) + len(notes)
	b, i := p.event(at, n)
	b[i] = eventCategory<<3 | varintType
	i = put(b, i+1, category)
	b[i], b[i+1] = eventType<<3|varintType, typeBegin
	b[i+2] = eventTrack<<3 | varintType
	i = put(b, i+3, track)
	b[i] = eventName<<3 | varintType
	p.ended(put(b, i+1, name), notes)
}

// end writes the end of a slice.
func (p *packets) end(at int64, track uint64, notes message) {
	b, i := p.event(at, 2+1+protowire.SizeVarint(track)+len(notes))
	b[i], b[i+1] = eventType<<3|varintType, typeEnd
	b[i+2] = eventTrack<<3 | varintType
	p.ended(put(b, i+3, track), notes)
}

// value writes a counter's value.
func (p *packets) value(at int64, track uint64, v float64) {
	b, i := p.event(at, 2+1+protowire.SizeVarint(track)+protowire.SizeTag(eventDouble)+8)
	b[i], b[i+1] = eventType<<3|varintType, typeCounter
	b[i+2] = eventTrack<<3 | varintType
	i = put(b, i+3, track)
	i = put(b, i, protowire.EncodeTag(eventDouble, protowire.Fixed64Type))
	binary.LittleEndian.PutUint64(b[i:], math.Float64bits(v))
	p.ended(i+8, nil)
}

// descriptor writes a track's descriptor. It holds no interned strings and no time.
func (p *packets) descriptor(body message) {
	p.write(message(nil).uint(packetSequence, eventSequence).sub(packetDescriptor, body))
}
