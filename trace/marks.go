// SPDX-License-Identifier: Apache-2.0

package trace

// Mark is a boundary event: of a step, a scheduler's run, a graph, a copy, a wait, or a call of a device's
// own interface.
//
// Ctx, Graph, UID, NNodes and Type are columns as in the file; their meaning depends on the kind. Methods are
// named after the meanings; each applies to the kinds listed in its comment.
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
	// NTokens is the batch's number of tokens (step begin); -1: unknown.
	NTokens int32
	Type    int32
}

// Context is the engine context that a step computes in (step begin).
func (m *Mark) Context() uint64 { return m.Ctx }

// Entered is the type argument of the entry point, if it has one (step begin; llama_process: 0 encode, 1
// decode); -1: none.
func (m *Mark) Entered() int32 { return m.Type }

// Scheduler is the scheduler that runs a graph (scheduler begin).
func (m *Mark) Scheduler() uint64 { return m.Ctx }

// Backend is the object through which a backend's function is called (graph and sync begin); 0: unknown.
func (m *Mark) Backend() uint64 { return m.Ctx }

// GraphUID is the engine's own identity of the graph (graph begin); 0: none.
func (m *Mark) GraphUID() uint64 { return m.UID }

// GraphNodes is the number of nodes of the graph (graph begin; scheduler begin: the whole graph, 0 if
// unknown).
func (m *Mark) GraphNodes() int32 { return m.NNodes }

// Copied is the tensor that is written or, at a site that reads, read (copy begin).
func (m *Mark) Copied() uint64 { return m.Graph }

// CopiedFrom is the tensor that is copied from (copy begin); 0: host memory.
func (m *Mark) CopiedFrom() uint64 { return m.Ctx }

// CopiedBytes is the number of bytes copied (copy begin); -1: unknown.
func (m *Mark) CopiedBytes() int64 {
	if m.UID == NoValue || m.UID > 1<<62 {
		return -1
	}
	return int64(m.UID)
}

// Queue is the device's queue (submit and wait begin); 0 if the call has none.
func (m *Mark) Queue() uint64 { return m.Ctx }

// Device is the device of the queue or handle (submit begin, wait begin, done); 0: unknown.
func (m *Mark) Device() uint64 { return m.UID }

// Fence is the handle that shows when a submission is done (submit begin, wait begin, done): a fence, an
// event. 0: none.
func (m *Mark) Fence() uint64 { return m.Graph }

// Batches is the number of submitted batches of work (submit begin); -1: unknown.
func (m *Mark) Batches() int32 { return m.NNodes }

// Fences is the number of handles waited for (wait begin), 0 if the call does not wait; -1: unknown.
func (m *Mark) Fences() int32 { return m.NNodes }

// Failed reports whether the call did not return success (submit and wait end).
func (m *Mark) Failed() bool { return m.Type != 0 }
