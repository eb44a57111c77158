// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/engine/internal/emulator"
)

// llamaFacts is what was read from one libllama (or libwhisper).
type llamaFacts struct {
	sites    []engine.Site
	batch    batchLayout
	version  string
	find     findings
	warnings []engine.Warning
}

// batchLayout holds the offsets of both kinds of batch, engine.Absent where unknown.
type batchLayout struct {
	nTokens, pos, seqID, logits                              uint16
	vecBegin, vecEnd, stride, seqHead, seqVal, vPos, vOutput uint16
}

// stepEntries are the functions that compute a batch. llama_process (since 0.6) takes a llama_batch_ext and
// what to do with it, the others take a llama_batch by value.
var stepEntries = []struct{ name, phase string }{
	{"llama_decode", ""}, {"llama_encode", "encode"}, {"llama_process", ""},
}

// readLlama finds the entry points of a libllama and the memory layout of a batch.
func readLlama(l *lib) (*llamaFacts, error) {
	f := &llamaFacts{}
	for _, e := range stepEntries {
		fn, ok := l.fn(e.name)
		if !ok {
			continue
		}
		begin := engine.Site{Role: engine.RoleStepBegin, A: reg(0), Entry: e.name, Phase: e.phase}
		args := []int{0}
		switch {
		case e.name == "llama_process":
			begin.B, begin.C, begin.Batch = reg(2), reg(1), engine.BatchVector
			args = []int{0, 1, 2}
		case l.arm(): // a struct of more than 16 bytes is passed by address
			begin.B, begin.Batch = reg(1), engine.BatchPointer
			args = []int{0, 1}
		default: // on the stack, above the return address
			begin.B, begin.Batch = engine.Arg{Kind: engine.ArgStackAddr, Stack: 8}, engine.BatchByValue
		}
		sites, err := l.span(fn, strings.TrimPrefix(e.name, "llama_"), begin, engine.RoleStepEnd, args...)
		if err != nil {
			f.warnings = append(f.warnings,
				engine.Warning{Text: fmt.Sprintf("%s: calls of %s cannot be seen: %v", l.e.Name, e.name,
					err)})
			continue
		}
		f.sites = append(f.sites, sites...)
	}
	if len(f.sites) == 0 {
		return nil, fmt.Errorf("%s: none of llama_decode, llama_encode, llama_process could be probed",
			l.e.Name)
	}
	f.readBatch(l)
	f.readBatchExt(l)
	f.readVersion(l, "llama_version")
	return f, nil
}

// readBatch runs llama_batch_init(3, 0, 2) and sees which allocation is stored where: the positions and
// sequence counts have 3*4 bytes, the lists of sequences 4*8, the flags 3.
func (f *llamaFacts) readBatch(l *lib) {
	f.batch = batchLayout{0, 24, 40, 48, 0, 0, 0, 0, 0, 0, 0}
	how := "history 2023-10"
	defer func() {
		f.find.add("batch", fmt.Sprintf("n_tokens %d, pos %d, seq_id %d, logits %d", f.batch.nTokens,
			f.batch.pos, f.batch.seqID, f.batch.logits), how)
	}()
	m, addr, err := l.machine("llama_batch_init")
	if err != nil {
		return
	}
	const n = 3
	out := m.NewObject("batch")
	sizes := map[uint64]uint64{} // of allocations, by address
	m.Hook = func(m *emulator.Machine, name string, _ uint64) (uint64, emulator.HookResult) {
		if name != "malloc" {
			return 0, emulator.Follow
		}
		o := m.NewObject("memory")
		sizes[o.Addr] = m.Arg(0)
		return o.Addr, emulator.Return
	}
	args := []uint64{out.Addr, n, 0, 2} // rdi: where the result goes
	if l.arm() {
		args = args[1:]
		m.Reg[8] = out.Addr
	}
	if _, err := m.Run(addr, args...); err != nil {
		return
	}
	var ints, lists, bools []uint16
	for off := 8; off < 128; off += 8 {
		switch sizes[out.Get64(off)] {
		case 4 * n:
			ints = append(ints, uint16(off))
		case 8 * (n + 1):
			lists = append(lists, uint16(off))
		case n:
			bools = append(bools, uint16(off))
		}
	}
	if len(ints) == 3 && len(lists) == 1 && len(bools) == 1 { // token, pos, n_seq_id
		f.batch.pos, f.batch.seqID, f.batch.logits = ints[1], lists[0], bools[0]
		how = "llama_batch_init's allocations"
	}
}

// Observed on a running llama_process of llama.cpp 0.7.0; used where its code does not reveal them.
const (
	liveSeqHead = 0x38 // in a token: the list of an std::unordered_set<int>
	liveSeqVal  = 8    // in a node of that list, after the pointer to the next
)

// readBatchExt runs the setters of llama_batch_ext on a made-up batch of tokens.
func (f *llamaFacts) readBatchExt(l *lib) {
	b := &f.batch
	b.vecBegin, b.vecEnd, b.stride = engine.Absent, engine.Absent, engine.Absent
	b.seqHead, b.seqVal, b.vPos, b.vOutput = engine.Absent, engine.Absent, engine.Absent, engine.Absent
	if !l.has("llama_process") {
		return
	}
	const setOutput, setPos, addSeq = "_ZN15llama_batch_ext10set_outputEib",
		"_ZN15llama_batch_ext13set_token_posEiPKi", "_ZN15llama_batch_ext7add_seqEii"
	run := func(fn string, index uint64, arg func(*emulator.Machine) uint64) (*emulator.Machine,
		*emulator.Object, *emulator.Object, bool) {
		m, addr, err := l.machine(fn)
		if err != nil {
			return nil, nil, nil, false
		}
		batch, tokens := m.NewObject("batch"), m.NewObject("tokens")
		// Any pair of pointers in it may be the vector: set up the same one everywhere, with its end after
		// its begin at each pair of words.
		first := b.vecBegin
		for off := uint16(0); off < 512; off += 8 {
			if first == engine.Absent || off == first {
				batch.Put64(int(off), tokens.Addr)
			} else if off == first+8 {
				batch.Put64(int(off), tokens.Addr+16*max(uint64(b.stride), 1))
			}
		}
		_, err = m.Run(addr, batch.Addr, index, arg(m))
		return m, batch, tokens, err == nil
	}
	// The first run sees an empty vector, as all words are equal: the words that it compares are the vector.
	one := func(*emulator.Machine) uint64 { return 1 }
	m, batch, _, _ := run(setOutput, 0, one)
	if m == nil {
		f.warnings = append(f.warnings,
			engine.Warning{Text: "how llama_batch_ext holds its tokens is not known: the number of tokens of a step will be missing", Entry: "llama_process"})
		return
	}
	loads := m.Loads(batch)
	if len(loads) < 2 || loads[0].Size != 8 || loads[1].Size != 8 {
		return
	}
	b.vecBegin, b.vecEnd = uint16(min(loads[0].Off, loads[1].Off)), uint16(max(loads[0].Off, loads[1].Off))
	f.find.add("batch_ext.tokens", fmt.Sprintf("begin %d, end %d", b.vecBegin, b.vecEnd),
		"llama_batch_ext::set_output loads them")
	f.extStride(l, run, setOutput, one)
	if b.stride == engine.Absent {
		return
	}
	set := func(what, how string, to *uint16, m *emulator.Machine, o *emulator.Object, want uint64,
		size int) {
		for _, s := range m.Stores(o) {
			if s.Size == size && s.Val == want {
				*to = uint16(s.Off)
				f.find.add(what, s.Off, how)
			}
		}
	}
	if m, _, t, ok := run(setOutput, 0, one); ok {
		set("batch_ext.token.output", "llama_batch_ext::set_output stores it", &b.vOutput, m, t, 1, 1)
	}
	if m, _, t, ok := run(setPos, 0, func(m *emulator.Machine) uint64 {
		p := m.NewObject("position")
		p.Put32(0, 4711)
		return p.Addr
	}); ok {
		set("batch_ext.token.pos", "llama_batch_ext::set_token_pos stores it", &b.vPos, m, t, 4711, 4)
	}
	b.seqHead, b.seqVal = liveSeqHead, liveSeqVal
	how := "seen on a running llama.cpp 0.7.0"
	// add_seq calls the set's insert with the set's address, which is inside a token; its list starts 16
	// bytes further (libstdc++'s _Hashtable: buckets, count, then the list).
	m, addr, err := l.machine(addSeq)
	if err == nil {
		batch, tokens := m.NewObject("batch"), m.NewObject("tokens")
		for off := 0; off < int(b.vecBegin); off += 4 {
			batch.Put32(off, 64) // the maximum number of sequences
		}
		batch.Put64(int(b.vecBegin), tokens.Addr)
		batch.Put64(int(b.vecEnd), tokens.Addr+uint64(b.stride))
		m.Hook = func(m *emulator.Machine, name string, _ uint64) (uint64, emulator.HookResult) {
			if o, off := m.ObjectAt(m.Arg(0)); o == tokens {
				b.seqHead = uint16(off) + 16
				how = "llama_batch_ext::add_seq passes the set's address on"
				return 0, emulator.Stop
			}
			return 0, emulator.Follow
		}
		_, _ = m.Run(addr, batch.Addr, 0, 5)
	}
	f.find.add("batch_ext.token.seq_ids", b.seqHead, how)
}

// extStride finds the size of a token: set_output(1, true) stores that much further on than set_output(0,
// true). The code computes the number of tokens from the vector's size by multiplying with an inverse, so the
// size must be a multiple of the stride: try the possible ones.
func (f *llamaFacts) extStride(l *lib,
	run func(string, uint64, func(*emulator.Machine) uint64) (*emulator.Machine, *emulator.Object,
		*emulator.Object, bool), fn string, one func(*emulator.Machine) uint64) {
	b := &f.batch
	for stride := uint16(16); stride <= 512; stride += 8 {
		b.stride = stride
		var at [2]uint64
		ok := true
		for i := range at {
			m, _, t, good := run(fn, uint64(i), one)
			if !good {
				ok = false
				break
			}
			st := m.Stores(t)
			if len(st) != 1 {
				ok = false
				break
			}
			at[i] = st[0].Off
		}
		if ok && at[1]-at[0] == uint64(stride) {
			f.find.add("batch_ext.token size", stride, "llama_batch_ext::set_output of two tokens")
			return
		}
	}
	b.stride = engine.Absent
}

var versionInName = regexp.MustCompile(`lib(?:llama|whisper)(?:\.so)?\.v?(b?[0-9][0-9a-z]*(?:\.[0-9][0-9a-z]*)*)(?:\.so(?:\.[0-9]+)*)?$`)

// readVersion asks the library for its version, or uses its file name (libllama.b6301.so, libllama.so.0.7.0).
func (f *llamaFacts) readVersion(l *lib, fn string) {
	if s, ok := l.constant(fn); ok {
		f.version = s
		f.find.add("engine version", s, fn+" returns it")
		return
	}
	for _, name := range []string{l.e.Name, l.e.Soname()} {
		if m := versionInName.FindStringSubmatch(name); m != nil && strings.ContainsAny(m[1], ".b") {
			f.version = m[1]
			f.find.add("engine version", m[1], "the file's name")
			return
		}
	}
}
