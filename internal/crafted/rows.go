// SPDX-License-Identifier: Apache-2.0

package crafted

import "encoding/binary"

// Names by which a file is taken for part of an engine, so that it is examined closely.
const (
	hook      = "ggml_cpu_extra_compute_forward"
	graph     = "ggml_graph_compute"
	signature = "ggml_op_name"
)

// Rows returns the files, by what they exhaust.
func Rows() []*File {
	return []*File{headers(), chain(1000), insns(), calls(), symbols(), longNames(), strings(), unwind(),
		exits(), join(), barriers(), loops(), fused(), sectionNames(), full()}
}

// hashed gives a file a symbol hash table whose only chain is in a hole and never ends.
func hashed(b *builder) *File {
	const entries = 8 << 20
	b.fn(signature, 0x1000, 16)
	at := b.space(16 + 8 + 4 + 4*entries)
	h := make([]byte, 28) // one bucket, symbols from 1 on, one word of filter
	for i, v := range []uint32{1, 1, 1, 6} {
		binary.LittleEndian.PutUint32(h[4*i:], v)
	}
	binary.LittleEndian.PutUint32(h[24:], 1)
	b.poke(at, h)
	b.dyn = append(b.dyn, 0x6ffffef5, uint64(at))
	return b.finish()
}

func headers() *File {
	b := newBuilder("headers", "65,535 program headers, the one that counts last, and a hash chain of 8 million entries")
	b.heads = 65535 - 2
	return hashed(b)
}

func chain(heads int64) *File {
	b := newBuilder("chain", "as many program headers as a kernel loads, the one that counts last, and a hash chain of 8 million entries")
	b.heads = heads
	return hashed(b)
}

// cpu begins a CPU library: the operator loop's function with n bytes after its first instructions, which the
// caller fills. It returns the address of the call of the hook.
func cpu(b *builder, n int64) (code, call int64) {
	code = b.space(n + 64)
	b.secs = append(b.secs, section{".text", progbits, alloc | exec, code, n + 64, 0})
	b.f.Base = true
	b.fn(hook, code, 1)
	b.poke(code, []byte{0xc3})
	call = code + 16
	b.fn("compute_thread", call, n)
	b.poke(call, branch([]byte{0xe8}, call, code))
	return code, call
}

// branch encodes a direct branch at an address.
func branch(op []byte, at, to int64) []byte {
	return binary.LittleEndian.AppendUint32(op, uint32(int32(to-at-int64(len(op))-4)))
}

func insns() *File {
	b := newBuilder("insns", "a function of 512 MiB less its begin, a hole in an executable section")
	_, call := cpu(b, 512<<20-128)
	b.fn(graph, call, 1)
	return b.finish()
}

func calls() *File {
	b := newBuilder("calls", "1000 MiB of calls")
	const n = (500 << 20) / 5
	_, call := cpu(b, n*5)
	b.fn(graph, call, 1)
	more := b.entries(n, 5, func(_ int, e []byte) { e[0] = 0xe8 })
	b.secs = append(b.secs, section{".text.more", progbits, alloc | exec, more, n * 5, 0})
	b.put(call+5, n-1, 5, func(_ int, e []byte) { e[0] = 0xe8 })
	return b.finish()
}

func symbols() *File {
	b := newBuilder("symbols", "8 million symbols and 500 MiB of names")
	b.fn(signature, 0x1000, 16)
	b.symHole, b.strHole = 8<<20-100, 500<<20
	b.secs = []section{}
	return b.finish()
}

func longNames() *File {
	b := newBuilder("names", "100,000 symbols that share one name of 20 MiB")
	b.fn(signature, 0x1000, 16)
	const n, long = 100_000, 20 << 20
	strs := b.space(long + 64)
	b.poke(strs, []byte("\x00"+signature+"\x00"))
	b.put(strs+32, long/16, 16, func(_ int, e []byte) { copy(e, "aaaaaaaaaaaaaaaa") })
	tab := b.entries(n, 24, func(i int, e []byte) {
		binary.LittleEndian.PutUint32(e, uint32(32+i))
		e[4] = 1<<4 | 2
		binary.LittleEndian.PutUint16(e[6:], 1)
		le(e[8:], uint64(0x1000+i), 1)
	})
	b.syms = nil
	b.dyn = append(b.dyn, 6, uint64(tab), 5, uint64(strs), 10, long+64)
	b.secs = []section{{"", dynsymType, alloc, tab, n * 24, 0}}
	return b.finish()
}

func strings() *File {
	b := newBuilder("strings", "500 MiB of symbols' names, none of them an engine's")
	b.fn("conftest", 0x1000, 16)
	b.strHole = 500 << 20
	b.secs = []section{}
	return b.finish()
}

func unwind() *File {
	b := newBuilder("unwind", "500 MiB of unwind information, 33 million functions of one byte")
	const n = (500 << 20) / 16
	code, call := cpu(b, 16*n)
	b.fn(graph, call, 1)
	cie := []byte{13, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b}
	at := b.space(int64(len(cie)) + 16*n)
	b.poke(at, cie)
	first := at + int64(len(cie))
	b.put(first, n-1, 16, func(i int, e []byte) {
		here := first + 16*int64(i)
		le4 := binary.LittleEndian.PutUint32
		le4(e, 12)
		le4(e[4:], uint32(here+4-at))
		le4(e[8:], uint32(int32(code+16*int64(i)-(here+8))))
		le4(e[12:], 1)
	})
	b.secs = append(b.secs, section{".eh_frame", progbits, alloc, at, int64(len(cie)) + 16*(n-1), 0})
	return b.finish()
}

func exits() *File {
	b := newBuilder("exits", "a function of 65,536 instructions, a third of them returns behind checks of the stack protector")
	const n, size = 65536 / 3, 15
	code, call := cpu(b, 8192+n*size)
	// the loop: the hook, a branch, ggml_barrier's call and back
	barrier, fail := code+4, code+8
	b.fn("ggml_barrier", barrier, 1)
	b.fn("__stack_chk_fail", fail, 1)
	b.poke(call+5, append(branch([]byte{0xe8}, call+5, barrier), branch([]byte{0xe9}, call+10, call)...))
	fn := call + 4096
	b.syms[1].size = 4096
	b.fn(graph, fn, 16+n*size)
	b.poke(fn, []byte{0x48, 0x83, 0xec, 0x08}) // sub $8, %rsp: no return probe here
	at := fn + 4
	last := at + n*size
	b.put(at, n, size, func(i int, e []byte) {
		here := at + int64(i)*size
		// je the next; jne fail; ret: each return has a check before it, and the next is reached
		e[0], e[1] = 0x74, size-2
		copy(e[2:], branch([]byte{0x0f, 0x85}, here+2, last))
		e[8] = 0xc3
	})
	b.poke(last, append(branch([]byte{0xe8}, last, fail), 0xc3))
	return b.finish()
}

func join() *File {
	b := newBuilder("join", "an operator loop of 60,000 calls of operators, each of which reaches all those after it")
	const n, size = 60_000, 5
	code, call := cpu(b, n*size+64)
	op := code + 4
	b.fn("ggml_compute_forward_x", op, 1)
	at := call + 13
	done := at + n*size
	// test %al, %al; jne done
	b.poke(call+5, append([]byte{0x84, 0xc0}, branch([]byte{0x0f, 0x85}, call+7, done)...))
	b.put(at, n, size, func(i int, e []byte) { copy(e, branch([]byte{0xe8}, at+int64(i)*size, op)) })
	b.poke(done, append(branch([]byte{0x0f, 0x85}, done, call), 0xc3)) // jne the next operator; ret
	b.fn(graph, call, 1)
	return b.finish()
}

func barriers() *File {
	return loop(newBuilder("barriers",
		"an operator loop with 20,000 barriers, each with a way of its own back"), 20_000, 0)
}

func loops() *File {
	return loop(newBuilder("loops",
		"an operator loop with 60 barriers, behind each of which lie 64,000 instructions"), 60, 64_000)
}

// loop makes an operator loop with n barriers, each of which can be skipped, and more further instructions.
func loop(b *builder, n int, more int64) *File {
	const size = 11
	code, call := cpu(b, int64(n)*size+more+64)
	barrier := code + 4
	b.fn("ggml_barrier", barrier, 1)
	at := call + 5
	rest := at + int64(n)*size
	b.put(at, n, size, func(i int, e []byte) { // jne the next; call ggml_barrier
		here := at + int64(i)*size
		copy(e, branch([]byte{0x0f, 0x85}, here, here+size))
		copy(e[6:], branch([]byte{0xe8}, here+6, barrier))
	})
	b.put(rest, int(more), 1, func(_ int, e []byte) { e[0] = 0x90 })
	b.poke(rest+more, append(branch([]byte{0xe9}, rest+more, call), 0xc3))
	b.fn(graph, call, 1)
	return b.finish()
}

func fused() *File {
	b := newBuilder("fused", "an operator loop with 500,000 calls of fused operators, each of them a place to probe")
	const n, size = 500_000, 5
	code, call := cpu(b, n*size+64)
	op, barrier := code+4, code+8
	b.fn("ggml_compute_forward_x_fused", op, 1)
	b.fn("ggml_barrier", barrier, 1)
	b.poke(call+5, append(branch([]byte{0xe8}, call+5, barrier), branch([]byte{0xe9}, call+10, call)...))
	at := call + 15
	b.put(at, n, size, func(i int, e []byte) { copy(e, branch([]byte{0xe8}, at+int64(i)*size, op)) })
	b.fn(graph, call, 1)
	return b.finish()
}

func sectionNames() *File {
	b := newBuilder("sections", "60,000 sections that share one name of 15 MiB")
	b.fn(signature, 0x1000, 16)
	b.names = append(b.names, make([]byte, 15<<20)...)
	for i := range b.names {
		b.names[i] = 'a'
	}
	b.names[0] = 0
	b.secs = make([]section, 60_000) // without a type
	return b.finish()
}

// full has nearly as many of everything as is accepted, so that memory is its cost.
func full() *File {
	b := newBuilder("full", "190,000 symbols with 22 MiB of names, 190,000 functions, 700,000 calls, 250,000 relocations")
	const n, long, fns, ncalls, rels = 190_000, 120, 190_000, 700_000, 250_000
	code, call := cpu(b, 16*fns+5*ncalls)
	b.fn(graph, call, 1)
	at := call + 16
	b.put(at, ncalls, 5, func(i int, e []byte) { // each to a different place
		here := at + int64(i)*5
		copy(e, branch([]byte{0xe8}, here, code+int64(i)%(16*fns)))
	})
	strs := b.space(n*long + 256)
	b.put(strs+256, n, long, func(i int, e []byte) {
		for k := range e[:long-1] {
			e[k] = 'a' + byte(i>>(k%20))&15
		}
	})
	var names []byte
	offs := make([]uint32, len(b.syms))
	names = append(names, 0)
	for i, s := range b.syms {
		offs[i] = uint32(len(names))
		names = append(append(names, s.name...), 0)
	}
	b.poke(strs, names)
	known := b.syms
	tab := b.entries(n, 24, func(i int, e []byte) {
		if i == 0 {
			return
		}
		e[4] = 1<<4 | 2
		binary.LittleEndian.PutUint16(e[6:], 1)
		if i <= len(known) {
			binary.LittleEndian.PutUint32(e, offs[i-1])
			le(e[8:], known[i-1].addr, known[i-1].size)
			return
		}
		binary.LittleEndian.PutUint32(e, uint32(256+i*long%(n*long)))
		le(e[8:], uint64(code+64+16*int64(i)+8), 1)
	})
	b.syms = nil
	rela := b.entries(rels, 24, func(i int, e []byte) {
		le(e, uint64(code)+uint64(rels-i)*8, 8, uint64(code))
	})
	b.dyn = append(b.dyn, 6, uint64(tab), 5, uint64(strs), 10, n*long+256, 7, uint64(rela), 8, rels*24)
	cie := []byte{13, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b}
	eh := b.space(int64(len(cie)) + 16*fns)
	b.poke(eh, cie)
	first := eh + int64(len(cie))
	b.put(first, fns-1, 16, func(i int, e []byte) {
		here := first + 16*int64(i)
		le4 := binary.LittleEndian.PutUint32
		le4(e, 12)
		le4(e[4:], uint32(here+4-eh))
		le4(e[8:], uint32(int32(code+64+16*int64(i)-(here+8))))
		le4(e[12:], 1)
	})
	b.secs = append(b.secs, section{"", dynsymType, alloc, tab, n * 24, 0},
		section{".eh_frame", progbits, alloc, eh, int64(len(cie)) + 16*(fns-1), 0})
	return b.finish()
}
