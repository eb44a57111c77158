// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
)

const (
	offStepBegin = iota
	offStepEnd
	offCPUBegin
	offCPUEnd
	offGPUBegin
	offGPUEnd
	offCopy // without an end
	offSet
	offGet
	offGetEnd
	offAsync
	offAsyncEnd
	offSync
	offSyncEnd
	offSubmit // queues: see queues_test.go
	offSubmitEnd
	offFence
	offFenceEnd
	offIdle
	offIdleEnd
	offReset
	offRead
	offReadEnd
	offDevice
	offDeviceEnd
)

// offloaded is a recording of steps that are split over the CPU and a device: product 0x100 of the CPU is
// copied to 0x201, which product 0x200 of the device reads. change alters the marks of a step that begins at
// 0.
func offloaded(t *testing.T, steps int, change func([]trace.Mark) []trace.Mark) *trace.Reader {
	t.Helper()
	var buf bytes.Buffer
	w := trace.NewWriter(&buf)
	node := func(addr uint64, name, op string, leaf bool, src ...int32) trace.Node {
		return trace.Node{Name: name, Op: op, Type: "f32", Ne: [4]int64{8, 4, 1, 1},
			Nb: [4]uint64{4, 32, 128, 128}, Src: src, ViewSrc: -1,
			Addr: addr, Executes: !leaf, Leaf: leaf, BlockSize: 1, TypeSize: 4}
	}
	errs := []error{w.Meta(trace.Meta{SchemaVersion: 1, Tool: "test", Start: 1, Cores: 2, Level: "graph"}),
		w.Process(trace.Process{PID: 7, Comm: "llama", Engine: "llama.cpp", Sites: []trace.Site{
			{Role: trace.RoleStepBegin, Entry: "llama_decode"}, {Role: trace.RoleStepEnd,
				Entry: "llama_decode"},
			{Role: trace.RoleGraphBegin, Backend: "CPU"}, {Role: trace.RoleGraphEnd, Backend: "CPU"},
			{Role: trace.RoleGraphBegin, Backend: "GPU"}, {Role: trace.RoleGraphEnd, Backend: "GPU"},
			{Role: trace.RoleCopyBegin, Entry: "ggml_backend_tensor_copy"}, {Role: trace.RoleCopyBegin,
				Entry: "ggml_backend_tensor_set"},
			{Role: trace.RoleCopyBegin, Entry: "ggml_backend_tensor_get_async"}, {Role: trace.RoleCopyEnd,
				Entry: "ggml_backend_tensor_get_async"},
			{Role: trace.RoleCopyBegin, Entry: "cpy_tensor_async"}, {Role: trace.RoleCopyEnd,
				Entry: "cpy_tensor_async"},
			{Role: trace.RoleSyncBegin, Entry: "synchronize"}, {Role: trace.RoleSyncEnd,
				Entry: "synchronize"},
			{Role: trace.RoleSubmitBegin, Entry: "vkQueueSubmit"}, {Role: trace.RoleSubmitEnd,
				Entry: "vkQueueSubmit"},
			{Role: trace.RoleWaitBegin, Entry: "vkWaitForFences",
				Covers: trace.CoversToken}, {Role: trace.RoleWaitEnd, Entry: "vkWaitForFences",
				Covers: trace.CoversToken},
			{Role: trace.RoleWaitBegin, Entry: "vkQueueWaitIdle",
				Covers: trace.CoversQueue}, {Role: trace.RoleWaitEnd, Entry: "vkQueueWaitIdle",
				Covers: trace.CoversQueue},
			{Role: trace.RoleDone, Entry: "vkResetFences"},
			{Role: trace.RoleWaitBegin, Entry: "clEnqueueReadBuffer",
				Covers: trace.CoversQueue}, {Role: trace.RoleWaitEnd, Entry: "clEnqueueReadBuffer",
				Covers: trace.CoversQueue},
			{Role: trace.RoleWaitBegin, Entry: "cuCtxSynchronize",
				Covers: trace.CoversDevice}, {Role: trace.RoleWaitEnd, Entry: "cuCtxSynchronize",
				Covers: trace.CoversDevice}}}),
		w.Shape(&trace.Shape{PID: 7, ID: 1, NNodes: 1,
			Nodes: []trace.Node{node(0x100, "ffn_out-0", "MUL_MAT", false, 1, 2),
				node(0x101, "blk.0.ffn_down.weight", "NONE", true), node(0x102, "inp_tokens", "NONE",
					true)}}),
		w.Shape(&trace.Shape{PID: 7, ID: 2, NNodes: 1,
			Nodes: []trace.Node{node(0x200, "result_output", "MUL_MAT", false, 1, 2),
				node(0x202, "output.weight", "NONE", true), node(0x201, "GPU0#ffn_out-0#0", "NONE", true)}})}
	for s := range int64(steps) {
		ms := []trace.Mark{{Time: 0, Kind: trace.MarkStepBegin, Site: offStepBegin, Ctx: 5, NTokens: 1},
			{Time: 10, Kind: trace.MarkCopyBegin, Site: offSet, Graph: 0x102, UID: 4},
			{Time: 20, Kind: trace.MarkGraphBegin, Site: offCPUBegin, Ctx: 8, Shape: 1, NNodes: 1},
			{Time: 120, Kind: trace.MarkGraphEnd, Site: offCPUEnd},
			{Time: 130, Kind: trace.MarkCopyBegin, Site: offAsync, Graph: 0x201, Ctx: 0x100,
				UID: trace.NoValue},
			{Time: 140, Kind: trace.MarkCopyEnd, Site: offAsyncEnd},
			{Time: 150, Kind: trace.MarkGraphBegin, Site: offGPUBegin, Ctx: 9, Shape: 2, NNodes: 1},
			{Time: 160, Kind: trace.MarkGraphEnd, Site: offGPUEnd},
			{Time: 170, Kind: trace.MarkCopyBegin, Site: offGet, Graph: 0x200, UID: 128},
			{Time: 175, Kind: trace.MarkCopyEnd, Site: offGetEnd},
			{Time: 180, Kind: trace.MarkStepEnd, Site: offStepEnd},
			{Time: 190, Kind: trace.MarkSyncBegin, Site: offSync, Ctx: 9},
			{Time: 400, Kind: trace.MarkSyncEnd, Site: offSyncEnd}}
		if change != nil {
			ms = change(ms)
		}
		for i := range ms {
			if ms[i].TID == 0 {
				ms[i].TID = 7
			}
			if ms[i].Kind < trace.MarkSubmitBegin {
				ms[i].Type = -1
			}
			ms[i].PID, ms[i].Time = 7, 1000+s*1000+ms[i].Time
		}
		errs = append(errs, w.Marks(ms),
			w.StepSeqs([]trace.StepSeq{{Time: ms[0].Time, TID: 7, NTokens: 1, Pos: int32(s),
				Outputs: 1}}), w.Drain(1999+s*1000))
	}
	if err := errors.Join(append(errs,
		w.Close(trace.End{Time: 1 << 20, Reason: "the command ended"}))...); err != nil {
		t.Fatal(err)
	}
	r, err := trace.NewReader(&buf)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// seen writes down copies and spans of devices.
type seen struct {
	profile.BaseSink
	copies, spans []string
}

func (s *seen) Copy(c *profile.Copy) error {
	step := int64(0)
	if c.Step != nil {
		step = c.Step.ID
	}
	s.copies = append(s.copies, fmt.Sprintf("%d/%d %s %s %d B %q>%q +%d %v", step, c.Split, c.Kind, c.Tensor,
		c.Bytes, c.From, c.To, c.Dur, c.Async))
	return nil
}
func (s *seen) Device(d *profile.DeviceSpan) error {
	s.spans = append(s.spans, fmt.Sprintf("%s %d: %d, waited %d, before %d", d.Graph.Backend, d.Graph.Step,
		d.Dur(), d.Waited, d.Before))
	return nil
}

func TestCopies(t *testing.T) {
	usual := []string{`1/0 set inp_tokens 4 B "host">"CPU" +-1 false`,
		`1/1 copy GPU0#ffn_out-0#0 128 B "CPU">"GPU" +10 true`,
		`1/-1 get result_output 128 B "GPU">"host" +5 true`}
	span := []string{"GPU 1: 250, waited 210, before 0"}
	// replaces what lies in from..to
	at := func(ms []trace.Mark, from, to int64, with ...trace.Mark) []trace.Mark {
		out := slices.DeleteFunc(slices.Clone(ms), func(m trace.Mark) bool {
			return m.Time >= from && m.Time <= to
		})
		out = append(out, with...)
		slices.SortStableFunc(out, func(a, b trace.Mark) int { return int(a.Time - b.Time) })
		return out
	}
	for _, c := range []struct {
		name   string
		change func([]trace.Mark) []trace.Mark
		copies []string
		spans  []string
	}{
		{"as it should be", nil, usual, span},
		{"the backend refuses: another call copies, which sets the tensor",
			func(ms []trace.Mark) []trace.Mark {
				return at(ms, 141, 149, trace.Mark{Time: 141, Kind: trace.MarkCopyBegin, Site: offCopy,
					Graph: 0x201, Ctx: 0x100, UID: trace.NoValue},
					trace.Mark{Time: 142, Kind: trace.MarkCopyBegin, Site: offSet, Graph: 0x201, UID: 100})
			}, []string{usual[0], `1/1 copy GPU0#ffn_out-0#0 100 B "CPU">"GPU" +-1 false`, usual[2]}, span},
		{"a call within a call", func(ms []trace.Mark) []trace.Mark {
			return at(ms, 131, 139, trace.Mark{Time: 132, Kind: trace.MarkCopyBegin, Site: offGet,
				Graph: 0x100, UID: 64},
				trace.Mark{Time: 133, Kind: trace.MarkCopyEnd, Site: offGetEnd})
		}, usual, span},
		{"the end of a copy was lost", func(ms []trace.Mark) []trace.Mark { return at(ms, 140, 140) },
			[]string{usual[0], `1/1 copy GPU0#ffn_out-0#0 128 B "CPU">"GPU" +-1 true`, usual[2]}, span},
		{"tensors that no graph has", func(ms []trace.Mark) []trace.Mark {
			return at(ms, 130, 140, trace.Mark{Time: 131, Kind: trace.MarkCopyBegin, Site: offCopy,
				Graph: 0x999, Ctx: 0x998, UID: trace.NoValue})
		}, []string{usual[0], `1/1 copy  -1 B "">"" +-1 false`, usual[2]}, span},
		{"one copy after another", func(ms []trace.Mark) []trace.Mark {
			return at(ms, 130, 140, trace.Mark{Time: 131, Kind: trace.MarkCopyBegin, Site: offCopy,
				Graph: 0x201, Ctx: 0x100, UID: trace.NoValue},
				trace.Mark{Time: 132, Kind: trace.MarkCopyBegin, Site: offSet, Graph: 0x202, UID: 8})
		}, []string{usual[0], `1/1 copy GPU0#ffn_out-0#0 128 B "CPU">"GPU" +-1 false`,
			`1/1 set output.weight 8 B "host">"GPU" +-1 false`, usual[2]}, span},
		{"the same tensor before and after a graph", func(ms []trace.Mark) []trace.Mark {
			return at(ms, 130, 140, trace.Mark{Time: 12, Kind: trace.MarkCopyBegin, Site: offCopy,
				Graph: 0x201, Ctx: 0x102, UID: trace.NoValue},
				trace.Mark{Time: 132, Kind: trace.MarkCopyBegin, Site: offSet, Graph: 0x201, UID: 8})
		}, []string{usual[0], `1/0 copy GPU0#ffn_out-0#0 128 B "">"GPU" +-1 false`,
			`1/1 set GPU0#ffn_out-0#0 8 B "host">"GPU" +-1 false`, usual[2]}, span},
		{"an input of the CPU's graph: it was computed nowhere", func(ms []trace.Mark) []trace.Mark {
			return at(ms, 130, 140, trace.Mark{Time: 131, Kind: trace.MarkCopyBegin, Site: offCopy,
				Graph: 0x201, Ctx: 0x102, UID: trace.NoValue})
		}, []string{usual[0], `1/1 copy GPU0#ffn_out-0#0 128 B "">"GPU" +-1 false`, usual[2]}, span},
		{"waited for twice", func(ms []trace.Mark) []trace.Mark {
			return at(ms, 500, 600, trace.Mark{Time: 500, Kind: trace.MarkSyncBegin, Site: offSync, Ctx: 9},
				trace.Mark{Time: 600, Kind: trace.MarkSyncEnd, Site: offSyncEnd})
		}, usual, span},
		{"a copy in no step", func(ms []trace.Mark) []trace.Mark {
			return at(ms, -1, -1, trace.Mark{Time: 500, Kind: trace.MarkCopyBegin, Site: offSet, Graph: 0x102,
				UID: 1 << 63})
		}, append(slices.Clone(usual), `0/-1 set  -1 B "">"" +-1 false`), span},
		{"nobody waits", func(ms []trace.Mark) []trace.Mark { return at(ms, 190, 400) }, usual, nil},
		{"another backend is waited for", func(ms []trace.Mark) []trace.Mark {
			return at(ms, 190, 190, trace.Mark{Time: 190, Kind: trace.MarkSyncBegin, Site: offSync, Ctx: 8})
		}, usual, nil},
		{"the wait began before the graph", func(ms []trace.Mark) []trace.Mark {
			return at(ms, 190, 190, trace.Mark{Time: 145, Kind: trace.MarkSyncBegin, Site: offSync, Ctx: 9})
		}, usual, nil},
		{"two graphs, one wait", func(ms []trace.Mark) []trace.Mark {
			return at(ms, 161, 165, trace.Mark{Time: 162, Kind: trace.MarkGraphBegin, Site: offGPUBegin,
				Ctx: 9, Shape: 2, NNodes: 1},
				trace.Mark{Time: 164, Kind: trace.MarkGraphEnd, Site: offGPUEnd})
		}, usual, []string{"GPU 1: 238, waited 210, before 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &seen{}
			if _, err := profile.Replay(offloaded(t, 1, c.change), profile.Tee(s)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(s.copies, c.copies) {
				t.Errorf("copies\n%q\nwant\n%q", s.copies, c.copies)
			}
			if !slices.Equal(s.spans, c.spans) {
				t.Errorf("spans %q, want %q", s.spans, c.spans)
			}
		})
	}
}

// Means a step of what each backend did.
func TestOffloadStat(t *testing.T) {
	b := stat.New(stat.Options{})
	h, err := profile.Replay(offloaded(t, 3, nil), b)
	if err != nil {
		t.Fatal(err)
	}
	s := b.Finish(h)
	if len(s.Offload) != 1 || s.Offload[0].Phase != profile.Decode || s.Offload[0].Steps != 3 ||
		len(s.Offload[0].Backends) != 2 {
		t.Fatalf("%+v", s.Offload)
	}
	cpu, gpu := s.Offload[0].Backends[0], s.Offload[0].Backends[1]
	// 8x4 floats are 128 B; the product of two such has 2*8*4*4 flops
	if cpu.Backend != "CPU" || cpu.Graphs != 1 || cpu.Nodes != 1 || cpu.Host != 100 || cpu.Weights != 128 ||
		cpu.Device != nil || cpu.Layers.First != 0 || cpu.Layers.Count != 1 {
		t.Errorf("%+v", cpu)
	}
	// a span ends 400 after its step's begin, the next begins at 1150
	if gpu.Backend != "GPU" || gpu.Host != 10 || gpu.Spans != 3 || *gpu.Device != 250 || *gpu.Waited != 210 ||
		*gpu.Idle != 750 || gpu.Layers != nil || gpu.Ops[0].Op != "MUL_MAT" {
		t.Errorf("%+v", gpu)
	}
	var ways []string
	for _, c := range s.Offload[0].Copies {
		ways = append(ways, fmt.Sprintf("%s>%s %g x %g B %s", c.From, c.To, c.PerStep, *c.Bytes, c.Largest))
	}
	if want := []string{"CPU>GPU 1 x 128 B GPU0#ffn_out-0#0", "GPU>host 1 x 128 B result_output",
		"host>CPU 1 x 4 B inp_tokens"}; !slices.Equal(ways, want) {
		t.Errorf("%q, want %q", ways, want)
	}
	only := stat.New(stat.Options{PID: 8})
	if h, err = profile.Replay(offloaded(t, 1, nil), only); err != nil || only.Finish(h).Offload != nil {
		t.Errorf("another process's: %v", err)
	}
}
