// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"io"
)

// source is a buffered input that can be peeked into and, if the input allows it, seeks. Its buffer grows
// only as far as there is data.
type source struct {
	r    io.Reader
	s    io.Seeker // nil: the input cannot seek
	size int64     // of the input; -1: unknown
	buf  []byte
	pos  int   // buf[pos:] was not consumed yet
	off  int64 // offset of buf[pos] in the input
	eof  bool
	err  error // of the input
}

func newSource(r io.Reader) *source {
	s := &source{r: r, size: -1}
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

const sourceChunk = 256 << 10

// peek returns the next n bytes without consuming them, fewer at the end of the input.
func (s *source) peek(n int) []byte {
	for len(s.buf)-s.pos < n && !s.eof && s.err == nil {
		if s.pos > 0 {
			s.buf = s.buf[:copy(s.buf, s.buf[s.pos:])]
			s.pos = 0
		}
		if len(s.buf) == cap(s.buf) {
			want := max(sourceChunk, 2*cap(s.buf))
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

// skip consumes n bytes and returns how many there were.
func (s *source) skip(n int64) int64 {
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
		b := s.peek(int(min(n-done, sourceChunk)))
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
func (s *source) seek(off int64) error {
	if _, err := s.s.Seek(off, io.SeekStart); err != nil {
		return err
	}
	s.buf, s.pos, s.off, s.eof, s.err = s.buf[:0], 0, off, false, nil
	return nil
}

// find goes to the next occurrence of magic, and reports whether there is one; if not, the input is at its
// end.
func (s *source) find(magic string) bool {
	for {
		b := s.peek(sourceChunk)
		if i := bytes.Index(b, []byte(magic)); i >= 0 {
			s.skip(int64(i))
			return true
		}
		if len(b) < sourceChunk { // the end, or an error
			s.skip(int64(len(b)))
			return false
		}
		s.skip(int64(len(b) - len(magic) + 1))
	}
}
