// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// notes are the debug annotations of an event under construction.
type notes struct {
	p *packets
	m message
}

// Names of annotations that operators have whose values differ from run to run.
const (
	noteOpID = iota
	noteBandwidth
	noteFlopRate
	noteThreads
	noteImbalance
	noteProbe
	noteThread
	noteOffCPU
	hotNotes
)

var hotNames = [hotNotes]string{"op_id", "GB_per_s", "GFLOP_per_s", "threads", "imbalance", "probe_ns",
	"thread", "off_cpu_ns"}

// hot returns the number of one of these names.
func (n *notes) hot(i int) uint64 { return n.p.known(&n.p.notes[i], internNotes, hotNames[i]) }

// name returns the number of any other name.
func (n *notes) name(s string) uint64 { return n.p.intern(internNotes, s) }

// integer adds an annotation whose name is interned.
func (n *notes) integer(name uint64, v int64) {
	size := 1 + protowire.SizeVarint(name) + 1 + protowire.SizeVarint(uint64(v))
	m := append(n.m, eventNote<<3|lengthType, byte(size), noteName<<3|varintType)
	m = protowire.AppendVarint(m, name)
	m = append(m, noteInt<<3|varintType)
	n.m = protowire.AppendVarint(m, uint64(v))
}

// double is integer for floating point; what is no number is left out.
func (n *notes) double(name uint64, v float64) {
	size := 1 + protowire.SizeVarint(name) + 1 + 8
	m := append(n.m, eventNote<<3|lengthType, byte(size), noteName<<3|varintType)
	m = protowire.AppendVarint(m, name)
	m = append(m, noteDouble<<3|fixed64Type)
	n.m = protowire.AppendFixed64(m, math.Float64bits(v))
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func (n *notes) int(name string, v int64) { n.integer(n.name(name), v) }

// float adds a number; what is none is left out.
func (n *notes) float(name string, v float64) {
	if finite(v) {
		n.double(n.name(name), v)
	}
}

// text adds a string; an empty one is unknown and left out.
func (n *notes) text(name, v string) {
	if v == "" {
		return
	}
	id := n.name(name)
	s := n.p.intern(internNoteStrings, v)
	size := 1 + protowire.SizeVarint(id) + protowire.SizeTag(noteString) + protowire.SizeVarint(s)
	m := append(n.m, eventNote<<3|lengthType, byte(size), noteName<<3|varintType)
	m = protowire.AppendVarint(m, id)
	m = protowire.AppendTag(m, noteString, protowire.VarintType)
	n.m = protowire.AppendVarint(m, s)
}
