// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/dag"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/profile/timeline"
	"github.com/profinfer/profinfer/trace"
)

// blocks reads blocks of columns, as the page does.
type blocks struct {
	t *testing.T
	b []byte
}

func (r *blocks) uint() int {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.t.Fatal("a number is cut")
	}
	r.b = r.b[n:]
	return int(v)
}

func (r *blocks) block(columns int) [][]int64 {
	r.t.Helper()
	rows := r.uint()
	if n := r.uint(); n != columns {
		r.t.Fatalf("%d columns, want %d", n, columns)
	}
	var out [][]int64
	for range columns {
		n := r.uint()
		col := r.b[:n]
		r.b = r.b[n:]
		var v []int64
		for len(col) > 0 {
			x, n := binary.Varint(col)
			col = col[n:]
			v = append(v, x)
		}
		if len(v) != rows {
			r.t.Fatalf("%d numbers in a column of %d rows", len(v), rows)
		}
		out = append(out, v)
	}
	return out
}

// opSeen is an operator as a chunk tells it.
type opSeen struct {
	ID, Graph, Start, Dur, Probe int64
	Followed, Incomplete         bool
	Name, Op                     string
	Node                         int32
	Threads                      []profile.OpThread
}

// opsOf decodes a timeline's operators.
func opsOf(t *testing.T, tl *timeline.Timeline) []opSeen {
	var out []opSeen
	for _, c := range tl.Chunks {
		if c.Kind != timeline.ChunkOps {
			continue
		}
		r := &blocks{t, c.Data}
		o := r.block(8)
		s := r.block(7)
		if len(r.b) != 0 {
			t.Fatalf("%d bytes behind a chunk", len(r.b))
		}
		if len(s[0]) != c.Spans {
			t.Fatalf("%d spans, told %d", len(s[0]), c.Spans)
		}
		var id, def, graph, probe int64
		end := c.Base + tl.Start
		cpu := map[int64]int64{}
		k := 0
		for i := range o[0] {
			id, def, graph, probe = id+o[0][i], def+o[1][i], graph+o[2][i], probe+o[5][i]
			d := tl.Ops[def]
			e := opSeen{ID: id, Graph: graph, Start: end + o[3][i], Dur: o[4][i], Probe: probe,
				Followed: o[6][i]&1 > 0, Incomplete: o[6][i]&2 > 0, Name: d.Name, Op: d.Op, Node: d.Node}
			end = e.Start + e.Dur
			if id < c.FirstOp || id > c.LastOp || e.Start-tl.Start < c.Start || end-tl.Start > c.Start+c.Dur {
				t.Fatalf("operator %d lies outside of what its chunk tells: %+v", id, c)
			}
			thread := int64(0)
			for n := range o[7][i] {
				thread += s[0][k]
				cpu[thread] += s[6][k]
				ith := profile.UnknownIth
				if v := s[1][k] + n; v >= 0 {
					ith = uint16(v)
				}
				th := profile.OpThread{TID: tl.Threads[thread].TID, Ith: ith, CPU: uint16(cpu[thread]),
					Start: e.Start + s[2][k], OffCPU: s[3][k], Wait: s[4][k]}
				th.Busy = s[5][k] + end - th.Start - th.OffCPU - th.Wait
				e.Threads = append(e.Threads, th)
				thread++
				k++
			}
			out = append(out, e)
		}
	}
	return out
}

func want(o *profile.Op) opSeen {
	e := opSeen{ID: o.ID, Start: o.Start, Dur: o.Dur, Probe: o.Probe, Followed: o.Followed,
		Incomplete: o.Incomplete, Op: o.Op, Node: -1, Threads: slices.Clone(o.Threads)}
	if o.Graph != nil {
		e.Graph = o.Graph.ID
	}
	if o.Shape != nil {
		e.Name, e.Node = o.NodeDef().Name, o.Node
	}
	return e
}

// record plays runs into a timeline, statistics and a list of operators.
func record(t *testing.T, opts timeline.Options, runs ...profiletest.Run) (*timeline.Timeline, *summary.Stat,
	[]opSeen) {
	t.Helper()
	tl, st, list := timeline.New(opts), stat.New(stat.Options{}), &opList{}
	p := profiletest.Player{Sink: profile.Tee(tl, st, list)}
	for _, r := range runs {
		if err := p.Play(r); err != nil {
			t.Fatal(err)
		}
	}
	h := p.Header("op")
	v, err := tl.Finish(h)
	if err != nil {
		t.Fatal(err)
	}
	return v, st.Finish(h), list.ops
}

type opList struct {
	profile.BaseSink
	ops []opSeen
}

func (l *opList) Op(o *profile.Op) error { l.ops = append(l.ops, want(o)); return nil }

func compare(t *testing.T, got, want []opSeen) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d operators, want %d", len(got), len(want))
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("operator %d:\n%+v, want\n%+v", i, got[i], want[i])
		}
	}
}

var mixed = []profiletest.Run{
	{Model: profiletest.Small, PID: 100, Ctx: 1, Threads: 3, Prefill: 5, Decode: 40, Preempt: 7, Sched: true,
		Start: 5_000_000_000_000},
	{Model: profiletest.Small, PID: 300, Ctx: 2, Threads: 2, Decode: 3, Pos: 9, Sched: true, Gap: 1500},
}

// TestTimelineIsWhole: what went in comes out, however small the chunks.
func TestTimelineIsWhole(t *testing.T) {
	for _, size := range []int{0, 7, 100} {
		tl, st, ops := record(t, timeline.Options{ChunkSpans: size}, mixed...)
		compare(t, opsOf(t, tl), ops)
		if tl.Operator != int64(len(ops)) || tl.Operator != st.Run.Operators {
			t.Errorf("%d operators, want %d", tl.Operator, len(ops))
		}
		if size == 100 && len(tl.Chunks) < 20 {
			t.Errorf("%d chunks", len(tl.Chunks))
		}
		for _, c := range tl.Chunks {
			if size > 7 && c.Kind == timeline.ChunkOps && c.Spans > size {
				t.Errorf("a chunk of %d spans", c.Spans)
			}
		}
		calls := int64(0)
		for _, d := range tl.Ops {
			calls += d.Calls
			i := slices.IndexFunc(ops, func(o opSeen) bool {
				return o.Name == d.Name && o.Op == d.Op && o.Node == d.Node && o.ID >= d.FirstID
			})
			if i < 0 || ops[i].ID != d.FirstID || ops[i].Start-tl.Start != d.First {
				t.Errorf("first of %s: %d at %d", d.Name, d.FirstID, d.First)
			}
		}
		if calls != tl.Operator {
			t.Errorf("%d calls, %d operators", calls, tl.Operator)
		}
	}
}

// TestTimelineChunksEndWithSteps: a chunk is cut at a step's end where one comes in time.
func TestTimelineChunksEndWithSteps(t *testing.T) {
	tl, _, _ := record(t, timeline.Options{ChunkSpans: 400},
		profiletest.Run{Model: profiletest.Small, PID: 100, Ctx: 1, Threads: 2, Decode: 30, Start: 1000})
	for _, c := range tl.Chunks[:len(tl.Chunks)-1] {
		end := c.Start + c.Dur
		if !slices.ContainsFunc(tl.Marks, func(m timeline.Mark) bool {
			return m.Start+m.Dur >= end && m.Start+m.Dur < end+30_000
		}) {
			t.Errorf("a chunk ends at %d, within a step", end)
		}
	}
}

// TestTimelineSums: threads have what the statistics give them, and so has the overview.
func TestTimelineSums(t *testing.T) {
	tl, st, operators := record(t, timeline.Options{}, mixed...)
	for _, s := range st.Threads {
		i := slices.IndexFunc(tl.Threads, func(v timeline.Thread) bool {
			return v.TID == s.TID && v.PID == s.PID
		})
		if i < 0 {
			t.Errorf("no thread %d", s.TID)
			continue
		}
		if v := tl.Threads[i]; v.Ops != s.Ops || v.Busy != s.Busy || v.Wait != s.Wait ||
			v.OffCPU != s.OffCPU || v.Comm != s.Comm || v.Role != s.Role {
			t.Errorf("thread %d: %+v, want %+v", s.TID, v, s)
		}
	}
	kind := map[int64]int{}
	for _, o := range operators {
		for i := range tl.Ops {
			if tl.Ops[i].Name == o.Name && tl.Ops[i].Op == o.Op {
				kind[o.ID] = tl.Ops[i].Kind
			}
		}
	}
	r := &blocks{t, tl.Bins}
	n := len(ops.Kinds)
	threads := 0
	for _, tr := range tl.Overview.Tracks {
		if tr.Track != "thread" {
			r.block(3)
			continue
		}
		threads++
		cols := r.block(n + 2)
		wantCols := make([]int64, n+2)
		for _, o := range operators {
			for _, th := range o.Threads {
				if th.TID == tl.Threads[tr.Index].TID {
					wantCols[kind[o.ID]] += th.Busy
					wantCols[n] += th.Wait
					wantCols[n+1] += th.OffCPU
				}
			}
		}
		for c := range cols {
			sum := int64(0)
			for _, v := range cols[c] {
				sum += v
			}
			if sum != wantCols[c] {
				t.Errorf("thread %d channel %d: %d ns in bins, %d in spans", tr.Index, c, sum, wantCols[c])
			}
		}
		for i := range cols[0] { // no bin holds more than its width
			sum := int64(0)
			for c := range cols {
				sum += cols[c][i]
			}
			if sum > tl.Overview.Bin {
				t.Errorf("bin %d holds %d ns of %d", i, sum, tl.Overview.Bin)
			}
		}
	}
	if threads != len(tl.Threads) {
		t.Errorf("%d tracks of %d threads", threads, len(tl.Threads))
	}
}

// TestTimelineSteps: steps and graphs as they were.
func TestTimelineSteps(t *testing.T) {
	tl, _, _ := record(t, timeline.Options{}, mixed...)
	c := (&blocks{t, tl.Steps}).block(17)
	if len(c[0]) != len(tl.Marks) || len(c[0]) != 44 {
		t.Fatalf("%d steps, %d marks", len(c[0]), len(tl.Marks))
	}
	var id, end int64
	for i := range c[0] {
		id += c[0][i]
		start := end + c[1][i]
		end = start + c[2][i]
		if id != int64(i+1) || start != tl.Marks[i].Start || c[2][i] != tl.Marks[i].Dur {
			t.Fatalf("step %d at %d: %+v", id, start, tl.Marks[i])
		}
	}
	if c[3][0] != 1 || c[3][1] != 2 || c[5][0] != 5 || c[8][1] != 5 || tl.Strings[c[9][43]] != "0x2" {
		t.Errorf("phase %d, %d, tokens %d, position %d", c[3][0], c[3][1], c[5][0], c[8][1])
	}
	g := (&blocks{t, tl.Graphs}).block(13)
	if len(g[0]) != 44 || g[1][43] != 44 || tl.Strings[g[6][0]] != "CPU" || g[2][0] != 10_000 {
		t.Errorf("graphs %v", g)
	}
}

// TestTimelineHostile: nonsense neither panics nor is lost.
func TestTimelineHostile(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	any64 := func() int64 {
		switch rnd.Intn(6) {
		case 0:
			return math.MaxInt64 - rnd.Int63n(10)
		case 1:
			return math.MinInt64 + rnd.Int63n(10)
		case 2:
			return -rnd.Int63n(1000)
		case 3:
			return rnd.Int63()
		}
		return rnd.Int63n(1_000_000)
	}
	b := timeline.New(timeline.Options{ChunkSpans: 50})
	list := &opList{}
	sink := profile.Tee(b, list)
	for i := range 3000 {
		o := &profile.Op{ID: any64(), Op: fmt.Sprint(rnd.Intn(5)), Start: any64(), Dur: any64(),
			Probe: any64(), Incomplete: rnd.Intn(2) == 0}
		for t := range rnd.Intn(4) {
			o.Threads = append(o.Threads, profile.OpThread{TID: int32(t), Ith: uint16(rnd.Intn(70000)),
				CPU: uint16(rnd.Intn(70000)), Start: any64(), Busy: any64(), OffCPU: any64(), Wait: any64()})
		}
		g := &profile.Graph{ID: any64(), Step: any64(), Start: any64(), Dur: any64(),
			NNodes: int32(rnd.Uint32()), Backend: fmt.Sprint(i), TID: 1}
		s := &profile.Step{ID: any64(), Start: any64(), Dur: any64(), NTokens: -1,
			Phase: profile.Phase(fmt.Sprint(rnd.Intn(3))), Incomplete: fmt.Sprint("why ",
				i), Ctx: rnd.Uint64()}
		e := &trace.Sched{Time: any64(), CPU: uint16(rnd.Intn(70000)), Kind: trace.SchedKind(rnd.Intn(4)),
			PrevState: rnd.Uint32(), PrevTID: int32(rnd.Intn(4)), NextTID: int32(rnd.Intn(4)),
			NextComm: fmt.Sprint(i)}
		for _, err := range []error{sink.Op(o), sink.Graph(g), sink.Step(s), sink.Sched(e)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	tl, err := b.Finish(&profile.Header{First: any64(), Last: any64(),
		Losses: []trace.Loss{{Start: any64(), End: any64(), Why: "<b>"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(tl); err != nil {
		t.Error(err)
	}
	(&blocks{t, tl.Steps}).block(17)
	(&blocks{t, tl.Graphs}).block(13)
	schedOf(t, tl)
	n := 0
	for _, c := range tl.Chunks {
		if c.Kind == timeline.ChunkOps {
			r := &blocks{t, c.Data}
			n += len(r.block(8)[0])
			r.block(7)
		}
	}
	if n != 3000 {
		t.Errorf("%d operators", n)
	}
}

// TestTimelineLimits: what is too much is counted.
func TestTimelineLimits(t *testing.T) {
	b := timeline.New(timeline.Options{})
	for i := range 1500 {
		o := &profile.Op{ID: int64(i + 1), Op: "ADD", Start: int64(1000 + i), Dur: 1,
			Threads: []profile.OpThread{{TID: int32(i + 1), Start: int64(1000 + i), Busy: 1}}}
		if err := b.Op(o); err != nil {
			t.Fatal(err)
		}
	}
	tl, err := b.Finish(&profile.Header{First: 1000, Last: 3000})
	if err != nil {
		t.Fatal(err)
	}
	if len(tl.Threads) != 1024 || tl.SpansLeftOut != 1500-1024 || tl.Spans != 1024 || tl.Operator != 1500 {
		t.Errorf("%d threads, %d spans, %d left out, %d operators", len(tl.Threads), tl.Spans,
			tl.SpansLeftOut, tl.Operator)
	}
}

// TestTimelineEmpty: nothing ran.
func TestTimelineEmpty(t *testing.T) {
	tl, err := timeline.New(timeline.Options{}).Finish(&profile.Header{})
	if err != nil || len(tl.Chunks) != 0 || tl.HasSched || tl.Dur != 0 {
		t.Fatalf("%+v %v", tl, err)
	}
	(&blocks{t, tl.Steps}).block(17)
}

// TestKinds: the timeline and the operator graph colour operators by these, fused ones by their first part.
func TestKinds(t *testing.T) {
	want := map[string][]string{
		"matmul":      {"MUL_MAT", "CONV_2D", "OUT_PROD"},
		"attention":   {"ROPE", "SOFT_MAX", "FLASH_ATTN_EXT", "DIAG_MASK_INF"},
		"moe":         {"ADD_ID", "MUL_MAT_ID", "ARGSORT", "TOP_K"},
		"norm":        {"RMS_NORM", "RMS_NORM+MUL", "NORM", "L2_NORM", "GROUP_NORM"},
		"elementwise": {"ADD", "MUL", "SWIGLU", "SILU", "GELU", "SCALE", "SUM_ROWS", "SQR", "UNARY", "GLU"},
		"copy":        {"GET_ROWS", "SET_ROWS", "SET", "CPY", "CONT", "IM2COL", "CONCAT"},
		"other":       {"SETX", "SSM_SCAN", "POOL_2D", "", "RWKV_WKV6"},
	}
	b := timeline.New(timeline.Options{})
	var kinds []string
	for _, kind := range ops.Kinds {
		for _, op := range want[kind] {
			kinds = append(kinds, kind)
			if err := b.Op(&profile.Op{ID: int64(len(kinds)), Op: op, Start: 1, Dur: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	tl, err := b.Finish(&profile.Header{})
	if err != nil || len(tl.Ops) != len(kinds) {
		t.Fatalf("%d of %d operators: %v", len(tl.Ops), len(kinds), err)
	}
	for i, want := range kinds {
		if got := ops.Kinds[tl.Ops[i].Kind]; got != want {
			t.Errorf("%q is %s, want %s", tl.Ops[i].Op, got, want)
		}
	}
}

// TestKindsOfGraph: an operator is of one kind in the timeline and in the operator graph.
func TestKindsOfGraph(t *testing.T) {
	trial, _ := profiletest.TrialNamed("plain")
	var file bytes.Buffer
	if err := trial.Write(&file); err != nil {
		t.Fatal(err)
	}
	r, err := trace.NewReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	dags, lines := dag.New(dag.Options{}), timeline.New(timeline.Options{})
	h, err := profile.Replay(r, profile.Tee(dags, lines))
	if err != nil {
		t.Fatal(err)
	}
	tl, err := lines.Finish(h)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, o := range tl.Ops {
		kinds[o.Name+" "+o.Op] = o.Kind
	}
	seen := map[int]bool{}
	for _, d := range dags.Finish(h).DAGs {
		for _, n := range d.Nodes {
			kind, ok := kinds[n.Name+" "+n.Op]
			if !ok || n.Run == nil {
				continue
			}
			seen[kind] = true
			if n.OpKind != kind {
				t.Errorf("%s, %s: %s in the graph, %s in the timeline", n.Name, n.Op, ops.Kinds[n.OpKind],
					ops.Kinds[kind])
			}
		}
	}
	if len(seen) < 4 {
		t.Errorf("operators of %d kinds were compared", len(seen))
	}
}
