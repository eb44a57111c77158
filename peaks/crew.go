// SPDX-License-Identifier: Apache-2.0

package peaks

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// crew is one thread on each of some CPUs, with memory for them to read.
type crew struct {
	workers []*worker
	procs   int // GOMAXPROCS before
}

type worker struct {
	cpu  int
	todo chan func(*worker)
	mem  []byte // its share of the working set
	at   int    // where it continues reading
	in   *operands
	out  *results
	now  func() time.Time     // its clock
	used func() time.Duration // CPU time of its thread; below 0: unknown
}

// newCrew starts a thread on each CPU. A CPU to which it cannot be pinned is an error.
func newCrew(cpus []int) (*crew, error) {
	// every thread needs its own P, even if a cgroup's quota allows fewer; and the caller needs one
	c := &crew{procs: runtime.GOMAXPROCS(0)}
	if c.procs < len(cpus)+1 {
		runtime.GOMAXPROCS(len(cpus) + 1)
	}
	started := make(chan error)
	for _, id := range cpus {
		w := &worker{cpu: id, todo: make(chan func(*worker)), in: new(operands), out: new(results),
			now: time.Now, used: threadCPU}
		w.in.fill()
		c.workers = append(c.workers, w)
		go func() {
			// never unlocked: the thread ends with the goroutine, and its CPU with it
			runtime.LockOSThread()
			started <- pin(id)
			for f := range w.todo {
				f(w)
			}
		}()
	}
	var err error
	for range cpus {
		if e := <-started; e != nil {
			err = e
		}
	}
	if err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

func (c *crew) end() {
	c.free()
	for _, w := range c.workers {
		close(w.todo)
	}
	runtime.GOMAXPROCS(c.procs)
}

// each runs f on the first n threads and waits for them.
func (c *crew) each(n int, f func(*worker)) {
	var wg sync.WaitGroup
	wg.Add(n)
	for _, w := range c.workers[:n] {
		w.todo <- func(w *worker) { defer wg.Done(); f(w) }
	}
	wg.Wait()
}

// hold gives the first n threads size bytes each, touched by the thread that will read them: a page is placed
// on the node of the CPU that touches it first.
func (c *crew) hold(ctx context.Context, n int, size int64) error {
	c.free()
	for _, w := range c.workers[:n] {
		b, err := allocate(size)
		if err != nil {
			c.free()
			return err
		}
		w.mem, w.at = b, 0
	}
	c.each(n, func(w *worker) {
		for at := 0; at < len(w.mem) && ctx.Err() == nil; at += chunk {
			fill(w.mem[at : at+chunk])
		}
	})
	return ctx.Err()
}

func (c *crew) free() {
	for _, w := range c.workers {
		if w.mem != nil {
			release(w.mem)
			w.mem = nil
		}
	}
}

// fill writes a chunk's words: their own indices, so that the sum of each chunk is chunkSum.
func fill(b []byte) {
	for i, w := 0, unsafe.Slice((*uint64)(unsafe.Pointer(&b[0])), len(b)/8); i < len(w); i++ {
		w[i] = uint64(i)
	}
}

const chunkSum = (chunk / 8) * (chunk/8 - 1) / 2

// fill sets bytes from 0x30 to 0x3f. As numbers of any type they are normal, and their sums stay finite for
// as long as a kernel runs. They differ, as a CPU that multiplies equal numbers needs less power than usual.
func (o *operands) fill() {
	for i := range o.a {
		o.a[i], o.b[i] = byte(0x30+i*7&15), byte(0x30+(i*11+3)&15)
	}
}

// trial is the result of several threads' work in parallel.
type trial struct {
	rate float64 // of all threads, 10^9 per second
	cpu  float64 // CPU time / time, mean of the threads; below 0: unknown
	ghz  float64 // clock rate right afterwards; 0: unknown
}

// task calls a kernel on a thread and returns the work done: bytes, operations.
type task func(w *worker) (worth int64, err error)

// try runs a task repeatedly on the first n threads for a while. They start when all are ready, and each
// checks the time after every call. The rate is the work of all divided by the time from the first one's
// begin to the last one's end, so that a late or interrupted thread makes it lower, never higher.
func (c *crew) try(ctx context.Context, n int, long time.Duration, spin spinner, do task) (trial, error) {
	type part struct {
		worth      int64
		begin, end time.Time
		cpu        float64
		ghz        float64
		err        error
	}
	parts := make([]part, n)
	index := map[*worker]int{}
	for i, w := range c.workers[:n] {
		index[w] = i
	}
	var ready atomic.Int32
	c.each(n, func(w *worker) {
		p := &parts[index[w]]
		ready.Add(1)
		for ready.Load() < int32(n) && ctx.Err() == nil {
		}
		p.begin = w.now()
		before := w.used()
		for p.err == nil && ctx.Err() == nil {
			var worth int64
			worth, p.err = do(w)
			p.worth += worth
			if p.end = w.now(); p.end.Sub(p.begin) >= long {
				break
			}
		}
		after := w.used()
		p.cpu = -1
		if before >= 0 && after >= 0 {
			p.cpu = min(1, float64(after-before)/float64(p.end.Sub(p.begin)))
		}
		if spin != nil {
			p.ghz = clock(spin)
		}
	})
	if err := ctx.Err(); err != nil {
		return trial{}, err
	}
	first, last := parts[0].begin, parts[0].end
	var worth int64
	t := trial{}
	for i := range parts {
		p := &parts[i]
		if p.err != nil {
			return trial{}, p.err
		}
		worth += p.worth
		if p.begin.Before(first) {
			first = p.begin
		}
		if p.end.After(last) {
			last = p.end
		}
		t.cpu += p.cpu / float64(n)
		t.ghz += p.ghz / float64(n)
	}
	if slices.ContainsFunc(parts, func(p part) bool { return p.cpu < 0 }) {
		t.cpu = -1
	}
	d := last.Sub(first)
	if d <= 0 {
		return trial{}, fmt.Errorf("the clock did not go on during a trial")
	}
	t.rate = float64(worth) / float64(d)
	return t, nil
}

// clock is the CPU's clock rate, GHz: dependent additions, the fastest of some short runs.
func clock(spin spinner) float64 {
	best := 0.0
	for range 4 {
		const n = 64 << 10
		t := time.Now()
		spin(n)
		if d := time.Since(t); d > 0 {
			best = max(best, n/float64(d))
		}
	}
	return best
}

// readTask reads the next chunk of the thread's memory, and verifies that it was read.
func readTask(r reader) task {
	return func(w *worker) (int64, error) {
		if w.at >= len(w.mem) {
			w.at = 0
		}
		if sum := r.run(&w.mem[w.at], chunk); sum != chunkSum {
			return 0, fmt.Errorf("the reader %s read a sum of %#x, not %#x: a bug of it, or memory that does not keep what is written", r.name, sum, chunkSum)
		}
		w.at += chunk
		return chunk, nil
	}
}

// computeTask calls a kernel for about as long as reading a chunk takes.
func computeTask(c computer, n int) task {
	return func(w *worker) (int64, error) {
		c.run(n, w.in, w.out)
		return int64(n) * int64(c.ops), nil
	}
}

// turns is the number of iterations of a kernel in some 0.1 ms: long compared with the setup of tiles.
func turns(c computer, in *operands, out *results) int {
	n := 64
	for n < 1<<24 {
		t := time.Now()
		c.run(n, in, out)
		if time.Since(t) >= 100*time.Microsecond {
			break
		}
		n *= 2
	}
	return n
}
