// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/profinfer/profinfer/trace/internal/scan"
)

// smallTrace has one block of most types.
func smallTrace(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := NewWriter(&buf)
	r := newRandom(9)
	must(t, w.Meta(sampleMeta()), w.Process(sampleProcess(1)), w.Shape(sampleShape(1, 2, 3)),
		w.Hits(r.hits(20)), w.Marks(r.marks(5)),
		w.StepSeqs(r.seqs(3)), w.Sched(r.sched(5)), w.Drain(5), w.Flush(), w.Hits(r.hits(10)),
		w.Exit(Exit{PID: 1}), w.Close(End{}))
	return buf.Bytes()
}

func TestTornAtEveryByte(t *testing.T) {
	full := smallTrace(t)
	hdrs, offs := blocksOf(t, full)
	for n := range len(full) {
		r, err := NewReader(bytes.NewReader(full[:n]))
		if n < fileHeaderSize {
			if !errors.Is(err, ErrEmpty) && !errors.Is(err, ErrNotTrace) {
				t.Fatalf("%d bytes: %v", n, err)
			}
			continue
		}
		must(t, err)
		whole, end := 0, fileHeaderSize
		for i, h := range hdrs {
			if e := offs[i] + blockHeaderSize + int(h.Stored); e <= n {
				end = e
				if h.Type <= TypeEnd {
					whole++
				}
			}
		}
		c := collect(t, r)
		if c.Blocks != whole {
			t.Fatalf("%d bytes: %d blocks, want %d", n, c.Blocks, whole)
		}
		if (r.Torn() != "") != (end < n) {
			t.Fatalf("%d bytes, whole to %d: torn %q", n, end, r.Torn())
		}
		if end < n && !strings.Contains(r.Torn(), " "+itoa(n-end)+" bytes") {
			t.Fatalf("%d bytes, whole to %d: torn %q", n, end, r.Torn())
		}
		// The same when nothing is wanted and the blocks are jumped over.
		r = openBytes(t, full[:n])
		r.Want()
		collect(t, r)
		if (r.Torn() != "") != (end < n) {
			t.Fatalf("%d bytes, whole to %d, jumping: torn %q", n, end, r.Torn())
		}
	}
}

func itoa(n int) string {
	b := []byte{}
	for ; n > 0; n /= 10 {
		b = append([]byte{byte('0' + n%10)}, b...)
	}
	return string(b)
}

func TestZerosAtTheEnd(t *testing.T) {
	full := smallTrace(t)
	r := openBytes(t, append(full, make([]byte, 5000)...))
	whole := collect(t, openBytes(t, full)).Blocks
	if c := collect(t, r); c.Blocks != whole || !strings.Contains(r.Torn(), "5000 bytes") {
		t.Errorf("%d blocks, want %d; torn %q", c.Blocks, whole, r.Torn())
	}
}

func TestEveryFlippedBitIsReported(t *testing.T) {
	full := smallTrace(t)
	_, offs := blocksOf(t, full)
	whole := collect(t, openBytes(t, full)).Blocks
	for i := range full {
		for _, bit := range [...]int{i % 8, (i*5 + 3) % 8} {
			b := bytes.Clone(full)
			b[i] ^= 1 << bit
			r, err := NewReader(bytes.NewReader(b))
			if err != nil {
				if i >= 4 {
					t.Fatalf("bit %d of byte %d: %v", bit, i, err)
				}
				continue
			}
			c := collect(t, r)
			if len(r.Problems()) == 0 {
				t.Fatalf("bit %d of byte %d was not noticed", bit, i)
			}
			lost := whole - c.Blocks
			if i < offs[0] && lost != 0 || lost > 1 {
				t.Fatalf("bit %d of byte %d: %d blocks lost: %v", bit, i, lost, r.Problems())
			}
		}
	}
}

func TestDamageInTheMiddle(t *testing.T) {
	full := sampleTrace(t)
	_, offs := blocksOf(t, full)
	whole := collect(t, openBytes(t, full)).Blocks
	cases := map[string]struct {
		damage func(b []byte) []byte
		lost   int
		says   string
	}{
		"a block taken out": {func(b []byte) []byte {
			return append(b[:offs[4]:offs[4]], b[offs[5]:]...)
		}, 1, "1 blocks are missing"},
		"rubbish between": {func(b []byte) []byte {
			return append(append(b[:offs[3]:offs[3]], "rubbish \x89PB \x89PBk..."...), b[offs[3]:]...)
		}, 0, "damaged"},
		"half a block, then others": {func(b []byte) []byte {
			return append(append(b[:offs[4]:offs[4]], b[offs[3]:offs[3]+60]...), b[offs[4]:]...)
		}, 0, "damaged"},
		"half a large block near the end": {func(b []byte) []byte {
			var h blockHeader
			h.parse(b[offs[3]:])
			h.Stored = 1 << 20
			var half [blockHeaderSize]byte
			h.put(half[:])
			return append(append(b[:offs[4]:offs[4]], half[:]...), b[offs[4]:]...)
		}, 0, "not written to its end"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := openBytes(t, c.damage(bytes.Clone(full)))
			got := collect(t, r)
			if got.Blocks != whole-c.lost {
				t.Errorf("%d blocks of %d", got.Blocks, whole)
			}
			if p := strings.Join(r.Problems(), "\n"); !strings.Contains(p, c.says) {
				t.Errorf("problems: %s", p)
			}
			if r.Torn() != "" {
				t.Errorf("torn: %s", r.Torn())
			}
		})
	}
}

// block makes a block with any header and payload whose checksums fit.
func block(h blockHeader, payload []byte) []byte {
	h.Stored, h.Sum = uint32(len(payload)), checksum(payload)
	b := make([]byte, blockHeaderSize, blockHeaderSize+len(payload))
	h.put(b)
	return append(b, payload...)
}

func TestBlocksOfOtherVersions(t *testing.T) {
	full := smallTrace(t)
	_, offs := blocksOf(t, full)
	whole := collect(t, openBytes(t, full)).Blocks
	insert := func(b []byte) []byte {
		return append(append(bytes.Clone(full[:offs[2]]), b...), full[offs[2]:]...)
	}
	for _, typ := range []Type{20, 63, 64, 5000} {
		r := openBytes(t, insert(block(blockHeader{Type: typ, Raw: 3, Count: 1, Seq: 2}, []byte("new"))))
		c := collect(t, r)
		if c.Blocks != whole || !strings.Contains(strings.Join(r.Problems(), "\n"), "newer") {
			t.Errorf("type %d: %d blocks of %d, %v", typ, c.Blocks, whole, r.Problems())
		}
	}
	r := openBytes(t, insert(block(blockHeader{Type: TypeMeta, Codec: 9, Raw: 3, Count: 1, Seq: 2},
		[]byte("new"))))
	if c := collect(t, r); c.Blocks != whole || !strings.Contains(r.Problems()[0], "codec") {
		t.Errorf("%d blocks of %d, %v", c.Blocks, whole, r.Problems())
	}
	// More columns than this version knows, and fewer.
	e := hitEncoder{columns: newColumns(hitColumns)}
	hs := newRandom(1).hits(5)
	e.add(hs)
	e.c = append(e.c, []byte("a column of the future"))
	p := e.appendTo(nil)
	r = openBytes(t, insert(block(blockHeader{Type: TypeHits, Raw: uint32(len(p)), Count: 5, Seq: 2}, p)))
	equal(t, "hits", collect(t, r).Hits[:5], hs)
	e.reset()
	hs = []Hit{{Time: 1, Arg: 2, CPU: 3, Kind: HitOpEnd}, {Time: 3, Arg: 2, CPU: 4, Kind: HitOpEnd}}
	e.add(hs)
	e.c = e.c[:hitArg+1]
	p = e.appendTo(nil)
	r = openBytes(t, insert(block(blockHeader{Type: TypeHits, Raw: uint32(len(p)), Count: 2, Seq: 2}, p)))
	equal(t, "hits", collect(t, r).Hits[:2], hs)
}

// A magic that lies across the edge of what is read at once is found.
func TestResyncAcrossBuffers(t *testing.T) {
	full := smallTrace(t)
	whole := collect(t, openBytes(t, full)).Blocks
	_, offs := blocksOf(t, full)
	for n := scan.Chunk - offs[3] - 8; n < scan.Chunk-offs[3]+8; n++ {
		for _, extra := range []int{0, fileHeaderSize, offs[3]} {
			b := append(bytes.Clone(full[:offs[3]]), make([]byte, n+extra)...)
			r := openBytes(t, append(b, full[offs[3]:]...))
			if c := collect(t, r); c.Blocks != whole {
				t.Fatalf("after %d bytes of rubbish: %d blocks of %d", n+extra, c.Blocks, whole)
			}
		}
	}
}

func fileHeader(h FileHeader) []byte { return h.append(nil) }

func TestNotATrace(t *testing.T) {
	cases := map[string]struct {
		in   []byte
		err  error
		says string
	}{
		"empty": {nil, ErrEmpty, "record it again"},
		"text": {[]byte("Dear reader,\x1b[31m this is a text"), ErrNotTrace,
			`"Dear reader,\x1b[31"`},
		"a short text":    {[]byte("hi"), ErrNotTrace, `"hi"`},
		"program":         {append([]byte("\x7fELF"), make([]byte, 100)...), ErrNotTrace, "a program"},
		"perf":            {append([]byte("PERFILE2"), make([]byte, 100)...), ErrNotTrace, "of perf"},
		"gzip":            {append([]byte("\x1f\x8b"), make([]byte, 100)...), ErrNotTrace, "unpack"},
		"cut header":      {fileHeader(FileHeader{Major: 1})[:20], ErrEmpty, "cut"},
		"newer":           {fileHeader(FileHeader{Major: 2, Minor: 3}), ErrNewer, "2.3"},
		"unknown feature": {fileHeader(FileHeader{Major: 1, Incompat: 8}), ErrNewer, "0x8"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.pinf")
			must(t, os.WriteFile(path, c.in, 0o600))
			_, err := Open(path)
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrNotTrace) ||
		!strings.Contains(err.Error(), "directory") {
		t.Errorf("%v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), "profinfer record -o") {
		t.Errorf("%v", err)
	}
	// A newer minor version and features that may be ignored are read.
	r := openBytes(t, append(fileHeader(FileHeader{Major: 1, Minor: 9, Compat: 0xff}),
		smallTrace(t)[fileHeaderSize:]...))
	if c := collect(t, r); len(c.Ends) != 1 || r.Problems() != nil || r.Header().Minor != 9 {
		t.Errorf("%v", r.Problems())
	}
}

// What a hostile file claims is not believed.
func TestHostileBlocks(t *testing.T) {
	head := fileHeader(FileHeader{Major: 1})
	columnsOf := func(cols ...[]byte) []byte { c := columns{c: cols}; return c.appendTo(nil) }
	many := bytes.Repeat([]byte("1,"), 1<<20)
	cases := map[string][]byte{
		"count without records": block(blockHeader{Type: TypeHits, Raw: 1, Count: 1 << 17}, []byte{0}),
		"count too large":       block(blockHeader{Type: TypeHits, Raw: 1, Count: 1 << 31}, []byte{0}),
		"column lengths overflow": block(blockHeader{Type: TypeHits, Raw: 21, Count: 1},
			append([]byte{2}, append(binary.AppendUvarint(nil, 1<<63),
				binary.AppendUvarint(nil, 1<<63)...)...)),
		"thread out of table":      nil,
		"string out of table":      nil,
		"raw length not true":      block(blockHeader{Type: TypeExit, Raw: 9}, []byte("{}")),
		"source out of range":      block(blockHeader{Type: TypeShape, Raw: 0}, nil),
		"a million empty nodes":    nil,
		"not JSON":                 block(blockHeader{Type: TypeMeta, Raw: 2, Count: 1}, []byte("{]")),
		"negative number of nodes": nil,
	}
	set := func(name string, typ Type, count int, p []byte) {
		cases[name] = block(blockHeader{Type: typ, Raw: uint32(len(p)), Count: uint32(count)}, p)
	}
	enc, err := zstd.NewWriter(nil)
	must(t, err)
	cases["raw length larger than the frame"] = block(blockHeader{Type: TypeExit, Codec: codecZstd, Raw: 30,
		Count: 1}, enc.EncodeAll([]byte(`{"pid":1,"time_ns":2}`), nil))
	cases["raw length smaller than the frame"] = block(blockHeader{Type: TypeExit, Codec: codecZstd, Raw: 8,
		Count: 1}, enc.EncodeAll([]byte(`{"pid":1,"time_ns":2}`), nil))
	set("thread out of table", TypeSched, 1,
		columnsOf([]byte{1}, []byte{0}, []byte{0}, []byte{0}, []byte{0}, []byte{1}, []byte{0, 0, 0, 0},
			[]byte{0}))
	set("string out of table", TypeSched, 1,
		columnsOf([]byte{1}, []byte{0}, []byte{0}, []byte{0}, []byte{0}, []byte{0}, []byte{0, 0, 0, 3},
			[]byte{0}))
	set("a column too long", TypeStepSeqs, 1,
		columnsOf([]byte{2, 2}, []byte{0}, []byte{0}, []byte{0}, []byte{0}, []byte{0}))
	set("a column too short", TypeStepSeqs, 1,
		columnsOf([]byte{2}, []byte{0}, []byte{0}, nil, []byte{0}, []byte{0}))
	set("source out of range", TypeShape, 1, []byte(`{"nodes":[{"src":[7],"view_src":-1}],"n_nodes":1}`))
	set("a million empty nodes", TypeShape, 1, append(append([]byte(`{"nodes":[`), many...), `1]}`...))
	set("negative number of nodes", TypeShape, 1, []byte(`{"nodes":[],"n_nodes":-1}`))
	for name, b := range cases {
		t.Run(name, func(t *testing.T) {
			r := openBytes(t, append(bytes.Clone(head), b...))
			if c := collect(t, r); c.Blocks != 0 || len(r.Problems()) != 1 {
				t.Errorf("%d blocks, %v", c.Blocks, r.Problems())
			}
			if name == "a million empty nodes" && !strings.Contains(r.Problems()[0], "parts") {
				t.Errorf("they were unpacked: %v", r.Problems())
			}
		})
	}
	// Valid headers all over, none of whose payloads fits: no quadratic work.
	h := blockHeader{Type: TypeHits, Raw: maxRaw, Stored: maxRaw, Count: 1}
	var one [blockHeaderSize]byte
	h.put(one[:])
	r := openBytes(t, append(bytes.Clone(head), bytes.Repeat(one[:], (maxRaw+1<<22)/blockHeaderSize)...))
	if c := collect(t, r); c.Blocks != 0 || len(r.Problems()) > maxProblems+1 {
		t.Errorf("%d blocks", c.Blocks)
	}
	// A file that ends far before a length it claims.
	huge := bytes.Clone(head)
	huge = append(huge, one[:]...)
	r = openBytes(t, huge)
	if _, err := r.Next(); err != io.EOF || r.in.Buffered() > 1<<20 || r.Torn() == "" {
		t.Errorf("%v, buffer of %d, torn %q", err, r.in.Buffered(), r.Torn())
	}
}
