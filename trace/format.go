// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strconv"
)

// The container's layout is described in docs/trace-format.md. All integers of the
// headers are little-endian.

// Version of the format that this package writes. A reader supports every minor version of its major version
// and refuses newer major ones.
const (
	Major = 1
	Minor = 0
)

const (
	fileMagic      = "PINF"
	fileHeaderSize = 32

	blockMagic      = "\x89PBk"
	blockHeaderSize = 48

	// Maximum length of a block's payload, stored or not. Writers start a new block far earlier.
	maxRaw = 16 << 20
	// Maximum number of records in a block: it bounds what a reader allocates.
	maxCount = 1 << 18
)

// Type is the type of a block.
type Type uint16

// Types of blocks.
const (
	TypeMeta     Type = 1
	TypeProcess  Type = 2
	TypeThreads  Type = 3
	TypeShape    Type = 4
	TypeHits     Type = 5
	TypeMarks    Type = 6
	TypeStepSeqs Type = 7
	TypeSched    Type = 8
	TypeLoss     Type = 9
	TypeExit     Type = 10
	TypeDrain    Type = 11
	TypeEnd      Type = 12

	// Positions of blocks: earlier versions wrote it at the end of a trace, now skipped.
	typeIndex   Type = 13
	typeTrailer Type = 14

	TypeWatch   Type = 15
	TypeSamples Type = 16
	TypeExperts Type = 17

	TypeFaults Type = 18
	TypeMemory Type = 22
)

var typeNames = [...]string{TypeMeta: "meta", TypeProcess: "process", TypeThreads: "threads",
	TypeShape: "shape",
	TypeHits:  "hits", TypeMarks: "marks", TypeStepSeqs: "stepseqs", TypeSched: "sched", TypeLoss: "loss",
	TypeExit: "exit", TypeDrain: "drain", TypeEnd: "end", typeIndex: "index", typeTrailer: "trailer",
	TypeWatch: "watch", TypeSamples: "samples",
	TypeFaults: "faults", TypeMemory: "memory", TypeExperts: "experts"}

func (t Type) String() string {
	if t == TypeCPU {
		return "cpu"
	}
	if int(t) < len(typeNames) && typeNames[t] != "" {
		return typeNames[t]
	}
	return "type " + strconv.Itoa(int(t))
}

// Codecs of a block's payload.
const (
	codecNone = 0
	codecZstd = 1
)

// Flags of a block.
const (
	flagSegment = 1 << 0 // a segment begins here: a reader may start here too
	flagRepeat  = 1 << 1 // the payload is byte for byte that of an earlier block
)

// Errors that Open, NewReader and Create wrap. Their texts say what to do.
var (
	ErrNotTrace = errors.New("not a profinfer trace")
	ErrEmpty    = errors.New("empty trace")
	ErrNewer    = errors.New("trace of a newer version")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// FileHeader is the content of the file's header.
type FileHeader struct {
	Major, Minor uint16
	// Compat are features that a reader may ignore, Incompat those that it must support.
	Compat, Incompat uint32
}

// knownIncompat are the features that this package supports.
const knownIncompat = 0

func (h FileHeader) append(b []byte) []byte {
	n := len(b)
	b = append(b, fileMagic...)
	b = binary.LittleEndian.AppendUint16(b, h.Major)
	b = binary.LittleEndian.AppendUint16(b, h.Minor)
	b = binary.LittleEndian.AppendUint32(b, h.Compat)
	b = binary.LittleEndian.AppendUint32(b, h.Incompat)
	b = append(b, make([]byte, 12)...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[n:], castagnoli))
}

// parseFileHeader reads the 32 bytes of b. ok is false if the checksum is wrong.
func parseFileHeader(b []byte) (h FileHeader, ok bool) {
	le := binary.LittleEndian
	h = FileHeader{Major: le.Uint16(b[4:]), Minor: le.Uint16(b[6:]), Compat: le.Uint32(b[8:]),
		Incompat: le.Uint32(b[12:])}
	return h, crc32.Checksum(b[:28], castagnoli) == le.Uint32(b[28:])
}

// blockHeader precedes each block's payload.
type blockHeader struct {
	Type        Type
	Codec       uint8
	Flags       uint8
	Raw, Stored uint32 // bytes of the payload, unpacked and stored
	Count       uint32 // records (for a shape: nodes; for threads: threads; else 1)
	Seq         uint32 // number of the block in the file, from 0, wrapping
	First, Last int64
	Sum         uint32 // CRC32C of the stored payload
}

// put writes the header to b[:48], its own checksum last.
func (h *blockHeader) put(b []byte) {
	le := binary.LittleEndian
	copy(b, blockMagic)
	le.PutUint16(b[4:], uint16(h.Type))
	b[6], b[7] = h.Codec, h.Flags
	le.PutUint32(b[8:], h.Raw)
	le.PutUint32(b[12:], h.Stored)
	le.PutUint32(b[16:], h.Count)
	le.PutUint32(b[20:], h.Seq)
	le.PutUint64(b[24:], uint64(h.First))
	le.PutUint64(b[32:], uint64(h.Last))
	le.PutUint32(b[40:], h.Sum)
	le.PutUint32(b[44:], crc32.Checksum(b[:44], castagnoli))
}

// parse reads b[:48]; it returns false if the magic or the header's checksum is wrong.
func (h *blockHeader) parse(b []byte) bool {
	le := binary.LittleEndian
	if len(b) < blockHeaderSize || string(b[:4]) != blockMagic ||
		crc32.Checksum(b[:44], castagnoli) != le.Uint32(b[44:]) {
		return false
	}
	*h = blockHeader{Type: Type(le.Uint16(b[4:])), Codec: b[6], Flags: b[7],
		Raw: le.Uint32(b[8:]), Stored: le.Uint32(b[12:]), Count: le.Uint32(b[16:]), Seq: le.Uint32(b[20:]),
		First: int64(le.Uint64(b[24:])), Last: int64(le.Uint64(b[32:])), Sum: le.Uint32(b[40:])}
	return true
}
