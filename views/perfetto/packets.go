// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/profinfer/profinfer/internal/clean"
)

const (
	eventSequence = 1 // all track events and descriptors
	schedSequence = 2 // all scheduling
	// maxInterned bounds the strings that a reader has to keep per sequence: beyond it, its state is reset.
	maxInterned = 1 << 16
)

// packets writes trace packets and tracks interned strings.
type packets struct {
	w       io.Writer
	err     error
	started bool
	// By field of InternedData: interned strings, and those to be written with the next packet.
	interned map[protowire.Number]map[string]uint64
	n        int
	fresh    message
	cleared  bool // the next packet begins a new state
	packet   message
	frame    message
}

func newPackets(w io.Writer) *packets {
	p := &packets{w: w, cleared: true}
	p.forget()
	return p
}

func (p *packets) forget() {
	p.interned = map[protowire.Number]map[string]uint64{}
	for _, f := range []protowire.Number{internCategories, internEvents, internNotes, internNoteStrings} {
		p.interned[f] = map[string]uint64{}
	}
	p.n = 0
}

// intern returns the number of a string in one of the tables.
func (p *packets) intern(table protowire.Number, s string) uint64 {
	t := p.interned[table]
	if id := t[s]; id != 0 {
		return id
	}
	id := uint64(len(t) + 1)
	t[s] = id
	p.n++
	p.fresh = p.fresh.sub(table, message(nil).uint(entryIID, id).str(entryName, clean.Perfetto(s)))
	return id
}

// write ends a packet with its sequence and writes it.
func (p *packets) write(m message) {
	if p.err != nil {
		return
	}
	p.frame = p.frame[:0]
	p.frame = p.frame.sub(tracePacket, m)
	_, p.err = p.w.Write(p.frame)
}

// event writes a packet of the events' sequence at time t, with the strings interned for it.
func (p *packets) event(t int64, field protowire.Number, body message) {
	m := p.packet[:0].uint(packetTimestamp, uint64(max(0, t))).uint(packetSequence, eventSequence)
	if p.cleared {
		m = m.uint(packetSequenceFlags, flagCleared|flagNeedState)
		if !p.started {
			m = m.uint(packetFirst, 1)
		}
		p.cleared, p.started = false, true
	} else {
		m = m.uint(packetSequenceFlags, flagNeedState)
	}
	if len(p.fresh) > 0 {
		m = m.sub(packetInterned, p.fresh)
		p.fresh = p.fresh[:0]
	}
	m = m.sub(field, body)
	p.packet = m
	p.write(m)
	if p.n > maxInterned {
		p.forget()
		p.cleared = true
	}
}

// descriptor writes a track's descriptor. It holds no interned strings and no time.
func (p *packets) descriptor(body message) {
	p.write(message(nil).uint(packetSequence, eventSequence).sub(packetDescriptor, body))
}

// notes are the debug annotations of an event under construction.
type notes struct {
	p *packets
	m message
}

func (n *notes) add(name string, value func(message) message) {
	n.m = n.m.sub(eventNote, value(message(nil).uint(noteName, n.p.intern(internNotes, name))))
}

func (n *notes) int(name string, v int64) {
	n.add(name, func(m message) message { return m.int(noteInt, v) })
}

func (n *notes) float(name string, v float64) {
	if !math.IsNaN(v) && !math.IsInf(v, 0) {
		n.add(name, func(m message) message { return m.double(noteDouble, v) })
	}
}

// text adds a string; an empty one is unknown and left out.
func (n *notes) text(name, v string) {
	if v != "" {
		n.add(name, func(m message) message { return m.uint(noteString, n.p.intern(internNoteStrings, v)) })
	}
}
