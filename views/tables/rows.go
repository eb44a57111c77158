// SPDX-License-Identifier: Apache-2.0

package tables

// RunRow is the recording. If there are several processes, only the first is listed.
type RunRow struct {
	Engine        *string `parquet:"engine,optional" doc:"llama.cpp, whisper.cpp, ..."`
	EngineVersion *string `parquet:"engine_version,optional"`
	GGMLVersion   *string `parquet:"ggml_version,optional"`
	Command       *string `parquet:"command,optional" doc:"quoted for a shell"`
	PID           *int64  `parquet:"pid,optional"`
	CPU           *string `parquet:"cpu,optional" doc:"model of the CPU"`
	Cores         *int64  `parquet:"cores,optional"`
	Kernel        *string `parquet:"kernel,optional"`
	Level         *string `parquet:"level,optional" doc:"step, graph or op"`
	LostEvents    *int64  `parquet:"lost_events,optional" doc:"events that the probes could not hand over; null: some, not counted"`
	ThrottledNs   *int64  `parquet:"throttled_ns,optional" doc:"time in which probes were off to keep the overhead in bounds"`
	ProbeCostNs   *int64  `parquet:"probe_cost_ns,optional" doc:"measured cost of one probe event of the dearest operator probe, else of the dearest probe"`
	Part          *string `parquet:"part,optional" doc:"which part of the recording the tables show (--from, --to, --steps, --phase); null: all"`
}

// StepRow is one step: one call of the engine that computes a batch.
type StepRow struct {
	Step       int64   `parquet:"step" doc:"number in the run, from 1"`
	PID        int64   `parquet:"pid"`
	Ctx        *uint64 `parquet:"ctx,optional" doc:"address of the engine context: draft and target models differ"`
	Phase      *string `parquet:"phase,optional" doc:"prefill, decode or encode"`
	StartNs    int64   `parquet:"start_ns"`
	DurNs      int64   `parquet:"dur_ns"`
	NTokens    *int64  `parquet:"n_tokens,optional"`
	NSeqs      *int64  `parquet:"n_seqs,optional"`
	Untraced   *string `parquet:"untraced,optional" doc:"why its operators were not recorded though those of others were: throttled, learning, filtered, unmatched; null: they were, or the level has none"`
	Incomplete *string `parquet:"incomplete,optional" doc:"what of it was not seen; null: nothing"`
}

// GraphRow is one execution of a graph on one backend.
type GraphRow struct {
	Graph   int64   `parquet:"graph" doc:"number in the run, from 1"`
	Step    *int64  `parquet:"step,optional"`
	PID     int64   `parquet:"pid"`
	Split   int64   `parquet:"split" doc:"number of the split in its step, from 0"`
	Backend *string `parquet:"backend,optional"`
	StartNs int64   `parquet:"start_ns"`
	DurNs   int64   `parquet:"dur_ns"`
	NNodes  *int64  `parquet:"n_nodes,optional"`
	Shape   *int64  `parquet:"shape,optional" doc:"of table nodes; null: its definition is not known"`
	// For a graph that was computed for another process.
	Caller     *int64 `parquet:"caller,optional" doc:"graph of another process that had this one computed"`
	CallerStep *int64 `parquet:"caller_step,optional" doc:"its step"`
}

// NodeRow is one tensor of a graph definition: its nodes in graph order, then its leaves.
type NodeRow struct {
	Shape     int64   `parquet:"shape" doc:"number in the run, from 1"`
	Node      int64   `parquet:"node" doc:"from 0"`
	Kind      string  `parquet:"kind" doc:"node or leaf"`
	Name      string  `parquet:"name"`
	Op        string  `parquet:"op"`
	Type      string  `parquet:"type"`
	Ne0       int64   `parquet:"ne0"`
	Ne1       int64   `parquet:"ne1"`
	Ne2       int64   `parquet:"ne2"`
	Ne3       int64   `parquet:"ne3"`
	Src       []int32 `parquet:"src,list" doc:"numbers of the tensors it is made from; -1: one outside the shape"`
	Data      *uint64 `parquet:"data,optional" doc:"address of its data"`
	Executed  bool    `parquet:"executed" doc:"was seen to run"`
	FusedInto *int64  `parquet:"fused_into,optional" doc:"node whose row in ops includes this one"`
}

// OpRow is one executed operator. A fused one is one row, at its first node.
type OpRow struct {
	OpID       int64    `parquet:"op_id" doc:"number in the run, from 1"`
	Step       *int64   `parquet:"step,optional"`
	Graph      *int64   `parquet:"graph,optional"`
	Shape      *int64   `parquet:"shape,optional"`
	Node       int64    `parquet:"node"`
	Name       *string  `parquet:"name,optional" doc:"of the tensor; not unique"`
	Op         string   `parquet:"op" doc:"joined by + when fused"`
	Layer      *int64   `parquet:"layer,optional"`
	Block      *string  `parquet:"block,optional" doc:"attention, ffn, moe, norm, embedding, output or other"`
	Backend    *string  `parquet:"backend,optional"`
	Type       *string  `parquet:"type,optional"`
	Ne0        *int64   `parquet:"ne0,optional"`
	Ne1        *int64   `parquet:"ne1,optional"`
	Ne2        *int64   `parquet:"ne2,optional"`
	Ne3        *int64   `parquet:"ne3,optional"`
	Weight     *string  `parquet:"weight,optional" doc:"name of the weight it reads; null: none"`
	WeightType *string  `parquet:"weight_type,optional"`
	StartNs    int64    `parquet:"start_ns"`
	DurNs      int64    `parquet:"dur_ns" doc:"from its first thread's begin to its last thread's barrier arrival; at least that where busy_ns is null"`
	ProbeNs    int64    `parquet:"probe_ns" doc:"part of dur_ns, and of each thread's busy time, that the probes took: an estimate"`
	Threads    int64    `parquet:"threads" doc:"threads seen in it"`
	BusyNs     *int64   `parquet:"busy_ns,optional" doc:"sum over its threads; null: not all were seen"`
	WaitNs     *int64   `parquet:"wait_ns,optional"`
	OffCPUNs   *int64   `parquet:"off_cpu_ns,optional" doc:"null also where scheduling was not recorded: busy_ns then includes it"`
	Imbalance  *float64 `parquet:"imbalance,optional" doc:"max busy / mean busy - 1 over its threads, without what the probes took"`
	Bytes      *int64   `parquet:"bytes,optional" doc:"what it must read and write at least"`
	Flops      *int64   `parquet:"flops,optional"`
	// Counts are the columns of the run's counters, after the others.
	Counts []int64 `parquet:"-"`
}

// OpThreadRow is one operator on one thread.
type OpThreadRow struct {
	OpID     int64  `parquet:"op_id"`
	TID      int64  `parquet:"tid"`
	Ith      *int64 `parquet:"ith,optional" doc:"number of the thread in the operator's thread team"`
	CPU      int64  `parquet:"cpu" doc:"where it began; of an operator of a tracked graph, where it arrived at the barrier"`
	StartNs  int64  `parquet:"start_ns"`
	BusyNs   *int64 `parquet:"busy_ns,optional"`
	WaitNs   *int64 `parquet:"wait_ns,optional"`
	OffCPUNs *int64 `parquet:"off_cpu_ns,optional"`
	// Counts are the columns of the run's counters, after the others.
	Counts []int64 `parquet:"-"`
}

// EdgeRow is one dependency: node To is made from node From.
type EdgeRow struct {
	Shape int64 `parquet:"shape"`
	From  int64 `parquet:"from"`
	To    int64 `parquet:"to"`
}

// ExpertRow is one chosen expert: one row per step, layer, token and rank, however many matmuls share the
// choice.
type ExpertRow struct {
	Step   *int64 `parquet:"step,optional"`
	Graph  *int64 `parquet:"graph,optional"`
	Shape  *int64 `parquet:"shape,optional"`
	Layer  *int64 `parquet:"layer,optional"`
	Node   int64  `parquet:"node" doc:"the first product that used the choice"`
	Token  int64  `parquet:"token" doc:"index in the graph's batch, from 0"`
	Rank   int64  `parquet:"rank" doc:"from 0, in the engine's own order"`
	Expert *int64 `parquet:"expert,optional" doc:"null: not seen, or a slot of a cache"`
	Slot   *int64 `parquet:"slot,optional" doc:"place in the engine's cache of experts, where that stands there instead of the expert"`
}

// SchedRow is one switch or wake-up. For a wake-up, prev is the waker and cpu the CPU that the waker runs on.
type SchedRow struct {
	TsNs      int64   `parquet:"ts_ns"`
	Event     string  `parquet:"event" doc:"switch, wakeup, or running: next was seen to have the CPU while a thread that may use it was runnable"`
	CPU       int64   `parquet:"cpu"`
	PrevTID   int64   `parquet:"prev_tid"`
	PrevState *string `parquet:"prev_state,optional" doc:"letter as in ps; R: it could have run on. Null of a wake-up"`
	NextTID   int64   `parquet:"next_tid"`
	NextComm  string  `parquet:"next_comm"`
	HeldNs    *int64  `parquet:"held_ns,optional" doc:"how long prev (of a switch) or next (of a running) has had the CPU, where no row before tells; null: one does, or it is not known"`
}

// ThreadRow is one thread seen.
type ThreadRow struct {
	PID  int64   `parquet:"pid"`
	TID  int64   `parquet:"tid"`
	Comm *string `parquet:"comm,optional"`
	Role string  `parquet:"role" doc:"main, worker or other"`
}

// LossRow is one interval that was not fully seen.
type LossRow struct {
	StartNs int64   `parquet:"start_ns"`
	EndNs   int64   `parquet:"end_ns"`
	Why     string  `parquet:"why" doc:"lost, throttled, learning, filtered, cut, unmatched"`
	Events  *int64  `parquet:"events,optional" doc:"null: not counted"`
	What    *string `parquet:"what,optional" doc:"hits (probe events), marks (markers), definitions, sched, reads, faults, experts, processes, probes ...; null: unknown"`
	Of      *string `parquet:"of,optional" doc:"the process that it is of, and what went wrong; null: not of one process"`
}
