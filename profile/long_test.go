// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
)

// longOps is how many operators a step of a long trace has.
const longOps = 120

// longTrace is a recording of steps of two threads, drained as a recorder does it: one CPU after
// the other, every so many steps. Where arrivals is set, operators are followed by their arrivals.
func longTrace(t testing.TB, steps int, arrivals bool) []byte {
	var buf bytes.Buffer
	w := trace.NewWriter(&buf)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sh := &trace.Shape{PID: profile.Pid, ID: 7, NNodes: longOps}
	for i := range longOps {
		sh.Nodes = append(sh.Nodes, trace.Node{Name: fmt.Sprintf("ffn_out-%d", i/10),
			Op: []string{"MUL_MAT", "ADD", "RMS_NORM", "MUL"}[i%4], Type: "f32",
			Ne: [4]int64{64, 1, 1, 1}, Nb: [4]uint64{4, 256, 256,
				256}, BlockSize: 1, TypeSize: 4, Addr: profile.Addr(i), ViewSrc: -1, Executes: true})
		if arrivals {
			sh.Order = append(sh.Order, []int32{int32(i)})
		}
	}
	check(w.Meta(trace.Meta{Level: "op"}))
	check(w.Process(trace.Process{PID: profile.Pid,
		Sites: []trace.Site{{Role: trace.RoleStepBegin, Entry: "llama_decode"},
			{Role: trace.RoleGraphBegin, Backend: "CPU"}, {Role: trace.RoleOpEnd}}}))
	check(w.Shape(sh))
	if arrivals {
		check(w.Watch(trace.Watch{PID: profile.Pid, Time: 1, Ops: trace.WatchArrivals, Why: "following"}))
	}
	now := int64(1e9)
	var hits [2][]trace.Hit
	var marks []trace.Mark
	for step := range steps {
		mark := func(k trace.MarkKind, site uint32) {
			m := trace.Mark{Time: now, PID: profile.Pid, TID: profile.Main0, Kind: k, Site: site, NTokens: 1,
				Type: -1}
			if k == trace.MarkGraphBegin {
				m.Shape, m.NNodes, m.UID, m.Threads = 7, longOps, 1, 2
			}
			marks = append(marks, m)
			now += 100
		}
		mark(trace.MarkStepBegin, 0)
		mark(trace.MarkGraphBegin, 1)
		for op := range longOps {
			for th := range int64(2) {
				h := trace.Hit{Time: now + 70*th, PID: profile.Pid, TID: profile.Main0 + int32(th),
					CPU: uint16(th)}
				if !arrivals {
					h.Kind, h.Arg, h.Ith, h.Nth = trace.HitOpBegin, profile.Addr(op), uint16(th), 2
					hits[th] = append(hits[th], h)
				}
				h.Time += 9000 + int64(op*step%97)
				h.Kind, h.Arg, h.Ith, h.Nth = trace.HitOpEnd, profile.Pool, 0, 0
				hits[th] = append(hits[th], h)
			}
			now += 12000
		}
		mark(trace.MarkGraphEnd, 1)
		mark(trace.MarkStepEnd, 0)
		if step%40 == 39 || step == steps-1 {
			check(w.Marks(marks))
			for th := range hits {
				check(w.Hits(hits[th]))
				hits[th] = hits[th][:0]
			}
			marks = marks[:0]
			check(w.Drain(now))
		}
	}
	check(w.Close(trace.End{Time: now}))
	return buf.Bytes()
}

// heapWatch is a sink that looks now and then how much memory is in use.
type heapWatch struct {
	profile.Sink
	every, steps, ops int
	peak              uint64
}

func (w *heapWatch) Op(o *profile.Op) error { w.ops++; return w.Sink.Op(o) }

func (w *heapWatch) Step(s *profile.Step) error {
	if w.steps++; w.steps%w.every == 0 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		w.peak = max(w.peak, m.HeapAlloc)
	}
	return w.Sink.Step(s)
}

// TestMemoryIsBounded: what is in use while a recording is read does not depend on its length.
func TestMemoryIsBounded(t *testing.T) {
	for _, arrivals := range []bool{false, true} {
		var peaks []uint64
		for _, steps := range []int{1500, 6000} {
			b := longTrace(t, steps, arrivals)
			r, err := trace.NewReader(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			w := &heapWatch{Sink: stat.New(stat.Options{}), every: steps / 20}
			var before runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			h, err := profile.Replay(r, w)
			r.Close()
			if err != nil || len(h.Losses) != 0 || w.steps != steps || w.ops != steps*longOps {
				t.Fatalf("%v, %d steps, %d operators, losses %v", err, w.steps, w.ops, h.Losses)
			}
			peaks = append(peaks, w.peak-min(w.peak, before.HeapAlloc))
		}
		t.Logf("arrivals %v: %d KiB, four times as long %d KiB", arrivals, peaks[0]>>10, peaks[1]>>10)
		if peaks[1] > peaks[0]+peaks[0]/2+1<<20 || peaks[1] > 48<<20 {
			t.Errorf("arrivals %v: %d bytes, four times as long %d", arrivals, peaks[0], peaks[1])
		}
	}
}

// keeper is a sink that keeps every operator, and hands all on.
type keeper struct {
	profile.Sink
	ops  []*profile.Op
	want []profile.Op
}

func (k *keeper) Op(o *profile.Op) error {
	k.ops = append(k.ops, o)
	c := *o
	c.Threads = slices.Clone(o.Threads)
	k.want = append(k.want, c)
	return k.Sink.Op(o)
}

// TestKeepingChangesNothing: statistics are the same where another sink keeps what they let go of, and
// what it keeps stays as it was.
func TestKeepingChangesNothing(t *testing.T) {
	for _, arrivals := range []bool{false, true} {
		b := longTrace(t, 200, arrivals)
		stat := func(pool *profile.OpPool, wrap func(profile.Sink) profile.Sink) []byte {
			r, err := trace.NewReader(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			s := stat.New(stat.Options{Pool: pool})
			h, err := profile.ReplayReusing(r, wrap(s), pool)
			if err != nil {
				t.Fatal(err)
			}
			j, err := json.Marshal(s.Finish(h))
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		k := &keeper{}
		alone := stat(&profile.OpPool{}, func(s profile.Sink) profile.Sink { return s })
		kept := stat(nil, func(s profile.Sink) profile.Sink { k.Sink = s; return k })
		if !bytes.Equal(alone, kept) {
			t.Errorf("arrivals %v: statistics differ:\n%s\n%s", arrivals, alone, kept)
		}
		for i, o := range k.ops {
			if !reflect.DeepEqual(*o, k.want[i]) {
				t.Fatalf("arrivals %v: operator %d was changed: %+v, want %+v", arrivals, i, *o, k.want[i])
			}
		}
	}
}

func benchmark(b *testing.B, arrivals bool, sink func(*profile.OpPool) profile.Sink) {
	const steps = 2000
	p := longTrace(b, steps, arrivals)
	b.ReportAllocs()
	for b.Loop() {
		r, err := trace.NewReader(bytes.NewReader(p))
		if err != nil {
			b.Fatal(err)
		}
		pool := &profile.OpPool{}
		if _, err := profile.ReplayReusing(r, sink(pool), pool); err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
	n := float64(steps * longOps * 2)
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
	b.ReportMetric(float64(len(p))/n, "B/event")
}

func BenchmarkReplay(b *testing.B) {
	benchmark(b, false, func(*profile.OpPool) profile.Sink { return profile.BaseSink{} })
}
func BenchmarkReplayArrivals(b *testing.B) {
	benchmark(b, true, func(*profile.OpPool) profile.Sink { return profile.BaseSink{} })
}
func BenchmarkStat(b *testing.B) {
	benchmark(b, false, func(pool *profile.OpPool) profile.Sink { return stat.New(stat.Options{Pool: pool}) })
}
func BenchmarkStatArrivals(b *testing.B) {
	benchmark(b, true, func(pool *profile.OpPool) profile.Sink { return stat.New(stat.Options{Pool: pool}) })
}
