// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Perfetto publishes no Go package of its protos, and generated types would buffer a packet before it is
// written. Field numbers are from google/perfetto's protos/perfetto/trace (v58).
const (
	tracePacket = 1 // Trace.packet

	// TracePacket
	packetFtrace        = 1
	packetProcessTree   = 2
	packetTimestamp     = 8
	packetSequence      = 10
	packetTrackEvent    = 11
	packetInterned      = 12
	packetSequenceFlags = 13
	packetSystemInfo    = 45
	packetDescriptor    = 60
	packetFirst         = 87

	// TrackDescriptor
	descUUID      = 1
	descName      = 2
	descProcess   = 3
	descThread    = 4
	descParent    = 5
	descCounter   = 8
	descOrdering  = 11
	descOrderRank = 12

	procPID    = 1 // ProcessDescriptor
	procName   = 6
	threadPID  = 1 // ThreadDescriptor
	threadTID  = 2
	threadName = 5

	counterUnitName = 6 // CounterDescriptor
	counterShareKey = 7 // tracks with the same key are drawn to the same scale

	// TrackEvent
	eventCategory = 3
	eventNote     = 4
	eventType     = 9
	eventName     = 10
	eventTrack    = 11
	eventDouble   = 44
	eventFlow     = 47 // fixed64, as is the next: an arrow to the event that ends it
	eventFlowEnd  = 48

	typeBegin   = 1
	typeEnd     = 2
	typeInstant = 3
	typeCounter = 4

	// DebugAnnotation
	noteName   = 1
	noteUint   = 3
	noteInt    = 4
	noteDouble = 5
	noteString = 17 // interned

	// InternedData; an entry is iid 1, name (or str) 2
	internCategories  = 1
	internEvents      = 2
	internNotes       = 3
	internNoteStrings = 29
	entryIID          = 1
	entryName         = 2

	// FtraceEventBundle, FtraceEvent
	bundleCPU    = 1
	bundleEvent  = 2
	ftraceTime   = 1
	ftracePID    = 2
	ftraceSwitch = 4
	ftraceWaking = 20

	// ProcessTree
	treeProcess   = 1 // pid 1, ppid 2, cmdline 3
	treeThread    = 2 // tid 1, name 2, tgid 3
	infoUtsname   = 1 // SystemInfo.utsname: sysname 1, version 2, release 3, machine 4
	flagCleared   = 1 // SEQ_INCREMENTAL_STATE_CLEARED
	flagNeedState = 2 // SEQ_NEEDS_INCREMENTAL_STATE
)

// Types of fields, for tags of one byte.
const (
	varintType  = byte(protowire.VarintType)
	fixed64Type = byte(protowire.Fixed64Type)
	lengthType  = byte(protowire.BytesType)
)

// message is a protobuf message under construction.
type message []byte

func (m message) uint(field protowire.Number, v uint64) message {
	m = protowire.AppendTag(m, field, protowire.VarintType)
	return protowire.AppendVarint(m, v)
}

// int writes an int32 or int64 (two's complement, ten bytes if negative).
func (m message) int(field protowire.Number, v int64) message { return m.uint(field, uint64(v)) }

func (m message) fixed(field protowire.Number, v uint64) message {
	m = protowire.AppendTag(m, field, protowire.Fixed64Type)
	return protowire.AppendFixed64(m, v)
}

func (m message) str(field protowire.Number, s string) message {
	m = protowire.AppendTag(m, field, protowire.BytesType)
	return protowire.AppendString(m, s)
}

func (m message) sub(field protowire.Number, s message) message {
	m = protowire.AppendTag(m, field, protowire.BytesType)
	return protowire.AppendBytes(m, s)
}
