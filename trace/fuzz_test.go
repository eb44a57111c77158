// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"io"
	"reflect"
	"runtime"
	"testing"
)

// allocated is what a function allocates in all, bytes.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzReader reads anything, by file and by stream, and asks for its index.
func FuzzReader(f *testing.F) {
	small := smallTrace(f)
	f.Add(small)
	f.Add(sampleTrace(f))
	f.Add(small[:len(small)/2])
	f.Add([]byte(fileMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		var a, c int
		n := allocated(func() {
			a, c = readAll(t, bytes.NewReader(b), len(b)),
				readAll(t, struct{ io.Reader }{bytes.NewReader(b)}, len(b))
		})
		if a != c {
			t.Fatalf("%d blocks from a file, %d from a stream", a, c)
		}
		if n > 64<<20+1024*uint64(len(b)) { // what packed blocks may become, and a decoder
			t.Fatalf("%d KB for a file of %d bytes", n>>10, len(b))
		}
	})
}

// readAll reads everything and returns the number of blocks.
func readAll(t *testing.T, in io.Reader, size int) (n int) {
	r, err := NewReader(in)
	if err != nil {
		if r != nil || err.Error() == "" {
			t.Fatalf("a reader with an error: %v", err)
		}
		return 0
	}
	defer r.Close()
	last := int64(-1)
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if n++; b.Offset <= last || b.Offset >= int64(size) || b.Count < 0 {
			t.Fatalf("a block at %d behind that at %d of %d bytes", b.Offset, last, size)
		}
		last = b.Offset
	}
	if len(r.Problems()) > maxProblems+1 {
		t.Fatalf("%d problems", len(r.Problems()))
	}
	return n
}

// FuzzPayload reads any payload under headers whose checksums fit, which changed bytes of a
// whole file hardly ever reach. What is read is written and read again.
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
	more := everyBlock(f)
	hdrs, offs = blocksOf(f, more)
	for i, h := range hdrs {
		if p, err := r.unpack(&h, more[offs[i]+blockHeaderSize:][:h.Stored]); err == nil && len(p) < 4096 {
			f.Add(uint16(h.Type), uint32(h.Count), bytes.Clone(p))
		}
	}
	for _, s := range []string{"null", "[]", "{}", `[null]`, `{"nodes":[{}],"order":[[0],[],[1]]}`,
		`{"files":[{"pages":"AAAA","maps":[{}]}]}`, `{"cpus":[{"cpu":-1}]}`} {
		for typ := TypeMeta; typ <= TypeMemory; typ++ {
			f.Add(uint16(typ), uint32(1), []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, typ uint16, count uint32, p []byte) {
		h := blockHeader{Type: Type(typ % 32), Raw: uint32(len(p)), Count: count}
		file := append(fileHeader(FileHeader{Major: Major}), block(h, p)...)
		n := allocated(func() {
			r, err := NewReader(bytes.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			blk, err := r.Next()
			if err != nil {
				return
			}
			again(t, &blk)
			if _, err := r.Next(); err != io.EOF {
				t.Fatalf("behind the only block: %v", err)
			}
		})
		if n > 2<<20+4096*uint64(len(p)) {
			t.Fatalf("%d KB for a %v block of %d bytes", n>>10, h.Type, len(p))
		}
	})
}

// again writes a block's records and reads them: they are the same.
func again(t *testing.T, b *Block) {
	check := func(want any, n int, read func([]byte, int) (any, error), c *columns) {
		if n > maxCount || c.size() > maxRaw/2 {
			return
		}
		got, err := read(c.appendTo(nil), n)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("a %v block became %+v (%v), was %+v", b.Type, got, err, want)
		}
	}
	switch b.Type {
	case TypeHits:
		e := hitEncoder{columns: newColumns(hitColumns)}
		e.add(b.Hits)
		check(b.Hits, len(b.Hits), func(p []byte, n int) (any, error) {
			var d hitDecoder
			return d.decode(p, n)
		}, &e.columns)
	case TypeMarks:
		e := markEncoder{columns: newColumns(markColumns)}
		e.add(b.Marks)
		check(b.Marks, len(b.Marks), func(p []byte, n int) (any, error) {
			var d markDecoder
			return d.decode(p, n)
		}, &e.columns)
	case TypeStepSeqs:
		e := seqEncoder{columns: newColumns(seqColumns)}
		e.add(b.StepSeqs)
		check(b.StepSeqs, len(b.StepSeqs), func(p []byte, n int) (any, error) {
			var d seqDecoder
			return d.decode(p, n)
		}, &e.columns)
	case TypeSched:
		e := newSchedEncoder()
		e.add(b.Sched)
		check(b.Sched, len(b.Sched), func(p []byte, n int) (any, error) {
			var d schedDecoder
			return d.decode(p, n)
		}, &e.columns)
	case TypeSamples:
		e := newSampleEncoder()
		e.add(b.Samples)
		check(b.Samples, len(b.Samples), func(p []byte, n int) (any, error) {
			return decodeSamples(p, n)
		}, &e.columns)
	case TypeFaults:
		e := newFaultEncoder()
		e.add(b.Faults)
		check(b.Faults, len(b.Faults), func(p []byte, n int) (any, error) {
			return decodeFaults(p, n)
		}, &e.columns)
	case TypeExperts:
		e := newExpertEncoder()
		e.add(b.Experts)
		check(b.Experts, len(b.Experts), func(p []byte, n int) (any, error) {
			return decodeExperts(p, n)
		}, &e.columns)
	}
}

// everyBlock is a trace with the types of blocks that smallTrace has not.
func everyBlock(f *testing.F) []byte {
	var buf bytes.Buffer
	w := NewWriter(&buf)
	steal, khz := int64(10_000_000), int64(2_400_000)
	must(f, w.Meta(sampleMeta()), w.Process(sampleProcess(42)),
		w.Samples([]Sample{{Time: 5, PID: 42, TID: 43, CPU: 1, Kind: SampleBegin,
			Values: []uint64{1, NoValue}},
			{Time: 9, PID: 42, TID: 43, CPU: 1, Kind: SampleEnd, Torn: true, Values: []uint64{7}}}),
		w.Faults([]Fault{{Time: 6, PID: 42, TID: 43, Kind: FaultMajor, Addr: 0x7f0000001000, Dur: 9000,
			Read: 4096, Major: 1}, {Time: 7, PID: 42, TID: 43, Kind: FaultCounts, Dur: -1, Read: -1}}),
		w.Experts([]Experts{{Time: 8, PID: 42, TID: 42, Node: 0x7f0000001000, Source: 0x7f0000002000, Used: 2,
			Tokens: 2, Chosen: []int32{3, 1, 2, -1}}}),
		w.Memory(Memory{PID: 42, Time: 4}), w.Watch(Watch{PID: 42, Time: 3, Ops: WatchArrivals,
			Why: "following"}),
		w.CPU(CPUState{Time: 2, CPUs: []CPUTime{{CPU: 0, Steal: &steal, KHz: &khz}}}),
		w.Close(End{Time: 10, Reason: "interrupted"}))
	return buf.Bytes()
}
