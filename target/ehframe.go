// SPDX-License-Identifier: Apache-2.0

package target

import (
	"debug/elf"
	"encoding/binary"
)

// Unwind information: .eh_frame is a list of records, each with a length (4 bytes), an id (4 bytes; 0: a CIE,
// otherwise an FDE: the distance back to its CIE), and a body. Linux Standard Base, "Exception Frames";
// pointer encodings DW_EH_PE_*. The standard library does not read it.

// unwindSteps is the cost of a record.
const unwindSteps = 8

// unwindFunctions reads the extents of all functions in .eh_frame.
func (e *ELF) unwindFunctions() ([]Function, error) {
	addr, off, size, err := e.ehFrame()
	if err != nil || size == 0 {
		return nil, err
	}
	le := binary.LittleEndian
	encodings := map[uint64]uint8{} // of CIEs, by position
	var out []Function
	for at := uint64(0); at+8 <= size; {
		b, err := e.ahead(off + at) // the start is enough of a long record
		if err != nil {
			return out, err
		}
		if len(b) < 8 {
			return out, e.cut(off+at, 8)
		}
		n := uint64(le.Uint32(b))
		if n == 0 {
			break // the terminator
		}
		if n == 0xffffffff || at+4+n > size || n < 4 {
			return out, e.errf("its unwind information is damaged at %#x", addr+at)
		}
		if !e.spend(unwindSteps) {
			return out, e.over
		}
		id, body := uint64(le.Uint32(b[4:])), b[8:min(uint64(len(b)), 4+n)]
		if id == 0 {
			if enc, ok := cieEncoding(body); ok {
				encodings[at] = enc
			}
		} else if enc, ok := encodings[at+4-id]; ok {
			if f, ok := fdeRange(body, addr+at+8, enc); ok {
				out = append(out, f)
			}
		}
		if len(out)+len(encodings) > maxFunctions {
			return nil, e.tooMany("records of unwind information", maxFunctions)
		}
		at += 4 + n
	}
	return out, nil
}

// ehFrame finds .eh_frame by its section, or by the header that the loader's unwinder uses. It returns its
// address, file offset and size (0: none).
func (e *ELF) ehFrame() (addr, off, size uint64, err error) {
	if s, ok := e.section(".eh_frame"); ok && s.typ != elf.SHT_NOBITS {
		return s.addr, s.off, s.size, e.within(s.off, s.size)
	}
	for _, s := range e.segs {
		if s.typ != elf.PT_GNU_EH_FRAME {
			continue
		}
		// version 1, encoding of the pointer that follows, of the count, of the table
		var h [8]byte
		if err := e.ReadAddr(s.addr, h[:]); err != nil {
			return 0, 0, 0, err
		}
		if h[0] != 1 || h[1] != 0x1b { // pcrel | sdata4, the only one linkers write
			return 0, 0, 0, e.errf("its unwind header is of an unknown kind (%d, %#x)", h[0], h[1])
		}
		addr = s.addr + 4 + uint64(int64(int32(binary.LittleEndian.Uint32(h[4:]))))
		l, ok := e.load(addr)
		if !ok {
			return 0, 0, 0, e.errf("its unwind information is not in the file")
		}
		off, size = l.off+(addr-l.addr), l.filesz-(addr-l.addr)
		return addr, off, size, e.within(off, size)
	}
	return 0, 0, 0, nil
}

// cieEncoding returns how a CIE's FDEs encode addresses ('R' of the augmentation).
func cieEncoding(b []byte) (uint8, bool) {
	if len(b) < 2 {
		return 0, false
	}
	version := b[0]
	aug := cString(b, 1)
	b = b[min(len(b), 1+len(aug)+1):]
	if aug == "" {
		return 0, true // absolute addresses of 8 bytes
	}
	if aug[0] != 'z' {
		return 0, false
	}
	var ok bool
	if b, ok = skipLEB(b); !ok { // code alignment
		return 0, false
	}
	if b, ok = skipLEB(b); !ok { // data alignment
		return 0, false
	}
	if version == 1 { // return address register
		if len(b) < 1 {
			return 0, false
		}
		b = b[1:]
	} else if b, ok = skipLEB(b); !ok {
		return 0, false
	}
	if b, ok = skipLEB(b); !ok { // length of the augmentation's data
		return 0, false
	}
	for _, c := range aug[1:] {
		switch c {
		case 'R':
			if len(b) < 1 {
				return 0, false
			}
			return b[0], true
		case 'L':
			if len(b) < 1 {
				return 0, false
			}
			b = b[1:]
		case 'P':
			if len(b) < 1 {
				return 0, false
			}
			n := encodedSize(b[0])
			if n == 0 || len(b) < 1+n {
				return 0, false
			}
			b = b[1+n:]
		case 'S', 'B', 'G': // signal frame, arm64 pointer authentication: no data
		default:
			return 0, false
		}
	}
	return 0, true
}

func skipLEB(b []byte) ([]byte, bool) {
	for i, c := range b {
		if i > 9 {
			break
		}
		if c&0x80 == 0 {
			return b[i+1:], true
		}
	}
	return nil, false
}

// encodedSize is the size of a pointer in a fixed-size encoding, 0 for others.
func encodedSize(enc uint8) int {
	switch enc & 0xf {
	case 0x0, 0x4, 0xc: // absptr, udata8, sdata8
		return 8
	case 0x2, 0xa: // udata2, sdata2
		return 2
	case 0x3, 0xb: // udata4, sdata4
		return 4
	}
	return 0
}

// fdeRange reads an FDE's first address and length; at is the address of b.
func fdeRange(b []byte, at uint64, enc uint8) (Function, bool) {
	n := encodedSize(enc)
	if n == 0 || len(b) < 2*n {
		return Function{}, false
	}
	var start uint64
	switch enc & 0x70 {
	case 0x00:
	case 0x10: // relative to its own position
		start = at
	default:
		return Function{}, false
	}
	start += encodedValue(b, enc)
	size := encodedValue(b[n:], enc&0x7) // the length is unsigned
	if size == 0 || start+size < start {
		return Function{}, false
	}
	return Function{Start: start, End: start + size, Unwind: true}, true
}

func encodedValue(b []byte, enc uint8) uint64 {
	le := binary.LittleEndian
	switch enc & 0xf {
	case 0x2:
		return uint64(le.Uint16(b))
	case 0x3:
		return uint64(le.Uint32(b))
	case 0xa:
		return uint64(int64(int16(le.Uint16(b))))
	case 0xb:
		return uint64(int64(int32(le.Uint32(b))))
	}
	return le.Uint64(b)
}
