// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"maps"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/trace"
)

// The kernel side's numbers are those that recordings and plans have: records are handed on as they are.
func TestKinds(t *testing.T) {
	spec, err := loadKernel()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]map[string]uint64{
		"hit_kind": {"HIT_OP_BEGIN": uint64(trace.HitOpBegin), "HIT_OP_FUSED": uint64(trace.HitOpFused),
			"HIT_FUSED_WITH": uint64(trace.HitFusedWith), "HIT_OP_END": uint64(trace.HitOpEnd),
			"HIT_OFF": uint64(hitOff), "HIT_ON": uint64(hitOn)},
		"mark_kind": {"MARK_STEP_BEGIN": uint64(trace.MarkStepBegin),
			"MARK_STEP_END":    uint64(trace.MarkStepEnd),
			"MARK_SCHED_BEGIN": uint64(trace.MarkSchedBegin), "MARK_SCHED_END": uint64(trace.MarkSchedEnd),
			"MARK_GRAPH_BEGIN": uint64(trace.MarkGraphBegin), "MARK_GRAPH_END": uint64(trace.MarkGraphEnd),
			"MARK_COPY_BEGIN": uint64(trace.MarkCopyBegin), "MARK_COPY_END": uint64(trace.MarkCopyEnd),
			"MARK_SYNC_BEGIN": uint64(trace.MarkSyncBegin), "MARK_SYNC_END": uint64(trace.MarkSyncEnd),
			"MARK_SUBMIT_BEGIN": uint64(trace.MarkSubmitBegin),
			"MARK_SUBMIT_END":   uint64(trace.MarkSubmitEnd),
			"MARK_WAIT_BEGIN":   uint64(trace.MarkWaitBegin), "MARK_WAIT_END": uint64(trace.MarkWaitEnd),
			"MARK_DONE": uint64(trace.MarkDone)},
		"sched_kind": {"SCHED_SWITCH": uint64(trace.SchedSwitch), "SCHED_WAKEUP": uint64(trace.SchedWakeup),
			"SCHED_LOOK": uint64(trace.SchedLook)},
		"fault_kind": {"FAULT_MAJOR": uint64(trace.FaultMajor), "FAULT_MINOR": uint64(trace.FaultMinor),
			"FAULT_COUNTS": uint64(trace.FaultCounts)},
		"arg_kind": {"ARG_NONE": uint64(engine.ArgNone), "ARG_REG": uint64(engine.ArgReg),
			"ARG_STACK_ADDR": uint64(engine.ArgStackAddr),
			"ARG_AT":         uint64(engine.ArgAt), "ARG_STACK_AT": uint64(engine.ArgStackAt),
			"ARG_CONST": uint64(engine.ArgConst)},
		"batch_kind": {"BATCH_NONE": uint64(engine.BatchNone), "BATCH_BY_VALUE": uint64(engine.BatchByValue),
			"BATCH_POINTER": uint64(engine.BatchPointer), "BATCH_VECTOR": uint64(engine.BatchVector)},
	} {
		var e *btf.Enum
		if err := spec.Types.TypeByName(name, &e); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := map[string]uint64{}
		for _, v := range e.Values {
			got[v.Name] = v.Value
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s is %v, Go has %v", name, got, want)
		}
	}
}

// Each role but none has its program, and each kind of marks one role.
func TestRolesAreHandled(t *testing.T) {
	role := map[kernelMarkKind]engine.Role{}
	for r := engine.RoleStepBegin; r.String() != "unknown role"; r++ {
		h, ok := handlingOf[r]
		if !ok || h.program == nil {
			t.Errorf("nothing runs at %s", r)
			continue
		}
		if hits := r.Needs() == engine.LevelOp; hits != (h.kind == 0) || hits != (h.counted != nil) {
			t.Errorf("%s writes marks of kind %d", r, h.kind)
		}
		if o := role[h.kind]; h.kind != 0 && o != 0 {
			t.Errorf("%s and %s write the same marks", r, o)
		}
		role[h.kind] = r
	}
	if len(role) != int(kernelMarkKindMARK_DONE)+1 {
		t.Errorf("%d kinds of marks have a role", len(role)-1)
	}
}
