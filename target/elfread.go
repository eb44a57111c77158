// SPDX-License-Identifier: Apache-2.0

package target

import (
	"bytes"
	"errors"
	"io"
	"strings"
)

// An ELF file is read in chunks, the last few of which are kept, and never beyond the file's budget.

const (
	chunkBytes  = 32 << 10
	chunkSlack  = 256 // read past a chunk's end, so that this many bytes at any offset lie in one chunk
	maxChunks   = 64
	headerSteps = 64   // to open a file
	batch       = 1024 // steps after which they are charged to the budget
)

// chunks are the most recently read parts of the file.
type chunks struct {
	b    map[uint64][]byte // by chunk number
	fifo []uint64
	last uint64 // number of the most recently used chunk
	cur  []byte
}

// spend counts steps and reports whether more are available.
func (e *ELF) spend(steps uint64) bool {
	if e.pending.Steps += steps; e.pending.Steps >= batch {
		e.settle()
	}
	return e.over == nil
}

// settle charges what was spent to the budget.
func (e *ELF) settle() {
	l := e.pending
	e.pending = Limits{}
	if over := e.budget.spend(l); over != nil && e.over == nil {
		over.File = e.Name
		e.over = over
	}
}

// Spend counts steps that a caller spends on the file's contents. It returns false when none are left, and
// the work must be abandoned.
func (e *ELF) Spend(steps uint64) bool { return e.spend(steps) }

// Spent is what was spent on the file so far.
func (e *ELF) Spent() Limits {
	e.settle()
	return e.budget.Spent()
}

// TooMany abandons the file because it has implausibly many of something.
func (e *ELF) TooMany(what string, limit uint64) error { return e.tooMany(what, limit) }

func (e *ELF) tooMany(what string, limit uint64) error {
	if e.over == nil {
		e.over = &LimitError{File: e.Name, What: what, Limit: limit, Scope: scopeFile}
	}
	return e.over
}

// Trouble reports why the file was not read to the end: a *[LimitError], or a read error, nil if there was
// none. Anything found in the file before the trouble is unreliable.
func (e *ELF) Trouble() error {
	e.settle()
	if e.over != nil {
		return e.over
	}
	return e.readErr
}

// read fills b from the file.
func (e *ELF) read(off uint64, b []byte) (int, error) {
	e.pending.Bytes += uint64(len(b))
	if e.settle(); e.over != nil {
		return 0, e.over
	}
	if off > 1<<62 {
		return 0, io.EOF
	}
	n, err := e.r.ReadAt(b, int64(off))
	if n < len(b) && err != nil && !errors.Is(err, io.EOF) {
		if e.readErr == nil {
			e.readErr = e.errf("reading: %w", err)
		}
		return n, e.readErr
	}
	return n, nil
}

func (e *ELF) cut(off, n uint64) error {
	return e.errf("the file is truncated: %d bytes at %#x are not there", n, off)
}

// peek returns n bytes of the file, at most chunkSlack. They must not be modified.
func (e *ELF) peek(off, n uint64) ([]byte, error) {
	b, err := e.ahead(off)
	if err == nil && uint64(len(b)) < n {
		err = e.cut(off, n)
	}
	if err != nil {
		return nil, err
	}
	return b[:n:n], nil
}

// ahead returns the bytes available from an offset on: at least chunkSlack, fewer only at the file's end.
func (e *ELF) ahead(off uint64) ([]byte, error) {
	c := &e.chunks
	k := off / chunkBytes
	if c.cur == nil || c.last != k {
		b, ok := c.b[k]
		if !ok {
			var err error
			if b, err = e.chunk(k); err != nil {
				return nil, err
			}
		}
		c.last, c.cur = k, b
	}
	return c.cur[min(off%chunkBytes, uint64(len(c.cur))):], nil
}

func (e *ELF) chunk(k uint64) ([]byte, error) {
	if e.over != nil {
		return nil, e.over
	}
	n := uint64(chunkBytes + chunkSlack)
	if e.size >= 0 {
		n = min(n, uint64(e.size)-min(uint64(e.size), k*chunkBytes))
	}
	b := make([]byte, n) // never modified later: instructions share it
	got, err := e.read(k*chunkBytes, b)
	if err != nil {
		return nil, err
	}
	c := &e.chunks
	if len(c.fifo) >= maxChunks {
		delete(c.b, c.fifo[0])
		c.fifo = c.fifo[1:]
	}
	if c.b == nil {
		c.b = map[uint64][]byte{}
	}
	c.b[k] = b[:got:got]
	c.fifo = append(c.fifo, k)
	return c.b[k], nil
}

// within reports whether the file has n bytes at off, as far as known.
func (e *ELF) within(off, n uint64) error {
	if off > 1<<62 || n > 1<<62 {
		return e.errf("a table of %d bytes at %#x is beyond reason", n, off)
	}
	if e.size >= 0 && (off > uint64(e.size) || n > uint64(e.size)-off) {
		return e.cut(off, n)
	}
	return nil
}

// bytesAt reads n bytes of the file. It allocates no more than the file holds.
func (e *ELF) bytesAt(off, n uint64) ([]byte, error) {
	if n > maxTable {
		return nil, e.errf("a table of %d bytes at %#x is beyond reason", n, off)
	}
	if err := e.within(off, n); err != nil {
		return nil, err
	}
	const step = 1 << 20 // with an unknown size, trust one step at a time
	var b []byte
	if e.size >= 0 || n <= step {
		b = make([]byte, n)
	}
	for at := uint64(0); at < n; {
		k := n - at
		if e.size < 0 && k > step {
			k = step
		}
		if at+k > uint64(len(b)) {
			b = append(b, make([]byte, at+k-uint64(len(b)))...)
		}
		got, err := e.read(off+at, b[at:at+k])
		if err != nil {
			return nil, err
		}
		if uint64(got) < k {
			return nil, e.cut(off, n)
		}
		at += k
	}
	return b, nil
}

// stream passes n bytes at off to a function piece by piece, each a multiple of size (except the last if n is
// not one). The pieces must not be kept. It stops when the function returns false.
func (e *ELF) stream(off, n, size uint64, piece func(b []byte) bool) error {
	if err := e.within(off, n); err != nil {
		return err
	}
	buf := make([]byte, min(n, 256<<10/size*size))
	for at := uint64(0); at < n; {
		b := buf[:min(n-at, uint64(len(buf)))]
		got, err := e.read(off+at, b)
		if err != nil {
			return err
		}
		if got < len(b) {
			return e.cut(off, n)
		}
		if !piece(b) {
			if e.over != nil {
				return e.over
			}
			return nil
		}
		at += uint64(len(b))
	}
	return nil
}

// ReadAddr fills buf with the file's bytes at an address, as they are before relocation. Reading beyond the
// file's part of a segment (.bss) is an error.
func (e *ELF) ReadAddr(addr uint64, buf []byte) error {
	e.spend(1)
	n := uint64(len(buf))
	s, ok := e.load(addr)
	if !ok || n > s.filesz-(addr-s.addr) {
		return e.errf("%d bytes at address %#x are not in the file", n, addr)
	}
	off := s.off + (addr - s.addr)
	if n > chunkSlack {
		b, err := e.bytesAt(off, n)
		copy(buf, b)
		return err
	}
	b, err := e.peek(off, n)
	copy(buf, b)
	return err
}

// CString reads the zero-terminated string at an address, at most max bytes. One that does not end within
// them is an error.
func (e *ELF) CString(addr uint64, max int) (string, error) {
	s, ok := e.load(addr)
	if !ok {
		return "", e.errf("address %#x is not in the file", addr)
	}
	left := min(uint64(min(max, 16<<10)), s.filesz-(addr-s.addr))
	off := s.off + (addr - s.addr)
	var out []byte
	for left > 0 {
		b, err := e.ahead(off)
		if err != nil {
			return "", err
		}
		b = b[:min(uint64(len(b)), left)]
		if len(b) == 0 {
			return "", e.cut(off, left)
		}
		e.spend(1 + uint64(len(b))/64)
		if i := bytes.IndexByte(b, 0); i >= 0 {
			return string(append(out, b[:i]...)), nil
		}
		out = append(out, b...)
		off, left = off+uint64(len(b)), left-uint64(len(b))
	}
	return "", e.errf("no string of at most %d bytes at %#x", max, addr)
}

// stringTable reads a table of names.
func (e *ELF) stringTable(off, n uint64) (string, error) {
	if e.strBytes += n; e.strBytes > maxStrings {
		return "", e.tooMany("bytes of symbols' names", maxStrings)
	}
	if err := e.within(off, n); err != nil {
		return "", err
	}
	var out strings.Builder
	if e.size >= 0 {
		out.Grow(int(n))
	}
	err := e.stream(off, n, 1, func(b []byte) bool { out.Write(b); return true })
	return out.String(), err
}

// Mentions reports whether the file's symbol name tables contain one of these stems: if not, no symbol's name
// does. It is far cheaper than reading the symbols.
func (e *ELF) Mentions(stems ...string) bool {
	const longest = 64
	found := false
	look := func(off, n uint64) {
		var tail []byte // end of the previous piece, where a stem may begin
		_ = e.stream(off, n, 1, func(b []byte) bool {
			joint := append(tail, b[:min(len(b), longest)]...)
			for _, s := range stems {
				found = found || bytes.Contains(joint, []byte(s)) || bytes.Contains(b, []byte(s))
			}
			tail = append(tail[:0], b[max(0, len(b)-longest):]...)
			return e.spend(uint64(len(b))/16) && !found
		})
	}
	if off, ok := e.FileOffset(e.dyn.strtab); ok && e.dyn.strtab != 0 {
		look(off, e.dyn.strsz)
	}
	if s, str, ok := e.symtab(); ok && !found && s.size > 0 {
		look(str.off, str.size)
	}
	return found
}
