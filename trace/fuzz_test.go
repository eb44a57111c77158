// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"io"
	"testing"
)

// FuzzReader reads anything, by file and by stream, and asks for its index.
func FuzzReader(f *testing.F) {
	small := smallTrace(f)
	f.Add(small)
	f.Add(sampleTrace(f))
	f.Add(small[:len(small)/2])
	f.Add([]byte(fileMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		readAll := func(in io.Reader) (n int) {
			r, err := NewReader(in)
			if err != nil {
				return 0
			}
			defer r.Close()
			for {
				if _, err := r.Next(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if es, err := r.Index(); err == nil {
				for _, e := range es {
					if e.Offset < 0 || e.Offset+e.Size > int64(len(b)) {
						t.Fatalf("entry %+v of a file of %d bytes", e, len(b))
					}
				}
			}
			return n
		}
		a, c := readAll(bytes.NewReader(b)), readAll(struct{ io.Reader }{bytes.NewReader(b)})
		if a != c {
			t.Fatalf("%d blocks from a file, %d from a stream", a, c)
		}
	})
}

// FuzzPayload reads any payload under headers whose checksums fit, which changed bytes of a
// whole file hardly ever reach.
func FuzzPayload(f *testing.F) {
	b := smallTrace(f)
	hdrs, offs := blocksOf(f, b)
	var r Reader
	for i, h := range hdrs {
		p, err := r.unpack(&h, b[offs[i]+blockHeaderSize:][:h.Stored])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint16(h.Type), uint32(h.Count), bytes.Clone(p))
	}
	f.Fuzz(func(t *testing.T, typ uint16, count uint32, p []byte) {
		file := append(fileHeader(FileHeader{Major: Major}), block(blockHeader{Type: Type(typ % 16), Raw: uint32(len(p)), Count: count}, p)...)
		r, err := NewReader(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
		decodeIndex(p, int(count%(1<<20)), 1<<40)
	})
}
