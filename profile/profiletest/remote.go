// SPDX-License-Identifier: Apache-2.0

package profiletest

import (
	"errors"
	"io"
	"slices"

	"github.com/profinfer/profinfer/trace"
)

// Processes and sites of a [Remote] recording.
const (
	RemoteClient = 700
	RemoteServer = 900

	remoteStepBegin = iota - 2
	remoteStepEnd
	remoteCPUBegin
	remoteCPUEnd
	remoteRPCBegin
	remoteRPCEnd
	remoteSet
	remoteSetEnd
	remoteGet
	remoteGetEnd
	remoteSync
	remoteSyncEnd
	remoteOpBegin
	remoteOpEnd
)

// RemoteStep is the time from a step's begin to the next one's in a [Remote] recording, ns.
const RemoteStep = 1_000_000

// Remote is a recording of two processes: each decode step of the client hands a graph of three matmuls to
// the server and waits for it. From a step's begin, ns: the client's own graph at 10000 to 15000, handing
// over at 30000 to 34000, the step's end at 40000, the client waits from 41000 to 500000; the server computes
// from 50000 to 450000, its operators take 100000, 200000 and 95000.
type Remote struct {
	Steps int
	// Marks changes the boundary events of a step, whose times are relative to the step's begin; Hits its
	// hits.
	Marks func(step int, ms []trace.Mark) []trace.Mark
	hits  func(step int, hs []trace.Hit) []trace.Hit
	// Process and Shape change what is reported of them.
	Process func(*trace.Process)
	Shape   func(*trace.Shape)
	// Losses are reported before the first step's events.
	Losses []trace.Loss
	level  string // "": op
	prefix string // of all names
}

func remoteNode(addr uint64, name, op, typ string, ne [4]int64, src ...int32) trace.Node {
	n := trace.Node{Name: name, Op: op, Type: typ, Ne: ne, Src: src, ViewSrc: -1, Addr: addr, Data: addr + 8,
		Executes: op != "NONE", Leaf: op == "NONE", BlockSize: 1, TypeSize: 4}
	size := uint64(4)
	if typ == "q4_0" {
		n.BlockSize, n.TypeSize, size = 32, 18, 18
	}
	n.Nb[0] = size
	n.Nb[1] = size * uint64(ne[0]/n.BlockSize)
	n.Nb[2] = n.Nb[1] * uint64(ne[1])
	n.Nb[3] = n.Nb[2]
	return n
}

// remoteShapes are the definitions: the client's own graph, the one that it hands over, and that as the
// server has it, at other addresses.
func remoteShapes() (own, handed, served trace.Shape) {
	vec := [4]int64{64, 1, 1, 1}
	graph := func(pid int32, id, at uint64) trace.Shape {
		return trace.Shape{PID: pid, ID: id, NNodes: 3, Nodes: []trace.Node{
			remoteNode(at, "Qcur-0", "MUL_MAT", "f32", vec, 3, 6),
			remoteNode(at+1<<8, "ffn_out-0", "MUL_MAT", "f32", vec, 4, 0),
			remoteNode(at+2<<8, "result_output", "MUL_MAT", "f32", [4]int64{256, 1, 1, 1}, 5, 1),
			remoteNode(at+3<<8, "blk.0.attn_q.weight", "NONE", "q4_0", [4]int64{64, 64, 1, 1}),
			remoteNode(at+4<<8, "blk.0.ffn_down.weight", "NONE", "q4_0", [4]int64{64, 64, 1, 1}),
			remoteNode(at+5<<8, "output.weight", "NONE", "q4_0", [4]int64{64, 256, 1, 1}),
			remoteNode(at+6<<8, "RPC0#embd#0", "NONE", "f32", vec)}}
	}
	own = trace.Shape{PID: RemoteClient, ID: 1, NNodes: 1, Nodes: []trace.Node{
		remoteNode(0x1000, "embd", "GET_ROWS", "f32", vec, 1, 2),
		remoteNode(0x1100, "token_embd.weight", "NONE", "q4_0", [4]int64{64, 256, 1, 1}),
		remoteNode(0x1200, "inp_tokens", "NONE", "i32", [4]int64{1, 1, 1, 1})}}
	return own, graph(RemoteClient, 2, 0x20000), graph(RemoteServer, 3, 0x80000)
}

// Record writes the recording and returns the writer's first error.
func (r Remote) Record(out io.Writer) error {
	w := trace.NewWriter(out)
	level := r.level
	if level == "" {
		level = "op"
	}
	errs := []error{w.Meta(trace.Meta{SchemaVersion: 1, Tool: "test",
		Command: []string{"llama-bench", "--rpc",
			"127.0.0.1:50052"}, Start: 1, Host: "host", Kernel: "6.18.5",
		Arch: "amd64", CPU: "a CPU", Cores: 2, Level: level, ProbeCost: map[string]int64{"emulated": 200}})}
	sites := []trace.Site{
		remoteStepBegin: {Role: trace.RoleStepBegin,
			Entry: "llama_decode"}, remoteStepEnd: {Role: trace.RoleStepEnd, Entry: "llama_decode"},
		remoteCPUBegin: {Role: trace.RoleGraphBegin, Backend: "CPU"}, remoteCPUEnd: {Role: trace.RoleGraphEnd,
			Backend: "CPU"},
		remoteRPCBegin: {Role: trace.RoleGraphBegin, Backend: "RPC"}, remoteRPCEnd: {Role: trace.RoleGraphEnd,
			Backend: "RPC"},
		remoteSet: {Role: trace.RoleCopyBegin,
			Entry: "ggml_backend_tensor_set"},
		remoteSetEnd: {Role: trace.RoleCopyEnd, Entry: "ggml_backend_tensor_set"},
		remoteGet: {Role: trace.RoleCopyBegin,
			Entry: "ggml_backend_tensor_get_async"},
		remoteGetEnd: {Role: trace.RoleCopyEnd, Entry: "ggml_backend_tensor_get_async"},
		remoteSync: {Role: trace.RoleSyncBegin, Entry: "synchronize",
			Backend: "RPC"}, remoteSyncEnd: {Role: trace.RoleSyncEnd, Entry: "synchronize", Backend: "RPC"},
		remoteOpBegin: {Role: trace.RoleOpBegin, Class: "emulated"}, remoteOpEnd: {Role: trace.RoleOpEnd,
			Class: "emulated"}}
	for _, p := range []trace.Process{
		{PID: RemoteClient, Comm: "llama-bench", Cmdline: []string{"llama-bench"}, Engine: "llama.cpp",
			EngineVersion: "0.7.0", GGMLVersion: "0.27.0", Sites: sites},
		{PID: RemoteServer, Comm: "ggml-rpc-server", Cmdline: []string{"ggml-rpc-server"}, Engine: "ggml",
			GGMLVersion: "0.27.0", Sites: slices.Clone(sites)}} {
		if r.Process != nil {
			r.Process(&p)
		}
		errs = append(errs, w.Process(p), w.Threads([]trace.Thread{{PID: p.PID, TID: p.PID, Comm: p.Comm}}))
	}
	own, handed, served := remoteShapes()
	for _, s := range []*trace.Shape{&own, &handed, &served} {
		for i := range s.Nodes {
			s.Nodes[i].Name = r.prefix + s.Nodes[i].Name
		}
		if r.Shape != nil {
			r.Shape(s)
		}
		errs = append(errs, w.Shape(s))
	}
	for _, l := range r.Losses {
		errs = append(errs, w.Loss(l))
	}
	for step := range r.Steps {
		c, s := int32(RemoteClient), int32(RemoteServer)
		ms := []trace.Mark{
			{Time: 0, PID: c, Kind: trace.MarkStepBegin, Site: remoteStepBegin, Ctx: 5, NTokens: 1},
			{Time: 10_000, PID: c, Kind: trace.MarkGraphBegin, Site: remoteCPUBegin, Ctx: 8, Shape: own.ID,
				NNodes: 1},
			{Time: 15_000, PID: c, Kind: trace.MarkGraphEnd, Site: remoteCPUEnd},
			{Time: 20_000, PID: c, Kind: trace.MarkCopyBegin, Site: remoteSet, Graph: handed.Nodes[6].Addr,
				UID: 1024},
			{Time: 21_000, PID: c, Kind: trace.MarkCopyEnd, Site: remoteSetEnd},
			{Time: 30_000, PID: c, Kind: trace.MarkGraphBegin, Site: remoteRPCBegin, Ctx: 9, Shape: handed.ID,
				NNodes: 3},
			{Time: 34_000, PID: c, Kind: trace.MarkGraphEnd, Site: remoteRPCEnd},
			{Time: 35_000, PID: c, Kind: trace.MarkCopyBegin, Site: remoteGet, Graph: handed.Nodes[2].Addr,
				UID: 512},
			{Time: 36_000, PID: c, Kind: trace.MarkCopyEnd, Site: remoteGetEnd},
			{Time: 40_000, PID: c, Kind: trace.MarkStepEnd, Site: remoteStepEnd},
			{Time: 41_000, PID: c, Kind: trace.MarkSyncBegin, Site: remoteSync, Ctx: 77},
			{Time: 50_000, PID: s, Kind: trace.MarkGraphBegin, Site: remoteCPUBegin, Ctx: 8, Shape: served.ID,
				NNodes: 3},
			{Time: 450_000, PID: s, Kind: trace.MarkGraphEnd, Site: remoteCPUEnd},
			{Time: 500_000, PID: c, Kind: trace.MarkSyncEnd, Site: remoteSyncEnd}}
		if r.Marks != nil {
			ms = r.Marks(step, ms)
		}
		var hs []trace.Hit
		op := func(pid int32, addr uint64, from, to int64) {
			hs = append(hs, trace.Hit{Time: from, PID: pid, TID: pid, Nth: 1, Kind: trace.HitOpBegin,
				Arg: addr}, trace.Hit{Time: to, PID: pid, TID: pid, Kind: trace.HitOpEnd, Arg: pool})
		}
		op(c, own.Nodes[0].Addr, 11_000, 14_000)
		op(s, served.Nodes[0].Addr, 51_000, 151_000)
		op(s, served.Nodes[1].Addr, 152_000, 352_000)
		op(s, served.Nodes[2].Addr, 353_000, 448_000)
		if r.hits != nil {
			hs = r.hits(step, hs)
		}
		at := int64(step+1) * RemoteStep
		for i := range ms {
			ms[i].Time += at
			ms[i].TID, ms[i].Type = ms[i].PID, -1
			if ms[i].Kind != trace.MarkStepBegin {
				ms[i].NTokens = -1
			}
		}
		for i := range hs {
			hs[i].Time += at
		}
		slices.SortStableFunc(ms, func(a, b trace.Mark) int { return int(a.Time - b.Time) })
		errs = append(errs, w.Marks(ms),
			w.StepSeqs([]trace.StepSeq{{Time: at, TID: c, NTokens: 1, Pos: int32(step), Outputs: 1}}))
		if level == "op" {
			errs = append(errs, w.Hits(hs))
		}
		errs = append(errs, w.Drain(at+RemoteStep-1))
	}
	errs = append(errs, w.Close(trace.End{Time: int64(r.Steps+1) * RemoteStep, Reason: "the command ended"}))
	return errors.Join(errs...)
}

// harmedRemote has hostile names where client and server have some.
func harmedRemote() Remote {
	return Remote{Steps: 3, Process: func(p *trace.Process) {
		p.Comm, p.Cmdline = hostile(int(p.PID)), []string{hostile(1), hostile(5)}
	},
		Shape: func(s *trace.Shape) {
			for i := range s.Nodes {
				s.Nodes[i].Name = hostile(i)
			}
		}}
}
