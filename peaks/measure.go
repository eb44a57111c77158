// SPDX-License-Identifier: Apache-2.0

package peaks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"time"

	"github.com/profinfer/profinfer/internal/format"
)

// Options are the options of a measurement. The zero value is the default for measuring a machine.
type Options struct {
	// Threads are the thread counts; none: all up to four, then powers of two, cores, all CPUs.
	Threads []int
	// Trial is the duration of a trial; 0: 60 ms for reading, 20 ms for computing.
	Trial time.Duration
	// Trials is the minimum number of trials per figure; 0: 5. If the best three then disagree, or other work
	// interrupted the best, trials of 3 ms follow, which fit between interruptions: up to 160.
	Trials int
	// Tool is the version stored with the peaks.
	Tool string
	// Progress receives what is measured next, and the fraction of all work that is done.
	Progress func(share float64, what string)
}

const (
	readTrial    = 60 * time.Millisecond
	computeTrial = 20 * time.Millisecond
	leastTrials  = 5
	shortTrial   = 3 * time.Millisecond // roughly the time slice that a scheduler gives one of several tasks
	shortTrials  = 160
	// uninterrupted is the minimum share of its CPU that a thread has if nothing but interrupts ran there.
	uninterrupted = 0.97
	agreement     = 0.03 // how far the third best may be below the best
	// contender: a loop with less than this share of the best rate on one thread is not tried on several.
	contender = 0.8
	// room is the divisor for the available memory: at most this fraction of it is used.
	room = 2
)

// measurement is a running measurement.
type measurement struct {
	opt     Options
	kernels kernels
	machine Machine
	root    fs.FS
	out     *Peaks
	steps   int // of progress
	done    int
	least   int64 // minimum number of bytes read by all threads together
	// dull are kernels that are slow on one thread, by what and name
	dull map[string]bool
	clockRange
}

// clockRange is the range of the clock rate while a figure was measured, widest over all figures.
type clockRange struct{ low, high float64 }

// Measure finds the peaks of this machine. It uses all CPUs that the process may run on, some hundreds of MB
// of memory, and seconds; other work on them lowers the results, which Warnings report.
func Measure(ctx context.Context, opt Options) (*Peaks, error) {
	return newMeasurement(opt).run(ctx)
}

func newMeasurement(opt Options) *measurement {
	out := &Peaks{SchemaVersion: SchemaVersion, Tool: opt.Tool, Kernels: []KernelRate{}}
	return &measurement{opt: opt, kernels: hasKernels(), root: root, out: out, least: leastSet,
		dull: map[string]bool{}}
}

func (m *measurement) run(ctx context.Context) (*Peaks, error) {
	begin := time.Now()
	var units []cpuUnit
	m.machine, units = readMachine(m.root)
	m.out.Machine = m.machine
	cpus := allowed()
	if cpus != nil {
		units = slices.DeleteFunc(units, func(u cpuUnit) bool { return !slices.Contains(cpus, u.id) })
	}
	if len(units) == 0 {
		return nil, errors.New("none of this machine's CPUs may be used (see taskset -p $$)")
	}
	m.cpus(len(cpus))
	placed := place(units)
	for _, u := range placed {
		m.out.CPUs = append(m.out.CPUs, u.id)
	}
	threads, err := m.threads(placed)
	if err != nil {
		return nil, err
	}
	kinds := kindsOf(units)
	m.plan(threads, kinds)

	watch := newWatch(m.root, m.out.CPUs)
	m.out.Load = watch.load
	if m.out.Points, err = m.points(ctx, placed, threads); err != nil {
		return nil, err
	}
	if len(kinds) > 1 {
		for _, k := range kinds {
			own := slices.DeleteFunc(slices.Clone(placed), func(u cpuUnit) bool { return u.kind != k.Name })
			n := []int{1}
			if len(own) > 1 {
				n = append(n, len(own))
			}
			if k.Points, err = m.points(ctx, own, n); err != nil {
				return nil, err
			}
			m.out.Kinds = append(m.out.Kinds, k)
		}
	}
	m.out.Others = watch.others()
	m.warn()
	m.out.Measured = time.Now().UTC().Truncate(time.Second)
	m.out.TookNS = int64(time.Since(begin))
	return m.out, nil
}

// cpus warns if the process may use less than the machine has.
func (m *measurement) cpus(n int) {
	if n > 0 && n < m.machine.CPUs {
		m.say("this process may use %d of the machine's %d CPUs: the peaks are theirs", n, m.machine.CPUs)
	}
	if q := runtime.GOMAXPROCS(0); n > q {
		m.say("this process gets the time of %d of its %d CPUs (a cgroup's quota, or GOMAXPROCS): more threads are slowed down", q, n)
	}
}

func (m *measurement) threads(placed []cpuUnit) ([]int, error) {
	if len(m.opt.Threads) == 0 {
		return counts(placed), nil
	}
	out := slices.Clone(m.opt.Threads)
	slices.Sort(out)
	out = slices.Compact(out)
	if out[0] < 1 || out[len(out)-1] > len(placed) {
		return nil, fmt.Errorf("threads: %d to %d were asked for, this process can use 1 to %d CPUs", out[0],
			out[len(out)-1], len(placed))
	}
	return out, nil
}

func (m *measurement) say(format string, a ...any) {
	m.out.Warnings = append(m.out.Warnings, fmt.Sprintf(format, a...))
}

// plan counts the steps of progress: one per figure.
func (m *measurement) plan(threads []int, kinds []Kind) {
	points := len(threads)
	if len(kinds) > 1 {
		for _, k := range kinds {
			points += min(2, len(k.CPUs))
		}
	}
	each := 2
	for _, w := range computed {
		if len(m.computers(w)) > 0 {
			each++
		}
	}
	m.steps = points * each
}

func (m *measurement) computers(w What) (out []computer) {
	for _, c := range m.kernels.computers {
		if c.what == w {
			out = append(out, c)
		}
	}
	return out
}

func (m *measurement) progress(what string, threads int) {
	if m.opt.Progress != nil {
		m.opt.Progress(float64(m.done)/float64(m.steps), what+" with "+format.Plural(threads, "thread"))
	}
	m.done++
}

// points measures on the first of the CPUs, for each thread count.
func (m *measurement) points(ctx context.Context, placed []cpuUnit, threads []int) ([]Point, error) {
	most := slices.Max(threads)
	ids := make([]int, most)
	for i := range ids {
		ids[i] = placed[i].id
	}
	c, err := newCrew(ids)
	if err != nil {
		return nil, err
	}
	defer c.end()
	var out []Point
	for _, n := range threads {
		p := Point{Threads: n}
		if err := m.read(ctx, c, placed[:n], &p); err != nil {
			return nil, err
		}
		for _, w := range computed {
			ks := m.computers(w)
			if len(ks) == 0 {
				continue
			}
			m.progress(string(w), n)
			var all []contestant
			for _, k := range ks {
				all = append(all, contestant{k.name,
					computeTask(k, turns(k, c.workers[0].in, c.workers[0].out))})
			}
			f, ghz, err := m.figure(ctx, c, n, w, all)
			if err != nil {
				return nil, err
			}
			*p.slot(w) = f
			if w == F32 {
				p.GHz = ghz
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// read measures reading on the crew's first threads, which are pinned to these CPUs.
func (m *measurement) read(ctx context.Context, c *crew, placed []cpuUnit, p *Point) error {
	n := len(placed)
	size := share(placed, m.least)
	if limit := available(m.root) / room / int64(n) / chunk * chunk; limit > 0 && size > limit {
		m.say("threads: %d: not enough memory is free to read %d times the caches: %d MB, not %d; what caches hold makes the bandwidth read too high",
			n, times, limit*int64(n)/1e6, size*int64(n)/1e6)
		size = limit
	}
	if err := c.hold(ctx, n, size); err != nil {
		return err
	}
	defer c.free()
	if set := size * int64(n); m.out.WorkingSet == 0 || set < m.out.WorkingSet {
		m.out.WorkingSet = set
	}
	for _, w := range []What{Stream, Read} {
		m.progress(string(w), n)
		var all []contestant
		for _, r := range m.kernels.readers {
			if w == Read || r.what == w {
				all = append(all, contestant{r.name, readTask(r)})
			}
		}
		f, _, err := m.figure(ctx, c, n, w, all)
		if err != nil {
			return err
		}
		*p.slot(w) = f
	}
	p.settle()
	return nil
}

// settle: a stream also counts as reading; noise may have affected only the other trials.
func (p *Point) settle() {
	if p.Stream != nil && p.Stream.Best > p.Read.Best {
		p.Read = p.Stream
	}
}

// contestant is a kernel to be tried.
type contestant struct {
	name string
	do   task
}

// figure tries kernels on the crew's first n threads, and continues with the fastest. If its best trials
// disagree or were interrupted, it continues with short trials of all.
func (m *measurement) figure(ctx context.Context, c *crew, n int, what What, all []contestant) (*Figure,
	*float64, error) {
	long := m.opt.Trial
	spin := m.kernels.spin
	if what == Read || what == Stream {
		long, spin = cmp.Or(long, readTrial), nil
	} else {
		long = cmp.Or(long, computeTrial)
	}
	least := m.opt.Trials
	if least <= 0 {
		least = leastTrials
	}
	// the first trial wakes the CPUs, whose clock is still low: it does not count
	if _, err := c.try(ctx, n, long, nil, all[0].do); err != nil {
		return nil, nil, err
	}
	trials := make([][]trial, len(all))
	best := -1
	once := func(i int, long time.Duration) error {
		t, err := c.try(ctx, n, long, spin, all[i].do)
		if err == nil {
			trials[i] = append(trials[i], t)
			if best < 0 || t.rate > top(trials[best]).rate {
				best = i
			}
		}
		return err
	}
	first := len(c.workers) > 0 && c.workers[0].cpu == m.out.CPUs[0] && n == 1 && len(m.out.Points) == 0
	for range 2 {
		for i := range all {
			if !first && m.dull[string(what)+all[i].name] {
				continue
			}
			if err := once(i, long); err != nil {
				return nil, nil, err
			}
		}
	}
	for len(trials[best]) < least {
		if err := once(best, long); err != nil {
			return nil, nil, err
		}
	}
	for k := 0; k < shortTrials && !decided(trials, best); k++ {
		if i := k % len(all); first || !m.dull[string(what)+all[i].name] {
			if err := once(i, min(long, shortTrial)); err != nil {
				return nil, nil, err
			}
		}
	}
	if first {
		// a stream also counts as reading
		for i := range all {
			r := top(trials[i]).rate
			if what != Stream {
				m.out.Kernels = append(m.out.Kernels, KernelRate{What: what, Kernel: all[i].name, Rate: r})
			}
			m.dull[string(what)+all[i].name] = r < contender*top(trials[best]).rate
		}
	}
	f, ghz := m.summarise(trials[best])
	f.Kernel = all[best].name
	return f, ghz, nil
}

// top is the best trial.
func top(ts []trial) trial {
	return slices.MaxFunc(ts, func(a, b trial) int { return cmp.Compare(a.rate, b.rate) })
}

// rates are those of trials, the best first.
func rates(ts []trial) []float64 {
	out := make([]float64, len(ts))
	for i, t := range ts {
		out[i] = t.rate
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

func agree(ts []trial) bool {
	if len(ts) < 3 {
		return false
	}
	r := rates(ts)
	return r[2] >= r[0]*(1-agreement)
}

// settled reports whether other work left the best trials alone. Agreement is not enough: regular
// interruptions make long trials agree.
func settled(ts []trial) bool {
	best := top(ts)
	return agree(ts) && (best.cpu < 0 || best.cpu >= uninterrupted)
}

// decided reports whether the best kernel's trials are settled, and no other kernel, which may be better, had
// all its trials interrupted.
func decided(trials [][]trial, best int) bool {
	for _, ts := range trials {
		if len(ts) > 0 && top(ts).cpu >= 0 && top(ts).cpu < uninterrupted {
			return false
		}
	}
	return settled(trials[best])
}

func (m *measurement) summarise(ts []trial) (*Figure, *float64) {
	r := rates(ts)
	best := top(ts)
	f := &Figure{Best: r[0], Worst: r[len(r)-1], Median: (r[(len(r)-1)/2] + r[len(r)/2]) / 2, Trials: len(ts),
		Agree: agree(ts)}
	if best.cpu >= 0 {
		f.CPU = &best.cpu
	}
	for _, t := range ts {
		if t.ghz > 0 && t.cpu > 0.99 {
			if m.high == 0 {
				m.low, m.high = t.ghz, t.ghz
			}
			m.low, m.high = min(m.low, t.ghz), max(m.high, t.ghz)
		}
	}
	if best.ghz > 0 {
		return f, &best.ghz
	}
	return f, nil
}
