// SPDX-License-Identifier: Apache-2.0

// Package gguf writes model files in ggml's GGUF format, version 3, with random weights. The speed, the
// memory traffic and the graph of a model depend on the shapes of its tensors, not on their values, so for
// profiling such a file can replace a published model of the same shape.
//
// A file is streamed: memory use does not depend on its size. The same [File] gives the same bytes on every
// machine.
package gguf

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
)

// Alignment of every tensor's data in the file, in bytes (GGUF's default).
const Alignment = 32

// KV is one entry of a file's metadata. Value is one of string, bool, uint32, int32,
// float32, []string, []int32, []float32.
type KV struct {
	Key   string
	Value any
}

// Tensor is one tensor to write: its shape, and the distribution of its values.
type Tensor struct {
	Name string
	Type Type
	Dims []uint64 // ne0 first, the contiguous dimension
	// Std is the standard deviation of random values around 0. If it is 0 all values are Const, which only
	// F32 supports.
	Std   float64
	Const float32
	// RowSpread makes the rows (of Dims[0] elements) differ in their standard deviation: each is Std times e
	// to the power of a normal random number with the standard deviation RowSpread. In the matrix that rates
	// experts, those with large rows are then chosen more often. Otherwise values are those of RowSpread 0.
	RowSpread float64
}

// Bytes returns the size of the tensor's data, without padding.
func (t Tensor) Bytes() (int64, error) {
	l, ok := layouts[t.Type]
	if !ok {
		return 0, fmt.Errorf("tensor %s: %v cannot be written", t.Name, t.Type)
	}
	if len(t.Dims) < 1 || len(t.Dims) > 4 {
		return 0, fmt.Errorf("tensor %s: %d dimensions, must be 1 to 4", t.Name, len(t.Dims))
	}
	if t.Dims[0]%uint64(l.elements) != 0 {
		return 0, fmt.Errorf("tensor %s: rows of %d elements, must be a multiple of %d for %v",
			t.Name, t.Dims[0], l.elements, t.Type)
	}
	n := uint64(1)
	for _, d := range t.Dims {
		if d == 0 || d > 1<<40 || n > (1<<44)/d {
			return 0, fmt.Errorf("tensor %s: dimensions %v out of range", t.Name, t.Dims)
		}
		n *= d
	}
	return int64(n / uint64(l.elements) * uint64(l.bytes)), nil
}

// File is a file to write.
type File struct {
	KV      []KV
	Tensors []Tensor
	Seed    uint64 // of the random weights
}

// Size returns the length in bytes of the file written by [File.Write].
func (f *File) Size() (int64, error) {
	h, err := f.header()
	if err != nil {
		return 0, err
	}
	size := int64(len(h))
	for _, t := range f.Tensors {
		n, _ := t.Bytes() // header has checked them
		size += pad(n)
	}
	return size, nil
}

// Header returns the bytes before the first tensor's data, padding included.
func (f *File) Header() ([]byte, error) { return f.header() }

func pad(n int64) int64 { return (n + Alignment - 1) / Alignment * Alignment }

func (f *File) header() ([]byte, error) {
	var b bytes.Buffer
	u32 := func(v uint32) { b.Write(binary.LittleEndian.AppendUint32(nil, v)) }
	u64 := func(v uint64) { b.Write(binary.LittleEndian.AppendUint64(nil, v)) }
	str := func(s string) { u64(uint64(len(s))); b.WriteString(s) }

	b.WriteString("GGUF")
	u32(3)
	u64(uint64(len(f.Tensors)))
	u64(uint64(len(f.KV)))
	for _, kv := range f.KV {
		str(kv.Key)
		switch v := kv.Value.(type) {
		case uint32:
			u32(4)
			u32(v)
		case int32:
			u32(5)
			u32(uint32(v))
		case float32:
			u32(6)
			u32(math.Float32bits(v))
		case bool:
			u32(7)
			if v {
				b.WriteByte(1)
			} else {
				b.WriteByte(0)
			}
		case string:
			u32(8)
			str(v)
		case []int32:
			u32(9)
			u32(5)
			u64(uint64(len(v)))
			for _, x := range v {
				u32(uint32(x))
			}
		case []float32:
			u32(9)
			u32(6)
			u64(uint64(len(v)))
			for _, x := range v {
				u32(math.Float32bits(x))
			}
		case []string:
			u32(9)
			u32(8)
			u64(uint64(len(v)))
			for _, x := range v {
				str(x)
			}
		default:
			return nil, fmt.Errorf("metadata %s: a value of type %T cannot be written", kv.Key, v)
		}
	}
	var off int64
	seen := make(map[string]bool, len(f.Tensors))
	for _, t := range f.Tensors {
		n, err := t.Bytes()
		if err != nil {
			return nil, err
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("tensor %s is there twice", t.Name)
		}
		if t.RowSpread != 0 && (t.Std == 0 || math.Abs(t.RowSpread) > 10) {
			return nil, fmt.Errorf("tensor %s: a spread of rows is for random values, and at most 10, not %g",
				t.Name, t.RowSpread)
		}
		if t.Std == 0 && t.Type != F32 {
			return nil, fmt.Errorf("tensor %s: constant values are for f32, not %v", t.Name, t.Type)
		}
		seen[t.Name] = true
		str(t.Name)
		u32(uint32(len(t.Dims)))
		for _, d := range t.Dims {
			u64(d)
		}
		u32(uint32(t.Type))
		u64(uint64(off))
		off += pad(n)
	}
	for b.Len()%Alignment != 0 {
		b.WriteByte(0)
	}
	return b.Bytes(), nil
}

// Write streams the file to w. Errors come from w, or say which part of f is invalid.
func (f *File) Write(w io.Writer) error {
	h, err := f.header()
	if err != nil {
		return err
	}
	bw := bufio.NewWriterSize(w, 1<<20)
	if _, err := bw.Write(h); err != nil {
		return err
	}
	for _, t := range f.Tensors {
		if err := t.write(bw, f.Seed); err != nil {
			return err
		}
	}
	return bw.Flush()
}

// write streams the tensor's data and its padding.
func (t Tensor) write(w *bufio.Writer, seed uint64) error {
	n, err := t.Bytes()
	if err != nil {
		return err
	}
	l := layouts[t.Type]
	// every tensor has its own random numbers: its values do not depend on neighbouring tensors in the file
	var key [32]byte
	h := fnv.New64a()
	io.WriteString(h, t.Name)
	binary.LittleEndian.PutUint64(key[:], seed)
	binary.LittleEndian.PutUint64(key[8:], h.Sum64())
	rng := rand.NewChaCha8(key)
	binary.LittleEndian.PutUint64(key[16:], 1)
	rows := rand.New(rand.NewChaCha8(key))
	std, row, at := t.Std, int64(t.Dims[0])/int64(l.elements), int64(0)

	blocks := int64(64<<10) / int64(l.bytes) // about 64 KiB at a time
	buf := make([]byte, blocks*int64(l.bytes))
	for left := n; left > 0; {
		chunk := buf[:min(left, int64(len(buf)))]
		if t.Std == 0 {
			for i := 0; i < len(chunk); i += 4 {
				binary.LittleEndian.PutUint32(chunk[i:], math.Float32bits(t.Const))
			}
		} else {
			rng.Read(chunk) // never fails
			for i := 0; i < len(chunk); i += l.bytes {
				if t.RowSpread != 0 && at%row == 0 {
					std = t.Std * math.Exp(t.RowSpread*rows.NormFloat64())
				}
				l.finish(chunk[i:i+l.bytes], std)
				at++
			}
		}
		if _, err := w.Write(chunk); err != nil {
			return err
		}
		left -= int64(len(chunk))
	}
	_, err = w.Write(make([]byte, pad(n)-n))
	return err
}
