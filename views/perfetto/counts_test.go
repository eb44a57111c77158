// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/internal/beside"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

var counted = []trace.Counter{{Name: "cycles", Role: "cycles", PMU: "cpu", User: true},
	{Name: "instructions", Role: "instructions", PMU: "cpu", User: true},
	{Name: "stall_backend", Role: "stall-backend", PMU: "cpu", Void: "it reads 0"}, {Name: "task-clock",
		Role: "task-clock", PMU: "kernel", Unit: "ns"},
	{Name: "major-faults", Role: "major-faults"}, {Name: "cycles:\x1bk", Role: "cycles", PMU: "cpu"}}

// counter gives operators counts: 3 cycles a ns and, on thread i, an IPC of (i+1)/2; one major fault on the
// first thread of every GET_ROWS. Of SWIGLU nothing is known.
type counter struct {
	profile.Sink
	ops []*profile.Op
}

func (c *counter) Op(o *profile.Op) error {
	o.Counts = make([]int64, len(counted))
	for i := range o.Threads {
		th := &o.Threads[i]
		cycles := 3 * th.Busy
		th.Counts = []int64{cycles, cycles * int64(i+1) / 2, 0, th.Busy, 0, cycles / 8}
		if o.Op == "GET_ROWS" && i == 0 {
			th.Counts[4] = 1
		}
		if o.Op == "SWIGLU" {
			th.Counts = nil
			o.Counts = slices.Repeat([]int64{profile.UnknownCount}, len(counted))
			continue
		}
		for j, v := range th.Counts {
			o.Counts[j] += v
		}
	}
	o.Scaled = o.Op == "ADD"
	c.ops = append(c.ops, o)
	return c.Sink.Op(o)
}

func exportCounted(t *testing.T) ([]byte, []*profile.Op) {
	t.Helper()
	var b bytes.Buffer
	c := &counter{}
	r := run
	r.Decode, r.Preempt = 3, 0
	err := Export(&b, func(s profile.Sink) (*profile.Header, error) {
		c.Sink = s
		s.Meta(&trace.Meta{Counters: counted})
		p := &profiletest.Player{Sink: c}
		if err := p.Play(r); err != nil {
			return nil, err
		}
		h := p.Header("op")
		h.Meta.Counters = counted
		return h, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), c.ops
}

func TestCounts(t *testing.T) {
	gz, ops := exportCounted(t)
	c := check(t, gz)
	byID := map[string]*profile.Op{}
	for _, o := range ops {
		byID[fmt.Sprint(o.ID)] = o
	}
	seen, unknown := 0, 0
	for _, s := range c.slices {
		if s.cat != "op" {
			continue
		}
		o := byID[s.notes["op_id"]]
		at := slices.IndexFunc(o.Threads, func(th profile.OpThread) bool {
			return int64(th.TID) == c.tracks[s.track].tid
		})
		th := &o.Threads[at]
		if th.Counts == nil {
			unknown++
			for n := range s.notes {
				if strings.HasPrefix(n, "count") || strings.HasPrefix(n, "thread.") {
					t.Fatalf("%s: %s of what is not known", o.Op, n)
				}
			}
			continue
		}
		seen++
		want := map[string]string{"thread.cycles": fmt.Sprint(3 * th.Busy),
			"thread.instructions": fmt.Sprint(3 * th.Busy * int64(at+
				1) / 2), "thread.task-clock": fmt.Sprint(th.Busy),
			"thread.major-faults": fmt.Sprint(th.Counts[4]), "thread.stall_backend": "",
			"count.stall_backend": "", "count.cycles": "", "count.scaled": "",
			"thread.cycles:\ufffdk": fmt.Sprint(3 * th.Busy / 8)}
		if at == 0 {
			want["count.cycles"], want["count.instructions"], want["count.major-faults"] = fmt.Sprint(o.Counts[0]), fmt.Sprint(o.Counts[1]), fmt.Sprint(o.Counts[4])
			want["count.IPC"] = fmt.Sprintf("%.6g", float64(o.Counts[1])/float64(o.Counts[0]))
			if o.Scaled {
				want["count.scaled"] = "some are estimates: their events took turns"
			}
		}
		for n, v := range want {
			if s.notes[n] != v {
				t.Fatalf("%s on thread %d: %s is %q, want %q", o.Op, at, n, s.notes[n], v)
			}
		}
	}
	if seen == 0 || unknown == 0 || seen+unknown != len(ops)*3 {
		t.Errorf("%d slices with counts, %d without, of %d operators", seen, unknown, len(ops))
	}
	// the tracks: below each thread
	byThread := map[string]map[int64][]float64{}
	for id, k := range c.tracks {
		if k.unit == "" || c.tracks[k.parent] == nil || c.tracks[k.parent].tid == 0 {
			continue
		}
		if byThread[k.name] == nil {
			byThread[k.name] = map[int64][]float64{}
		}
		byThread[k.name][c.tracks[k.parent].tid] = c.counters[id]
	}
	for n, threads := range map[string]int{"cycles": 3, "instructions": 3, "IPC": 3, "major-faults": 1,
		"task-clock": 0, "stall_backend": 0, "cycles:\ufffdk": 3} {
		if len(byThread[n]) != threads {
			t.Errorf("%s: tracks on %d threads, want %d", n, len(byThread[n]), threads)
		}
	}
	for tid, values := range byThread["IPC"] {
		for i, v := range values {
			if want := float64(tid-4242+1) / 2; math.Abs(v-want) > 0.01 && v != 0 || i == len(values)-1 &&
				v != 0 {
				t.Errorf("thread %d: IPC %v", tid, values)
				break
			}
		}
	}
	for _, v := range byThread["cycles"][4243] {
		if v != 0 && math.Abs(v-3000) > 1 {
			t.Errorf("3 cycles a ns are %g a µs", v)
		}
	}
	if v := byThread["major-faults"][4242]; len(v) != 8 || slices.Max(v) != 1 || v[7] != 0 {
		t.Errorf("four steps with a major fault each: %v", v)
	}
	// and of the steps: what is counted in two ways is not mixed
	found := false
	for id, k := range c.tracks {
		if k.name == "decode IPC" {
			found = true
			for _, v := range c.counters[id] {
				if v != 0 && (v < 0.9 || v > 1.1) {
					t.Errorf("decode IPC %v, of threads with 0.5, 1 and 1.5", c.counters[id])
				}
			}
		}
	}
	if !found {
		t.Error("no IPC of steps")
	}
}

// Without counters there is nothing of them.
func TestNoCounts(t *testing.T) {
	c := check(t, export(t, nil, run))
	for _, k := range c.tracks {
		if k.name == "IPC" || strings.HasSuffix(k.name, " IPC") {
			t.Errorf("a track %s", k.name)
		}
	}
	for _, s := range c.slices {
		for n := range s.notes {
			if strings.HasPrefix(n, "count.") || strings.HasPrefix(n, "thread.") {
				t.Fatalf("%s has %s", s.name, n)
			}
		}
	}
}

// Counters that fall between operators: a thread that rests does not go on counting.
func TestCountsFall(t *testing.T) {
	w := beside.New(io.Discard, 1<<10)
	defer w.Close()
	tr := newTracks(newPackets(w))
	c := &counts{}
	c.set(counted)
	for _, at := range []int64{1_000, 51_000, 1_000_000} {
		c.draw(tr, 7, &profile.OpThread{TID: 8, Start: at, Busy: 40_000,
			Counts: []int64{80_000, 40_000, 0, 40_000, 0, 0}})
	}
	if at := c.rows[threadKey{7, 8}].tracks[0].last; at != 1_000_000 {
		t.Errorf("after a pause it is not set again, but last at %d", at)
	}
	c.draw(tr, 7, &profile.OpThread{TID: 8, Start: 1_050_000, Busy: 0, Counts: []int64{1, 1, 0, 0, 0, 0}})
	c.draw(tr, 7, &profile.OpThread{TID: 8, Start: 1_060_000, Busy: 10, Counts: []int64{1}}) // cut
	c.finish(tr)
	r := c.rows[threadKey{7, 8}]
	if r.tracks[0].track == nil || r.tracks[4].track != nil || r.tracks[0].v != 0 {
		t.Errorf("%+v", r.tracks)
	}
	if r.tracks[0].track.last != 1_060_010 {
		t.Errorf("it falls at %d, the last operator ended at 1060010", r.tracks[0].track.last)
	}
}

// What Perfetto's own parser reads; see TestTraceProcessor.
func TestTraceProcessorCounts(t *testing.T) {
	tp := os.Getenv("PROFINFER_TRACE_PROCESSOR")
	if tp == "" {
		t.Skip("PROFINFER_TRACE_PROCESSOR is not set")
	}
	gz, ops := exportCounted(t)
	file := filepath.Join(t.TempDir(), "run.pftrace.gz")
	if err := os.WriteFile(file, gz, 0o644); err != nil {
		t.Fatal(err)
	}
	var cycles int64
	for _, o := range ops {
		cycles += max(0, o.Counts[0])
	}
	for sql, want := range map[string]string{
		"select sum(int_value) from args where key = 'debug.count_cycles'":  fmt.Sprint(cycles),
		"select sum(int_value) from args where key = 'debug.thread_cycles'": fmt.Sprint(cycles),
		"select count(distinct utid), cast(round(min(value) * 10) as int), cast(round(max(value) * 10) as int) from counter c join thread_counter_track t on c.track_id = t.id where name = 'IPC' and value > 0": "3,5,15",
		"select count(*) from counter_track where name in ('stall_backend', 'task-clock')":                                                                                                                       "0",
		"select count(*) from stats where severity in ('error','data_loss') and value > 0":                                                                                                                       "0",
		"select cast(sum(value) as int) from counter c join thread_counter_track t on c.track_id = t.id join thread using(utid) where t.name = 'major-faults' and thread.name = 'llama-bench (main)'":            "4",
	} {
		out, err := exec.Command(tp, "-Q", sql, file).Output()
		if err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		if got != want {
			t.Errorf("%s\ngives %s, want %s", sql, got, want)
		}
	}
}
