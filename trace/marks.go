// SPDX-License-Identifier: Apache-2.0

package trace

// Mark is a boundary of a step, of a scheduler's run, of a graph, a copy or a wait, or a call of a device's
// own interface.
//
// Ctx, Graph, UID, NNodes and Type are columns that each kind uses for something else, as the file has them.
// Methods have the names of what they are; each is for the kinds that it tells.
type Mark struct {
	Time int64
	PID  int32
	TID  int32
	CPU  uint16
	Kind MarkKind
	Site uint32 // index into Process.Sites of the process's latest Process record

	Ctx   uint64
	Graph uint64
	// Shape identifies the graph's shape within the process (graph begin): Shape.ID. 0: unknown.
	Shape  uint64
	UID    uint64
	NNodes int32
	// Threads of the computation as planned (graph begin); 0: unknown.
	Threads int32
	// NTokens of the batch (step begin); -1: unknown.
	NTokens int32
	Type    int32
}

// Context is the engine context that a step computes in (step begin).
func (m *Mark) Context() uint64 { return m.Ctx }

// Entered is the type argument of the entry point, where it has one (step begin; llama_process: 0 encode, 1
// decode); -1: none.
func (m *Mark) Entered() int32 { return m.Type }

// Scheduler is the one that runs a graph (scheduler begin).
func (m *Mark) Scheduler() uint64 { return m.Ctx }

// Backend is the object by which a backend's function is called (graph and sync begin); 0: not known.
func (m *Mark) Backend() uint64 { return m.Ctx }

// GraphUID is the engine's own identity of the graph (graph begin); 0: none.
func (m *Mark) GraphUID() uint64 { return m.UID }

// GraphNodes is how many nodes the graph has (graph begin; scheduler begin: the whole graph, 0 where it is
// not told).
func (m *Mark) GraphNodes() int32 { return m.NNodes }

// Copied is the tensor that is written or, of a site that reads, read (copy begin).
func (m *Mark) Copied() uint64 { return m.Graph }

// CopiedFrom is the tensor that is copied from (copy begin); 0: the host's memory.
func (m *Mark) CopiedFrom() uint64 { return m.Ctx }

// CopiedBytes is how much is copied (copy begin); -1: not told.
func (m *Mark) CopiedBytes() int64 {
	if m.UID == NoValue || m.UID > 1<<62 {
		return -1
	}
	return int64(m.UID)
}

// Queue is the device's queue (submit and wait begin); 0 where the call names none.
func (m *Mark) Queue() uint64 { return m.Ctx }

// Device is the queue's, or the handle's (submit begin, wait begin, done); 0: not told.
func (m *Mark) Device() uint64 { return m.UID }

// Fence is the handle that tells when a submission is done (submit begin, wait begin, done): a fence, an
// event. 0: none.
func (m *Mark) Fence() uint64 { return m.Graph }

// Batches is how many batches of work are handed over (submit begin); -1: not told.
func (m *Mark) Batches() int32 { return m.NNodes }

// Fences is how many handles are waited for (wait begin), 0 where the call does not wait; -1: not told.
func (m *Mark) Fences() int32 { return m.NNodes }

// Failed tells whether the call returned something else than success (submit and wait end).
func (m *Mark) Failed() bool { return m.Type != 0 }
