// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/profinfer/profinfer/internal/clean"
	"github.com/profinfer/profinfer/trace"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	pid     = 100
	worker  = 101
	hostile = "n\x1b[31m,\"q\" back\\slash\n=1+1\u202e\u009b\xff"
)

func addr(i int) uint64 { return 0x7f0000001000 + uint64(i)*336 }

// run writes a trace of two steps: a prefill whose operators are all seen, and a decode in
// which a thread's arrival was lost.
func run(t testing.TB, meta func(*trace.Meta)) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := trace.NewWriter(&buf)
	m := trace.Meta{SchemaVersion: 1, Tool: "test", Start: 1000, CPU: "a CPU", Cores: 2, Kernel: "6.12.0",
		Level:     "op",
		ProbeCost: map[string]int64{"nop5": 90, "emulated": 120, "stepped": 2600}}
	if meta != nil {
		meta(&m)
	}
	node := func(i int, name, op string, src ...int32) trace.Node {
		return trace.Node{Name: name, Op: op, Type: "f32", Ne: [4]int64{4, 2, 1, 1},
			Nb: [4]uint64{4, 16, 32, 32}, Src: src, ViewSrc: -1,
			Addr: addr(i), Data: 0x7f00_0000_0000 + uint64(i)*64, Executes: op != "VIEW" &&
				op != "NONE", Leaf: op == "NONE", BlockSize: 1, TypeSize: 4}
	}
	shape := &trace.Shape{PID: pid, ID: 0xfedcba9876543210, NNodes: 5, Nodes: []trace.Node{
		node(0, "norm-0", "RMS_NORM", 6), node(1, "attn_norm-0", "MUL", 0, 0), node(2, hostile, "VIEW", 1,
			-1),
		node(3, "Qcur-0", "MUL_MAT", 5, 1), node(4, "", "ADD", 3, 2),
		node(5, "blk.0.attn_q.weight", "NONE"), node(6, "inp", "NONE")}}
	shape.Nodes[5].Type, shape.Nodes[5].Ne = "q4_0", [4]int64{4, 4, 1, 1}
	shape.Nodes[6].Data = 0
	errs := []error{w.Meta(m), w.Process(trace.Process{PID: pid, Comm: "llama",
		Cmdline: []string{"llama-cli", "-p", "it's a\nprompt",
			""}, Engine: "llama.cpp", EngineVersion: "0.7.0",
		Sites: []trace.Site{{Role: trace.RoleStepBegin, Class: "stepped", Entry: "llama_decode"},
			{Role: trace.RoleStepEnd, Class: "stepped", Entry: "llama_decode"},
			{Role: trace.RoleGraphBegin, Class: "emulated", Backend: "CPU"}, {Role: trace.RoleGraphEnd,
				Class: "emulated", Backend: "CPU"},
			{Role: trace.RoleOpBegin, Class: "nop5"}, {Role: trace.RoleOpEnd, Class: "emulated"},
			{Role: trace.RoleGraphBegin, Class: "emulated", Backend: "Vulkan"}, {Role: trace.RoleGraphEnd,
				Class: "emulated", Backend: "Vulkan"},
			{Role: trace.RoleCopyBegin, Class: "emulated",
				Entry: "ggml_backend_tensor_set"},
			{Role: trace.RoleCopyEnd, Class: "emulated", Entry: "ggml_backend_tensor_set"},
			{Role: trace.RoleSyncBegin, Class: "emulated"}, {Role: trace.RoleSyncEnd, Class: "emulated"},
			{Role: trace.RoleSubmitBegin, Entry: "vkQueueSubmit"}, {Role: trace.RoleSubmitEnd,
				Entry: "vkQueueSubmit"},
			{Role: trace.RoleWaitBegin, Entry: "vkWaitForFences",
				Covers: trace.CoversToken}, {Role: trace.RoleWaitEnd, Entry: "vkWaitForFences",
				Covers: trace.CoversToken}}}),
		w.Threads([]trace.Thread{{PID: pid, TID: pid, Comm: "llama"},
			{PID: pid, TID: worker, Comm: "llama"}}), w.Shape(shape)}
	for step := range int64(2) {
		at := 10_000 + step*10_000
		ms := []trace.Mark{{Time: at, PID: pid, TID: pid, Kind: trace.MarkStepBegin, Ctx: 0x5555_0000_0000,
			NTokens: int32(2 - step), Type: -1},
			{Time: at + 10, PID: pid, TID: pid, Kind: trace.MarkGraphBegin, Site: 2, Graph: 0x6000,
				Shape: shape.ID, NNodes: 5, Threads: 2},
			{Time: at + 900, PID: pid, TID: pid, Kind: trace.MarkGraphEnd, Site: 3},
			{Time: at + 950, PID: pid, TID: pid, Kind: trace.MarkStepEnd, Site: 1}}
		if step == 0 { // a part of it on another backend
			ms = append(ms[:3:3], []trace.Mark{
				{Time: at + 905, PID: pid, TID: pid, Kind: trace.MarkCopyBegin, Site: 8, Graph: addr(5),
					UID: 9},
				{Time: at + 909, PID: pid, TID: pid, Kind: trace.MarkCopyEnd, Site: 9},
				{Time: at + 910, PID: pid, TID: pid, Kind: trace.MarkGraphBegin, Site: 6, Ctx: 0x77,
					Shape: shape.ID, NNodes: 5},
				{Time: at + 912, PID: pid, TID: pid, Kind: trace.MarkSubmitBegin, Site: 12, Ctx: 0x88,
					Graph: 0x99, UID: 0xaa, NNodes: 1},
				{Time: at + 915, PID: pid, TID: pid, Kind: trace.MarkSubmitEnd, Site: 13},
				{Time: at + 920, PID: pid, TID: pid, Kind: trace.MarkGraphEnd, Site: 7}, ms[3],
				{Time: at + 960, PID: pid, TID: pid, Kind: trace.MarkSyncBegin, Site: 10, Ctx: 0x77},
				{Time: at + 965, PID: pid, TID: pid, Kind: trace.MarkWaitBegin, Site: 14, Graph: 0x99,
					UID: 0xaa, NNodes: 1},
				{Time: at + 980, PID: pid, TID: pid, Kind: trace.MarkWaitEnd, Site: 15},
				{Time: at + 985, PID: pid, TID: pid, Kind: trace.MarkSubmitBegin, Site: 12, Ctx: 0x88,
					UID: 0xaa, NNodes: -1},
				{Time: at + 990, PID: pid, TID: pid, Kind: trace.MarkSyncEnd, Site: 11}}...)
		}
		var hs []trace.Hit
		op := func(t int64, kind trace.HitKind, node, second int, ends ...int64) {
			for th, end := range ends {
				h := trace.Hit{Time: t + int64(th), Arg: addr(node), PID: pid, TID: pid + int32(th),
					CPU: uint16(th), Ith: uint16(th), Nth: 2, Kind: kind}
				hs = append(hs, h)
				if kind == trace.HitOpFused {
					h.Arg, h.Kind = addr(second), trace.HitFusedWith
					hs = append(hs, h)
				}
				if end != 0 {
					hs = append(hs, trace.Hit{Time: end, Arg: 0x9000, PID: pid, TID: h.TID, CPU: h.CPU,
						Kind: trace.HitOpEnd})
				}
			}
		}
		op(at+20, trace.HitOpFused, 0, 1, at+100, at+120)
		op(at+130, trace.HitOpBegin, 3, 0, at+500, at+560)
		op(at+570, trace.HitOpBegin, 4, 0, at+600, (at+610)*(1-step))
		errs = append(errs, w.Marks(ms),
			w.StepSeqs([]trace.StepSeq{{Time: at, TID: pid, NTokens: int32(2 - step),
				Outputs: 1}}), w.Hits(hs),
			w.Sched([]trace.Sched{
				{Time: at + 200, CPU: 1, Kind: trace.SchedSwitch, PrevState: 0, PrevTID: worker, PrevPID: pid,
					PrevComm: "llama", NextTID: 9, NextPID: 9, NextComm: "apt-get,\x07"},
				{Time: at + 230, CPU: 1, Kind: trace.SchedSwitch, PrevState: 0x402, PrevTID: 9, PrevPID: 9,
					PrevComm: "apt-get", NextTID: worker, NextPID: pid, NextComm: "llama"},
				{Time: at + 240, CPU: 1, Kind: trace.SchedWakeup, PrevTID: 9, PrevPID: 9, NextTID: worker,
					NextPID: pid, NextComm: "llama"}}),
			w.Faults([]trace.Fault{{Time: at + 300, Dur: 100, PID: pid, TID: worker, CPU: 1,
				Kind: trace.FaultMajor, Addr: 0x7f00_0000_0000 +
					5*64, Read: 4096, Major: uint64(step + 1), Minor: 7},
				{Time: at + 960, Dur: -1, PID: pid, TID: pid, Kind: trace.FaultMinor, Addr: ^uint64(0),
					Read: -1, Major: uint64(step + 1), Minor: 7}}),
			w.Drain(at+1000))
	}
	errs = append(errs, w.Memory(memoryOf("start", 0)), w.Memory(memoryOf("end", 1)),
		w.Loss(trace.Loss{Start: 20_590, End: 20_620, Why: "lost", Events: 3, What: "hits", CPU: 1}),
		w.Loss(trace.Loss{Start: 1000, End: 5000, Why: "throttled", CPU: -1}),
		w.Close(trace.End{Time: 30_000, Reason: "the command ended"}))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// memory is a file of two pages in which a weight lies.
func memoryOf(when string, resident byte) trace.Memory {
	return trace.Memory{PID: pid, Time: 5000, When: when, Major: 3, Minor: 4, Read: -1,
		Maps: []trace.MemoryMap{{Start: 0x7f00_0000_0000, End: 0x7f00_0000_2000, Perms: "r--s",
			Path: hostile, Dev: 1, Inode: 2}},
		Files: []trace.FilePages{{Path: hostile, Dev: 1, Inode: 2, Size: 8192, Page: 4096,
			Resident: []byte{resident}}}}
}

func export(t testing.TB, b []byte, name, format string) []byte {
	t.Helper()
	r, err := trace.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out bytes.Buffer
	if _, err := Export(r, name, format, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestGolden has the tables as text; look at a difference before taking it on with -update.
func TestGolden(t *testing.T) {
	b := run(t, nil)
	for _, format := range []string{"ndjson", "csv"} {
		var all bytes.Buffer
		for _, name := range Names() {
			all.WriteString("# " + name + "\n")
			all.Write(export(t, b, name, format))
		}
		path := filepath.Join("testdata", "tables."+format)
		if *update {
			if err := os.WriteFile(path, all.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, all.Bytes()) {
			t.Errorf("%s: got\n%s", path, all.Bytes())
		}
		for _, r := range all.String() {
			if r != '\n' && clean.Hidden(r) {
				t.Errorf("%s has %U", format, r)
			}
		}
	}
}

// rows reads newline-delimited JSON, numbers as they are written.
func rows(t testing.TB, b []byte) (out []map[string]any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	for {
		var m map[string]any
		if err := d.Decode(&m); err == io.EOF {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
}

// The three formats say the same.
func TestFormatsAgree(t *testing.T) {
	b := run(t, nil)
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			b := b
			if name == "rounds" {
				b = speculative(t)
			}
			if name == "experts" {
				b = chosen(t)
			}
			if name == "remote_graphs" {
				b = handedOver(t)
			}
			want := rows(t, export(t, b, name, "ndjson"))
			if len(want) == 0 {
				t.Fatal("no rows")
			}
			cols, err := Columns(name)
			if err != nil {
				t.Fatal(err)
			}
			// CSV
			recs, err := csv.NewReader(bytes.NewReader(export(t, b, name, "csv"))).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			if len(recs) != len(want)+1 {
				t.Fatalf("CSV has %d rows of %d", len(recs)-1, len(want))
			}
			for i, c := range cols {
				if recs[0][i] != c.Name {
					t.Errorf("CSV names column %d %s, not %s", i, recs[0][i], c.Name)
				}
			}
			for i, rec := range recs[1:] {
				if len(want[i]) != len(cols) {
					t.Fatalf("row %d has %d columns of %d", i, len(want[i]), len(cols))
				}
				for j, c := range cols {
					if got, want := rec[j], csvText(want[i][c.Name]); got != want {
						t.Errorf("row %d, %s: CSV %q, JSON %q", i, c.Name, got, want)
					}
					if !c.Null && want[i][c.Name] == nil {
						t.Errorf("row %d: %s is null", i, c.Name)
					}
				}
			}
			// Parquet
			tab, _ := find(name)
			pq := export(t, b, name, "parquet")
			f, err := parquet.OpenFile(bytes.NewReader(pq), int64(len(pq)))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, fd := range f.Schema().Fields() {
				names = append(names, fd.Name())
			}
			for i, c := range cols {
				if names[i] != c.Name {
					t.Errorf("Parquet names column %d %s, not %s", i, names[i], c.Name)
				}
			}
			if v, _ := f.Lookup("profinfer.table"); v != name {
				t.Errorf("it says it is table %q", v)
			}
			rd := parquet.NewReader(f, f.Schema())
			defer rd.Close()
			for i := range want {
				row := reflect.New(tab.row)
				if err := rd.Read(row.Interface()); err != nil {
					t.Fatal(err)
				}
				var line bytes.Buffer
				x, _ := newText(&line, tab, nil, false)
				if err := errors.Join(x.Write(row.Interface()), x.Close()); err != nil {
					t.Fatal(err)
				}
				if got := rows(t, line.Bytes())[0]; !reflect.DeepEqual(got, want[i]) {
					t.Errorf("row %d: Parquet %v, JSON %v", i, got, want[i])
				}
			}
			if err := rd.Read(reflect.New(tab.row).Interface()); err != io.EOF {
				t.Errorf("more rows: %v", err)
			}
		})
	}
}

// csvText is what a parsed JSON value is in CSV: strings keep their escape sequences there.
func csvText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		s := string(appendJSON(nil, v))
		return strings.ReplaceAll(s[1:len(s)-1], `\"`, `"`)
	}
	b, _ := json.Marshal(v)
	return string(b)
}

func TestValues(t *testing.T) {
	b := run(t, nil)
	steps := rows(t, export(t, b, "steps", "ndjson"))
	if len(steps) != 2 || steps[0]["phase"] != "prefill" || steps[1]["phase"] != "decode" ||
		steps[0]["n_seqs"] != json.Number("1") || steps[0]["dur_ns"] != json.Number("950") {
		t.Errorf("steps: %v", steps)
	}
	ops := rows(t, export(t, b, "ops", "ndjson"))
	if len(ops) != 6 {
		t.Fatalf("%d ops", len(ops))
	}
	if o := ops[0]; o["op"] != "RMS_NORM+MUL" || o["node"] != json.Number("0") ||
		o["dur_ns"] != json.Number("100") || o["threads"] != json.Number("2") {
		t.Errorf("fused: %v", o)
	}
	if o := ops[1]; o["weight"] != "blk.0.attn_q.weight" || o["weight_type"] != "q4_0" ||
		o["layer"] != json.Number("0") || o["block"] != "attention" ||
		o["backend"] != "CPU" || o["off_cpu_ns"] != json.Number("30") || o["busy_ns"] != json.Number("769") {
		t.Errorf("product: %v", o)
	}
	if o := ops[5]; o["busy_ns"] != nil || o["wait_ns"] != nil || o["off_cpu_ns"] != nil ||
		o["imbalance"] != nil || o["name"] != "" {
		t.Errorf("not all seen: %v", o)
	}
	ths := rows(t, export(t, b, "op_threads", "ndjson"))
	if len(ths) != 12 || ths[11]["busy_ns"] != nil || ths[10]["busy_ns"] == nil || ths[10]["wait_ns"] != nil {
		t.Errorf("threads of it: %v", ths[10:])
	}
	nodes := rows(t, export(t, b, "nodes", "ndjson"))
	if len(nodes) != 7 || nodes[1]["fused_into"] != json.Number("0") || nodes[0]["fused_into"] != nil ||
		nodes[2]["executed"] != false ||
		nodes[3]["executed"] != true || nodes[5]["kind"] != "leaf" || nodes[6]["data"] != nil ||
		nodes[2]["name"] != strings.ToValidUTF8(hostile, "\uFFFD") {
		t.Errorf("nodes: %v", nodes)
	}
	edges := rows(t, export(t, b, "edges", "ndjson"))
	if len(edges) != 7 { // twice the same and one outside are not told
		t.Errorf("edges: %v", edges)
	}
	if s := rows(t, export(t, b, "sched", "ndjson")); len(s) != 6 || s[0]["prev_state"] != "R" ||
		s[1]["prev_state"] != "I" || s[2]["prev_state"] != nil || s[2]["event"] != "wakeup" {
		t.Errorf("sched: %v", s)
	}
	r := rows(t, export(t, b, "runs", "ndjson"))
	if len(r) != 1 || r[0]["lost_events"] != json.Number("3") ||
		r[0]["throttled_ns"] != json.Number("4000") || r[0]["probe_cost_ns"] != json.Number("120") ||
		r[0]["command"] != `llama-cli -p 'it'\''s a`+"\n"+`prompt' ''` || r[0]["ggml_version"] != nil {
		t.Errorf("runs: %v", r)
	}
	// Without scheduling events the time off the CPU is unknown.
	b = run(t, func(m *trace.Meta) { m.Extra = map[string]string{"sched": "off"} })
	for _, name := range []string{"ops", "op_threads"} {
		for _, o := range rows(t, export(t, b, name, "ndjson")) {
			if o["off_cpu_ns"] != nil {
				t.Errorf("%s: %v", name, o)
			}
		}
	}
}

func TestStates(t *testing.T) {
	for s, want := range map[uint32]string{0: "R", 1: "S", 2: "D", 4: "T", 8: "t", 0x10: "X", 0x20: "Z",
		0x40: "P", 0x80: "X",
		0x102: "D", 0x402: "I", 0x1000: "D", 0x2001: "S", 0xffffff00: "D", 0x800: "R"} {
		if got := stateLetter(s); got != want {
			t.Errorf("%#x: %s, not %s", s, got, want)
		}
	}
}

func TestWrongNames(t *testing.T) {
	for _, c := range [][3]string{{"op", "csv", "op_threads"}, {"ops", "xml", "parquet"}} {
		if _, err := NewWriter(io.Discard, c[0], c[1]); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%v: %v", c, err)
		}
	}
	for _, format := range Formats() {
		w, err := NewWriter(io.Discard, "steps", format)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range []any{StepRow{}, &OpRow{}, (*StepRow)(nil), nil} {
			if err := w.Write(row); err == nil {
				t.Errorf("%s took a %T", format, row)
			}
		}
	}
}

type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errors.New("the reader went away")
	}
	return len(b), nil
}

func TestWriteErrors(t *testing.T) {
	for _, format := range Formats() {
		w, err := NewWriter(&failing{1 << 16}, "ops", format)
		if err != nil {
			t.Fatal(err)
		}
		name := "blk.1.ffn_down"
		for i := range int64(200_000) {
			if err = w.Write(&OpRow{OpID: i, Op: "MUL_MAT", Name: &name, StartNs: i * i * 7919}); err != nil {
				break
			}
		}
		if err == nil {
			t.Errorf("%s: no error", format)
		}
		if w.Close() == nil {
			t.Errorf("%s: no error from Close", format)
		}
	}
}

func BenchmarkOps(b *testing.B) {
	for _, format := range Formats() {
		b.Run(format, func(b *testing.B) {
			w, err := NewWriter(io.Discard, "ops", format)
			if err != nil {
				b.Fatal(err)
			}
			name, v := "blk.1.ffn_down", int64(12345)
			row := OpRow{Op: "MUL_MAT", Name: &name, Weight: &name, Backend: &name, Ne0: &v, Ne1: &v, Ne2: &v,
				Ne3: &v, BusyNs: &v, WaitNs: &v, Bytes: &v, Flops: &v}
			for b.Loop() {
				row.OpID++
				row.StartNs += 7919
				if err := w.Write(&row); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
