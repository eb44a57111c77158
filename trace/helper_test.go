// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
)

// content is all that a trace holds, in the order of the file within each type.
type content struct {
	Metas    []Meta
	Procs    []Process
	Threads  []Thread
	Shapes   []Shape
	Hits     []Hit
	Marks    []Mark
	Seqs     []StepSeq
	Sched    []Sched
	Losses   []Loss
	Exits    []Exit
	Ends     []End
	Drains   []int64
	Segments int
	Blocks   int
}

// collect reads r to its end.
func collect(t testing.TB, r *Reader) content {
	t.Helper()
	var c content
	for {
		b, err := r.Next()
		if err == io.EOF {
			return c
		}
		if err != nil {
			t.Fatal(err)
		}
		c.add(b)
	}
}

func (c *content) add(b Block) {
	c.Blocks++
	if b.Segment {
		c.Segments++
	}
	switch b.Type {
	case TypeMeta:
		c.Metas = append(c.Metas, *b.Meta)
	case TypeProcess:
		c.Procs = append(c.Procs, *b.Process)
	case TypeShape:
		c.Shapes = append(c.Shapes, *b.Shape)
	case TypeLoss:
		c.Losses = append(c.Losses, *b.Loss)
	case TypeExit:
		c.Exits = append(c.Exits, *b.Exit)
	case TypeEnd:
		c.Ends = append(c.Ends, *b.End)
	case TypeDrain:
		c.Drains = append(c.Drains, b.Watermark)
	}
	c.Threads = append(c.Threads, b.Threads...)
	c.Hits = append(c.Hits, b.Hits...)
	c.Marks = append(c.Marks, b.Marks...)
	c.Seqs = append(c.Seqs, b.StepSeqs...)
	c.Sched = append(c.Sched, b.Sched...)
}

func openBytes(t testing.TB, b []byte) *Reader {
	t.Helper()
	r, err := NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

const second = int64(1e9)

func sampleMeta() Meta {
	return Meta{SchemaVersion: 1, Tool: "profinfer 0.1.0", Command: []string{"llama-bench", "-p", "8"},
		Start:    100 * second,
		Realtime: 1_790_000_000 * second, BootID: "0b7c", Host: "host", Kernel: "6.12.0", Arch: "amd64",
		CPU:   "a CPU",
		Cores: 2, MemBytes: 8 << 30, Level: "op", ProbeCost: map[string]int64{"nop5": 90, "emulated": 120,
			"stepped": 2600},
		Notes: []string{"an \x01 odd <note>"}}
}

func sampleProcess(pid int32) Process {
	return Process{PID: pid, StartTime: 4711, Comm: "llama-bench",
		Cmdline: []string{"llama-bench", "-p", "8"}, Engine: "llama.cpp",
		EngineVersion: "0.7.0", GGMLVersion: "0.27.0", Files: []File{{Path: "/usr/lib/libggml-base.so.0",
			BuildID: "00ff", Role: "base"}},
		Sites: []Site{{Offset: 0x1234, Where: "llama_process+0x4", Insn: "call", Class: "emulated",
			Role: RoleStepBegin, Entry: "llama_process"}},
		Findings: []Finding{{What: "tensor.ne", Value: "16", How: "ggml_nelements"}}, Attached: 100*second +
			5}
}

func sampleShape(pid int32, id uint64, nodes int) *Shape {
	s := &Shape{PID: pid, ID: id, NNodes: nodes}
	for i := range nodes + 1 {
		n := Node{Name: "node-" + string(rune('a'+i%26)), Op: "MUL_MAT", Type: "f32",
			Ne: [4]int64{int64(i), 8, 1, 1}, Nb: [4]uint64{4, 32, 256, 256},
			ViewSrc: -1, Addr: 0x7f0000001000 +
				uint64(i)*336, Data: 0xffffffffffffff00, Executes: true, BlockSize: 1, TypeSize: 4}
		if i > 0 {
			n.Src = []int32{int32(i - 1), int32(nodes)}
		}
		if i == nodes {
			n.Leaf, n.Executes = true, false
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

// random makes records whose every field takes all kinds of values.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 1))} }

// num is often small, often repeated, sometimes anything.
func (r random) num() uint64 {
	switch r.IntN(4) {
	case 0:
		return 0
	case 1:
		return uint64(r.IntN(4))
	case 2:
		return uint64(int64(r.IntN(100)) - 50)
	}
	return r.Uint64() >> r.IntN(64)
}

func (r random) hits(n int) []Hit {
	hs := make([]Hit, n)
	for i := range hs {
		hs[i] = Hit{Time: int64(r.num()), Arg: r.num(), PID: int32(r.num()), TID: int32(r.num()),
			CPU: uint16(r.num()),
			Ith: uint16(r.num()), Nth: uint16(r.num()), Kind: HitKind(r.num())}
	}
	return hs
}

func (r random) marks(n int) []Mark {
	ms := make([]Mark, n)
	for i := range ms {
		ms[i] = Mark{Time: int64(r.num()), PID: int32(r.num()), TID: int32(r.num()), CPU: uint16(r.num()),
			Kind: MarkKind(r.num()),
			Site: uint32(r.num()), Ctx: r.num(), Graph: r.num(), Shape: r.num(), UID: r.num(),
			NNodes:  int32(r.num()),
			Threads: int32(r.num()), NTokens: int32(r.num()), Type: int32(r.num())}
	}
	return ms
}

func (r random) seqs(n int) []StepSeq {
	ss := make([]StepSeq, n)
	for i := range ss {
		ss[i] = StepSeq{Time: int64(r.num()), TID: int32(r.num()), Seq: int32(r.num()),
			NTokens: int32(r.num()), Pos: int32(r.num()), Outputs: int32(r.num())}
	}
	return ss
}

func (r random) comm() string {
	b := make([]byte, r.IntN(16))
	for i := range b {
		b[i] = byte(r.num())
	}
	return string(b)
}

func (r random) sched(n int) []Sched {
	ss := make([]Sched, n)
	for i := range ss {
		ss[i] = Sched{Time: int64(r.num()), CPU: uint16(r.num()), Kind: SchedKind(r.num()),
			PrevState: uint32(r.num()),
			PrevTID:   int32(r.num()), PrevPID: int32(r.num()), PrevComm: r.comm(), PrevPrio: int32(r.num()),
			NextTID: int32(r.num()), NextPID: int32(r.num()), NextComm: r.comm(), NextPrio: int32(r.num())}
	}
	return ss
}

// sampleTrace is a small trace with every type of block and three segments.
func sampleTrace(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := NewWriter(&buf)
	w.Repeat = 5e9
	writeSample(t, w)
	return buf.Bytes()
}

func writeSample(t testing.TB, w *Writer) {
	t.Helper()
	const pid = 42
	start := 100 * second
	must(t, w.Meta(sampleMeta()), w.Process(sampleProcess(pid)),
		w.Threads([]Thread{{PID: pid, TID: 42, Comm: "main"}, {PID: pid, TID: 43, Comm: "worker"}}),
		w.Shape(sampleShape(pid, 0xfeedface12345678, 5)))
	for i := range int64(12) {
		at := start + i*second
		must(t, w.Marks([]Mark{
			{Time: at, PID: pid, TID: 42, Kind: MarkStepBegin, Ctx: 0x5000, NTokens: 1, Type: -1},
			{Time: at + 10, PID: pid, TID: 42, CPU: 1, Kind: MarkGraphBegin, Site: 2, Graph: 0x6000,
				Shape: 0xfeedface12345678, UID: 3, NNodes: 5, Threads: 2},
			{Time: at + 900, PID: pid, TID: 42, Kind: MarkGraphEnd, Site: 3},
			{Time: at + 1000, PID: pid, TID: 42, Kind: MarkStepEnd, Site: 1},
		}), w.StepSeqs([]StepSeq{{Time: at, TID: 42, NTokens: 1, Pos: int32(i), Outputs: 1}}))
		var hs []Hit
		for op := range int64(3) {
			for th := range int32(2) {
				hs = append(hs, Hit{Time: at + 100*op + 20 + int64(th), Arg: 0x7f0000001000 + uint64(op)*336,
					PID: pid, TID: 42 + th, CPU: uint16(th), Ith: uint16(th), Nth: 2, Kind: HitOpBegin},
					Hit{Time: at + 100*op + 90 + int64(th), Arg: 0x9000, PID: pid, TID: 42 + th,
						CPU: uint16(th), Kind: HitOpEnd})
			}
		}
		must(t, w.Hits(hs), w.Sched([]Sched{{Time: at + 5, CPU: 1, Kind: SchedSwitch, PrevState: 1,
			PrevTID: 43, PrevPID: 42, PrevComm: "worker", PrevPrio: 120, NextComm: "swapper/1",
			NextPrio: 120}}))
		if i == 3 {
			must(t, w.Loss(Loss{Start: at, End: at + 5, Why: "lost", Events: 7, What: "hits", CPU: 1}))
		}
		must(t, w.Drain(at+second/2))
	}
	must(t, w.Exit(Exit{PID: pid, Time: start + 13*second}),
		w.Close(End{Time: start + 14*second, Reason: "the command ended", Status: 0, Hits: 144}))
}

// blocksOf lists the blocks of a trace by their headers, index and all.
func blocksOf(t testing.TB, b []byte) (hs []blockHeader, offs []int) {
	t.Helper()
	for off := fileHeaderSize; off < len(b); {
		var h blockHeader
		if !h.parse(b[off:]) {
			t.Fatalf("no block at %d", off)
		}
		hs, offs = append(hs, h), append(offs, off)
		off += blockHeaderSize + int(h.Stored)
	}
	return hs, offs
}

func equal[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Fatalf("%s %d of %d: got %+v, want %+v", what, i, len(want), got[i], want[i])
			}
		}
		t.Fatalf("%s: got %d, want %d", what, len(got), len(want))
	}
}
