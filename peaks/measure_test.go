// SPDX-License-Identifier: Apache-2.0

package peaks

import (
	"context"
	"errors"
	"math"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// quick is a measurement of little memory and short trials: its figures mean nothing, its ways are those of a
// real one.
func quick() *measurement {
	m := newMeasurement(Options{Trial: 2 * time.Millisecond, Trials: 3, Tool: "test"})
	m.least = 4 << 20
	m.root = ownRoot()
	return m
}

// ownRoot is the machine's own /proc and /sys without its caches, so that little memory is enough.
func ownRoot() machineFS {
	f := newMachine()
	for _, name := range []string{"proc/cpuinfo", "proc/meminfo", "proc/stat", "proc/loadavg",
		"sys/devices/system/cpu/online"} {
		if b, err := os.ReadFile("/" + name); err == nil {
			f.put(name, strings.TrimSpace(string(b)))
		}
	}
	return f
}

func TestMeasure(t *testing.T) {
	procs, before := runtime.GOMAXPROCS(0), allowed()
	m := quick()
	var shares []float64
	m.opt.Progress = func(share float64, what string) { shares = append(shares, share) }
	p, err := m.run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.check(); err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(shares) || len(shares) == 0 || shares[0] != 0 || shares[len(shares)-1] >= 1 {
		t.Errorf("progress %v", shares)
	}
	if p.Tool != "test" || p.WorkingSet < 4<<20 || time.Since(p.Measured) > time.Minute || len(p.CPUs) == 0 {
		t.Errorf("%+v", p)
	}
	have := map[What]bool{Read: true, Stream: true}
	for _, c := range m.kernels.computers {
		have[c.what] = true
	}
	for _, pt := range p.Points {
		for _, w := range figures {
			if f := pt.Figure(w); (f != nil) != have[w] {
				t.Errorf("%d threads: %s is %v", pt.Threads, w, f)
			}
		}
		if pt.Read.Best < pt.Stream.Best {
			t.Errorf("%d threads: a stream of %v is more than the most, %v", pt.Threads, pt.Stream.Best,
				pt.Read.Best)
		}
		if (pt.GHz == nil) != (m.kernels.spin == nil) {
			t.Errorf("clock %v", pt.GHz)
		}
	}
	if n := len(m.kernels.readers) + len(m.kernels.computers); len(p.Kernels) != n {
		t.Errorf("%d loops, not %d", len(p.Kernels), n)
	}
	if runtime.GOMAXPROCS(0) != procs {
		t.Errorf("GOMAXPROCS was %d and is %d", procs, runtime.GOMAXPROCS(0))
	}
	if after := allowed(); !slices.Equal(after, before) {
		t.Errorf("this thread may run on %v, before on %v", after, before)
	}
}

func TestMeasureThreads(t *testing.T) {
	m := quick()
	m.opt.Threads = []int{1, 1}
	p, err := m.run(context.Background())
	if err != nil || len(p.Points) != 1 || p.Points[0].Threads != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, n := range [][]int{{0}, {-1, 1}, {100000}} {
		m := quick()
		m.opt.Threads = n
		if _, err := m.run(context.Background()); err == nil {
			t.Errorf("%v threads: no error", n)
		}
	}
}

func TestMeasureInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	m := quick()
	n := 0
	m.opt.Progress = func(float64, string) {
		if n++; n == 3 {
			cancel()
		}
	}
	if p, err := m.run(ctx); p != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", p, err)
	}
}

// TestLittleMemory: a working set is cut to half of what is free, and the measurement says what that does to
// the figures.
func TestLittleMemory(t *testing.T) {
	m := quick()
	m.opt.Threads = []int{1}
	m.kernels.computers = m.kernels.computers[:1]
	f := m.root.(machineFS)
	f.put("proc/meminfo", "MemTotal: 8192 kB\nMemAvailable: 6144 kB")
	p, err := m.run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if p.WorkingSet != 3<<20 || !slices.ContainsFunc(p.Warnings, func(s string) bool {
		return strings.Contains(s, "not enough memory")
	}) {
		t.Errorf("%d bytes, %q", p.WorkingSet, p.Warnings)
	}
}

func someCPUs(t *testing.T, n int) []int {
	ids := allowed()
	if ids == nil {
		for i := range runtime.NumCPU() {
			ids = append(ids, i)
		}
	}
	if len(ids) < n {
		t.Skipf("needs %d CPUs", n)
	}
	return ids[:n]
}

// TestCrewPins: each thread stays on its CPU, and they run side by side.
func TestCrewPins(t *testing.T) {
	ids := someCPUs(t, 2)
	c, err := newCrew(ids)
	if err != nil {
		t.Fatal(err)
	}
	defer c.end()
	var mu sync.Mutex
	got := map[int][]int{}
	c.each(2, func(w *worker) {
		mu.Lock()
		got[w.cpu] = allowed()
		mu.Unlock()
	})
	want := map[int][]int{ids[0]: {ids[0]}, ids[1]: {ids[1]}}
	if runtime.GOOS == "linux" && !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	if _, err := newCrew([]int{1 << 20}); err == nil && runtime.GOOS == "linux" {
		t.Error("pinned to a CPU that does not exist")
	}
}

// machineClock is the time of a thread on a machine that does what a test says. Threads have clocks of their own.
type machineClock struct{ at, used time.Duration }

// on gives a thread the clock.
func (m *machineClock) on(w *worker) {
	w.now = func() time.Time { return time.Unix(0, 0).Add(m.at) }
	w.used = func() time.Duration { return m.used }
}

// compute and wait let time pass, with and without the CPU.
func (m *machineClock) compute(d time.Duration) { m.at, m.used = m.at+d, m.used+d }
func (m *machineClock) wait(d time.Duration)    { m.at += d }

// TestTry: a trial's rate is all work by all time, from the first begin to the last end.
func TestTry(t *testing.T) {
	c, err := newCrew(someCPUs(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	defer c.end()
	clocks := map[*worker]*machineClock{}
	for _, w := range c.workers {
		clocks[w] = &machineClock{}
		clocks[w].on(w)
	}
	var calls atomic.Int64
	tr, err := c.try(context.Background(), 2, 5*time.Millisecond, nil, func(w *worker) (int64, error) {
		calls.Add(1)
		clocks[w].compute(time.Millisecond)
		if w == c.workers[1] { // one call, but a long one: it counts, and so does its time
			clocks[w].wait(50 * time.Millisecond)
		}
		return 1e6, nil
	})
	if err != nil || calls.Load() != 6 {
		t.Fatalf("%d calls, want 5 and 1: %v", calls.Load(), err)
	}
	if want := 6e6 / 51e6; math.Abs(tr.rate-want) > 1e-9 {
		t.Errorf("%v, not %v", tr.rate, want)
	}
	if want := (1 + 1./51) / 2; math.Abs(tr.cpu-want) > 1e-9 {
		t.Errorf("its threads had their CPUs for %v of the time, not %v", tr.cpu, want)
	}
	if _, err := c.try(context.Background(), 1, time.Millisecond, nil, func(*worker) (int64, error) {
		return 0, errors.New("no")
	}); err == nil {
		t.Error("a task's error is lost")
	}
}

// TestReadsAreReal: a reader that leaves a word out, or reads one twice, ends the measurement.
func TestReadsAreReal(t *testing.T) {
	c, err := newCrew(someCPUs(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.end()
	if err := c.hold(context.Background(), 1, 3*chunk); err != nil {
		t.Fatal(err)
	}
	good := hasKernels().readers[0]
	w := c.workers[0]
	for range 7 {
		if n, err := readTask(good)(w); n != chunk || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if w.at != chunk {
		t.Errorf("after 7 of 3 chunks it is at %d", w.at)
	}
	short := reader{name: "short", run: func(p *byte, n int) uint64 { return good.run(p, n-4096) }}
	if _, err := readTask(short)(w); err == nil || !strings.Contains(err.Error(), "short") {
		t.Errorf("a reader that leaves a page out: %v", err)
	}
}

// TestFigure: the fastest kernel is taken, its best trial is the figure, and a slow one is not tried again on
// several threads.
func TestFigure(t *testing.T) {
	m := quick()
	m.out.CPUs = someCPUs(t, 1)
	m.opt.Trial = 3 * time.Millisecond
	c, err := newCrew(m.out.CPUs)
	if err != nil {
		t.Fatal(err)
	}
	defer c.end()
	calls := map[string]int{}
	var clock machineClock
	clock.on(c.workers[0])
	kernel := func(name string, worth int64) contestant {
		return contestant{name, func(w *worker) (int64, error) {
			calls[name]++
			clock.compute(time.Millisecond)
			return worth, nil
		}}
	}
	all := []contestant{kernel("slow", 1e6), kernel("fast", 4e6), kernel("middling", 1e6)}
	f, _, err := m.figure(context.Background(), c, 1, F32, all)
	if err != nil || f.Kernel != "fast" || f.Trials < 3 || f.Best != 4 || f.Median != 4 ||
		f.Worst != 4 {
		t.Errorf("%+v, %v", f, err)
	}
	if len(m.out.Kernels) != 3 || m.out.Kernels[1].Rate != f.Best {
		t.Errorf("%+v", m.out.Kernels)
	}
	m.out.Points = []Point{{Threads: 1}}
	n := calls["middling"]
	if _, _, err := m.figure(context.Background(), c, 1, F32, all); err != nil {
		t.Fatal(err)
	}
	if calls["middling"] != n {
		t.Error("a slow kernel was tried again")
	}
}

// TestShortTrials: where long trials do not agree, shorter ones that fit between the interruptions do, and of
// all kernels.
func TestShortTrials(t *testing.T) {
	m := quick()
	m.out.CPUs = someCPUs(t, 1)
	m.opt = Options{}
	c, err := newCrew(m.out.CPUs)
	if err != nil {
		t.Fatal(err)
	}
	defer c.end()
	calls := 0
	var clock machineClock
	clock.on(c.workers[0])
	kernel := func(name string, worth int64) contestant {
		return contestant{name, func(w *worker) (int64, error) {
			calls++
			clock.compute(time.Millisecond)
			// other work comes every 15 ms and stays for 5 to 9
			if clock.at%(15*time.Millisecond) > 10*time.Millisecond {
				clock.wait(time.Duration(5+calls%5) * time.Millisecond)
			}
			return worth, nil
		}}
	}
	f, _, err := m.figure(context.Background(), c, 1, F32, []contestant{kernel("a", 1e6), kernel("b", 2e6)})
	if err != nil || f.Kernel != "b" || !f.Agree || f.Best < 1.8 || f.Best > 2.05 ||
		f.Trials > leastTrials+shortTrials {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestSummary(t *testing.T) {
	m := quick()
	ts := []trial{{rate: 96, cpu: 0.5}, {rate: 100, cpu: 0.9, ghz: 3}, {rate: 50, cpu: 1}, {rate: 98, cpu: 1}}
	f, ghz := m.summarise(ts)
	if f.Best != 100 || f.Median != 97 || f.Worst != 50 || f.Trials != 4 || f.Agree || *f.CPU != 0.9 ||
		*ghz != 3 {
		t.Errorf("%+v %v", f, ghz)
	}
	ts = append(ts, trial{rate: 97.5, cpu: -1})
	if f, _ := m.summarise(ts); !f.Agree || f.Median != 97.5 {
		t.Errorf("%+v", f)
	}
	if f, ghz := m.summarise([]trial{{rate: 1, cpu: -1}}); f.CPU != nil || ghz != nil || f.Agree {
		t.Errorf("%+v %v", f, ghz)
	}
	same := []trial{{rate: 10, cpu: 0.7}, {rate: 10, cpu: 0.7}, {rate: 10, cpu: 0.7}}
	if settled(same) || !agree(same) {
		t.Error("trials that were all interrupted settle it")
	}
	same[0].rate, same[0].cpu = 10.1, 0.99
	if !settled(same) || settled(ts[:3]) {
		t.Error("settled or not")
	}
	if settled([]trial{{rate: 10, cpu: 1}, {rate: 9, cpu: 1}, {rate: 9, cpu: 1}}) {
		t.Error("a single best trial settles it")
	}
	if lucky := []trial{{rate: 10, cpu: 1}, {rate: 10, cpu: 1},
		{rate: 10, cpu: 1}}; !decided([][]trial{nil, lucky}, 1) ||
		decided([][]trial{lucky, {{rate: 9, cpu: 0.3}}}, 0) ||
		!decided([][]trial{lucky, {{rate: 9, cpu: -1}}}, 0) {
		t.Error("decided or not")
	}
	if agree(ts[:2]) {
		t.Error("two trials agree")
	}
}

func TestSettle(t *testing.T) {
	p := Point{Read: fig(10), Stream: fig(12)}
	p.settle()
	if p.Read.Best != 12 || p.Stream.Best != 12 {
		t.Errorf("%v, %v", p.Read, p.Stream)
	}
	p = Point{Read: fig(10), Stream: fig(8)}
	p.settle()
	if p.Read.Best != 10 || p.Stream.Best != 8 {
		t.Errorf("%v, %v", p.Read, p.Stream)
	}
	p = Point{Read: fig(10)}
	p.settle()
}

func TestBusy(t *testing.T) {
	stat := "cpu  100 0 0 0 0 0 0 0 0 0\ncpu0 10 1 2 900 50 3 4 5 7 7\ncpu1 20 0 0 0 0 0 0 0 0 0\ncpu10 1000 0 0 0 0 0 0 0 0 0\nintr 1\n"
	for _, c := range []struct {
		cpus map[string]bool
		want time.Duration
	}{{map[string]bool{"cpu0": true}, 250 * time.Millisecond}, {map[string]bool{"cpu0": true, "cpu1": true},
		450 * time.Millisecond}, {map[string]bool{"cpu7": true}, -1}} {
		if got := busyTime(stat, c.cpus); got != c.want {
			t.Errorf("%v: %v", c.cpus, got)
		}
	}
	for _, bad := range []string{"", "cpu0 1 2 3\n", "cpu0 a b c d e f g h\n", "cpu0 -1 0 0 0 0 0 0 0\n",
		"cpu0 99999999999999999999 0 0 0 0 0 0 0\n"} {
		if got := busyTime(bad, map[string]bool{"cpu0": true}); got >= 0 {
			t.Errorf("%q: %v", bad, got)
		}
	}
	f := newMachine()
	f.put("proc/stat", "cpu0 0 0 0 0 0 0 0 0 0 0")
	f.put("proc/loadavg", "0.61 0.5 0.4 1/2 3")
	w := newWatch(f, []int{0})
	if w.load == nil || *w.load != 0.61 {
		t.Errorf("load %v", w.load)
	}
	w.begin = time.Now().Add(-10 * time.Second)
	w.own = processCPU() // nothing since
	f.put("proc/stat", "cpu0 200 0 0 0 0 0 0 100 0 0")
	if o := w.others(); runtime.GOOS == "linux" && (o == nil || math.Abs(*o-0.3) > 0.02) {
		t.Errorf("others %v", o)
	}
	f.put("proc/stat", "nothing")
	if o := w.others(); o != nil {
		t.Errorf("others %v", *o)
	}
}

func TestWarnings(t *testing.T) {
	m := quick()
	f := newMachine()
	m.root = f
	m.out = sample()
	m.warn()
	if len(m.out.Warnings) != 0 {
		t.Errorf("%q", m.out.Warnings)
	}
	others, low := 0.25, 0.8
	m.out.Others = &others
	m.out.Points[0].Read.Agree = false
	m.out.Points[1].F32.CPU = &low
	m.low, m.high = 2, 3
	f.cpu(0, "cpufreq/scaling_governor", "powersave")
	f.cpu(0, "cpufreq/scaling_driver", "acpi-cpufreq")
	f.put("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]")
	m.warn()
	want := []string{"others took 25 %", "agree within 3 %: read with 1 thread",
		"best trial: f32 with 2 threads", "from 2.00 to 3.00 GHz", "powersave", "huge pages"}
	if len(m.out.Warnings) != len(want) {
		t.Fatalf("%q", m.out.Warnings)
	}
	for i, s := range want {
		if !strings.Contains(m.out.Warnings[i], s) {
			t.Errorf("%q lacks %q", m.out.Warnings[i], s)
		}
	}
	f.cpu(0, "cpufreq/scaling_driver", "intel_pstate")
	m.out.Warnings = nil
	m.warn()
	if len(m.out.Warnings) != 5 {
		t.Errorf("intel_pstate's powersave is none: %q", m.out.Warnings)
	}
}
