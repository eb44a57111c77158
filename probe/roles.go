// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"github.com/cilium/ebpf"

	"github.com/profinfer/profinfer/engine"
)

// handling is what the kernel side does at a site of one role.
type handling struct {
	kind kernelMarkKind // of the marks it writes; 0: it writes hits
	// order in which sites are attached: what completes an observation precedes what begins it, so that a
	// step whose begin is seen is seen completely.
	order            int
	program, counted func(*kernelObjects) *ebpf.Program // counted: with counters; nil: the same program
}

func markBegin(o *kernelObjects) *ebpf.Program  { return o.MarkBegin }
func markEnd(o *kernelObjects) *ebpf.Program    { return o.MarkEnd }
func queueBegin(o *kernelObjects) *ebpf.Program { return o.QueueBegin }
func queueEnd(o *kernelObjects) *ebpf.Program   { return o.QueueEnd }

var handlingOf = map[engine.Role]handling{
	engine.RoleOpEnd: {order: 0, program: func(o *kernelObjects) *ebpf.Program { return o.OpEnd },
		counted: func(o *kernelObjects) *ebpf.Program { return o.OpEndCounted }},
	engine.RoleOpBegin: {order: 1, program: func(o *kernelObjects) *ebpf.Program { return o.OpBegin },
		counted: func(o *kernelObjects) *ebpf.Program { return o.OpBeginCounted }},
	engine.RoleOpFused: {order: 1, program: func(o *kernelObjects) *ebpf.Program { return o.OpFused },
		counted: func(o *kernelObjects) *ebpf.Program { return o.OpFusedCounted }},
	engine.RoleGraphEnd:    {kind: kernelMarkKindMARK_GRAPH_END, order: 2, program: markEnd},
	engine.RoleGraphBegin:  {kind: kernelMarkKindMARK_GRAPH_BEGIN, order: 3, program: markBegin},
	engine.RoleCopyEnd:     {kind: kernelMarkKindMARK_COPY_END, order: 4, program: markEnd},
	engine.RoleSyncEnd:     {kind: kernelMarkKindMARK_SYNC_END, order: 4, program: markEnd},
	engine.RoleSchedEnd:    {kind: kernelMarkKindMARK_SCHED_END, order: 4, program: markEnd},
	engine.RoleSubmitEnd:   {kind: kernelMarkKindMARK_SUBMIT_END, order: 4, program: queueEnd},
	engine.RoleWaitEnd:     {kind: kernelMarkKindMARK_WAIT_END, order: 4, program: queueEnd},
	engine.RoleDone:        {kind: kernelMarkKindMARK_DONE, order: 4, program: queueBegin},
	engine.RoleCopyBegin:   {kind: kernelMarkKindMARK_COPY_BEGIN, order: 5, program: markBegin},
	engine.RoleSyncBegin:   {kind: kernelMarkKindMARK_SYNC_BEGIN, order: 5, program: markBegin},
	engine.RoleSchedBegin:  {kind: kernelMarkKindMARK_SCHED_BEGIN, order: 5, program: markBegin},
	engine.RoleSubmitBegin: {kind: kernelMarkKindMARK_SUBMIT_BEGIN, order: 5, program: queueBegin},
	engine.RoleWaitBegin:   {kind: kernelMarkKindMARK_WAIT_BEGIN, order: 5, program: queueBegin},
	engine.RoleStepEnd:     {kind: kernelMarkKindMARK_STEP_END, order: 6, program: markEnd},
	engine.RoleStepBegin:   {kind: kernelMarkKindMARK_STEP_BEGIN, order: 7, program: markBegin},
}

// program is the program for sites of a role; nil: the role is not probed.
func (s *Session) program(r engine.Role) *ebpf.Program {
	h := handlingOf[r]
	switch {
	case h.counted != nil && s.counters.Any():
		return h.counted(&s.objs)
	case h.program != nil:
		return h.program(&s.objs)
	}
	return nil
}
