// SPDX-License-Identifier: Apache-2.0

// Package scan reads an input of which blocks are looked at before they are consumed.
package scan

import (
	"bytes"
	"io"
)

// Input is a buffered input that can be peeked into and, if it allows it, seeks. Its buffer grows only as far
// as there is data.
type Input struct {
	r    io.Reader
	s    io.Seeker // nil: the input cannot seek
	size int64     // of the input; -1: unknown
	buf  []byte
	pos  int   // buf[pos:] was not consumed yet
	off  int64 // offset of buf[pos] in the input, bytes
	eof  bool
	err  error // of the input
}

// New returns an input that reads from r, at its present place.
func New(r io.Reader) *Input {
	s := &Input{r: r, size: -1}
	if sk, ok := r.(io.Seeker); ok {
		cur, err := sk.Seek(0, io.SeekCurrent)
		if err != nil {
			return s // a pipe
		}
		end, err := sk.Seek(0, io.SeekEnd)
		if err != nil {
			return s
		}
		if _, err := sk.Seek(cur, io.SeekStart); err != nil {
			return s
		}
		s.s, s.size, s.off = sk, end, cur
	}
	return s
}

// Chunk is how much is read at once, bytes.
const Chunk = 256 << 10

// Peek returns the next n bytes without consuming them, fewer at the end of the input.
func (s *Input) Peek(n int) []byte {
	for len(s.buf)-s.pos < n && !s.eof && s.err == nil {
		if s.pos > 0 {
			s.buf = s.buf[:copy(s.buf, s.buf[s.pos:])]
			s.pos = 0
		}
		if len(s.buf) == cap(s.buf) {
			want := max(Chunk, 2*cap(s.buf))
			if s.size >= 0 && cap(s.buf) == 0 {
				want = int(min(int64(want), s.size+1)) // one byte more, to notice the end
			}
			grown := make([]byte, len(s.buf), want)
			copy(grown, s.buf)
			s.buf = grown
		}
		m, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+m]
		switch err {
		case nil:
		case io.EOF:
			s.eof = true
		default:
			s.err = err
		}
	}
	return s.buf[s.pos:min(len(s.buf), s.pos+n)]
}

// Skip consumes n bytes and returns how many there were.
func (s *Input) Skip(n int64) int64 {
	have := int64(len(s.buf) - s.pos)
	if n <= have {
		s.pos += int(n)
		s.off += n
		return n
	}
	if s.s != nil {
		m := min(n, max(have, s.size-s.off))
		if err := s.seek(s.off + m); err != nil {
			s.err = err
			return 0
		}
		return m
	}
	var done int64
	for done < n {
		b := s.Peek(int(min(n-done, Chunk)))
		if len(b) == 0 {
			break
		}
		s.pos += len(b)
		s.off += int64(len(b))
		done += int64(len(b))
	}
	return done
}

// seek goes to an offset of the input, which must be seekable.
func (s *Input) seek(off int64) error {
	if _, err := s.s.Seek(off, io.SeekStart); err != nil {
		return err
	}
	s.buf, s.pos, s.off, s.eof, s.err = s.buf[:0], 0, off, false, nil
	return nil
}

// Find goes to the next occurrence of magic, and reports whether there is one; if not, the input is at its
// end.
func (s *Input) Find(magic string) bool {
	for {
		b := s.Peek(Chunk)
		if i := bytes.Index(b, []byte(magic)); i >= 0 {
			s.Skip(int64(i))
			return true
		}
		if len(b) < Chunk { // the end, or an error
			s.Skip(int64(len(b)))
			return false
		}
		s.Skip(int64(len(b) - len(magic) + 1))
	}
}

// Offset is the offset in the input of what is next, bytes.
func (s *Input) Offset() int64 { return s.off }

// Size is the size of the input, bytes; -1: unknown.
func (s *Input) Size() int64 { return s.size }

// Err is the error of the input, nil at its end.
func (s *Input) Err() error { return s.err }

// Buffered is the size of the buffer, bytes.
func (s *Input) Buffered() int { return cap(s.buf) }
