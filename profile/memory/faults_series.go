// SPDX-License-Identifier: Apache-2.0

package memory

import "github.com/profinfer/profinfer/profile"

// FaultSeriesSchema is the version of the JSON form of [Series]. Fields may be added without raising it.
const FaultSeriesSchema = 2

// Limits of a Series. What is beyond is counted, never dropped silently.
const (
	maxFaultPoints    = 2048    // of a phase's steps
	maxFaultRows      = 512     // tensors over layers; operators
	maxFaultLayers    = 1 << 10 // of a row
	maxFaultExperts   = 1 << 16 // experts in all layers
	maxFaultMarks     = 1 << 15
	maxFaultStrings   = 1 << 12
	maxFileCells      = 4096 // of a file's map
	maxFileGroups     = 512
	maxFileTensors    = 4096 // of all files
	maxFaultOperators = 1 << 12
)

// Series is what plots of page faults need beyond a [Stat]. Times are ns, sizes bytes; nil: unknown. It
// covers all steps and operators, including incomplete steps.
type Series struct {
	SchemaVersion int          `json:"schema_version"`
	Timed         bool         `json:"timed"` // durations are known
	Phases        []FaultSteps `json:"phases"`
	// Names are Stat.Names by layer, without the limit: the longest wait first.
	Names     []FaultRow        `json:"names"`
	NamesLeft int               `json:"names_left_out"`
	Experts   []FaultExperts    `json:"experts"`
	Operators []DelayedOperator `json:"operators"` // those with faults, the most delayed first
	OpsLeft   int               `json:"operators_left_out"`
	Files     []FileMap         `json:"files"`
	Marks     FaultMarks        `json:"-"`
}

// FaultSteps are a phase's steps in time order.
type FaultSteps struct {
	Phase string       `json:"phase"`
	Every int64        `json:"steps_per_point"` // most steps per point
	Steps []FaultPoint `json:"steps"`
}

// FaultPoint is a step, or the sum of several consecutive ones.
type FaultPoint struct {
	Step int64 `json:"step"` // the first
	N    int64 `json:"n"`
	// the step with the longest time in faults or, where that is unknown, with most major ones
	Worst int64  `json:"worst"`
	PID   int32  `json:"pid"`
	Start int64  `json:"start_ns"` // boottime
	Dur   int64  `json:"dur_ns"`
	Major int64  `json:"major"`
	Wait  *int64 `json:"wait_ns"` // thread time in major faults and in others that read
	Wall  *int64 `json:"wall_ns"` // time in which at least one thread was in one
	Read  int64  `json:"read_bytes"`

	worst [2]int64 // of the step Worst: time, major faults
}

// FaultRow sums up faults on tensors of one name, by layer. Faults in no layer are in the sums only.
type FaultRow struct {
	FaultSum
	Layers []FaultCell `json:"layers"`
}

// FaultCell sums up the faults of a layer.
type FaultCell struct {
	Layer int    `json:"layer"`
	Major int64  `json:"major"`
	Minor int64  `json:"minor"`
	Wait  *int64 `json:"wait_ns"`
	Read  int64  `json:"read_bytes"`
}

// FaultExperts describes the experts of a process's layers: faults on them, and how much of their weights was
// in memory at the end.
type FaultExperts struct {
	PID     int32              `json:"pid"`
	Experts int                `json:"experts"` // the most in any layer
	Layers  []FaultExpertLayer `json:"layers"`
	Left    int                `json:"layers_left_out"`
}

// FaultExpertLayer has one value per expert, by its number, over all of its weights.
type FaultExpertLayer struct {
	Layer int     `json:"layer"` // -1: unknown
	Bytes int64   `json:"bytes"` // of one expert's weights
	Major []int64 `json:"major"`
	Wait  []int64 `json:"wait_ns"` // nil: unknown
	Read  []int64 `json:"read_bytes"`
	InEnd []int64 `json:"resident_end_bytes"` // nil: unknown
}

// DelayedOperator sums up the operators of one row of a Stat by weight in one phase.
type DelayedOperator struct {
	Phase   string `json:"phase"`
	InStep  bool   `json:"in_step"`
	Key     string `json:"key"`
	Type    string `json:"type"` // of its weight
	Weight  bool   `json:"weight"`
	Calls   int64  `json:"calls"`   // all
	Faulted int64  `json:"faulted"` // those with a major fault or one that read
	Dur     int64  `json:"dur_ns"`  // of all calls
	Major   int64  `json:"major"`
	Wait    *int64 `json:"wait_ns"` // thread time in faults
	// Delay is how much earlier the operators' last threads would have arrived without their faults.
	Delay *int64   `json:"delay_ns"`
	Share *float64 `json:"share"` // Delay / Dur
	Read  int64    `json:"read_bytes"`
}

// FileMap shows which parts of a file were in memory: in cells of equal size over the file, and by tensor.
type FileMap struct {
	PID     int32  `json:"pid"`
	Path    string `json:"path"`
	Bytes   int64  `json:"bytes"`
	Page    int64  `json:"page_bytes"`
	InStart *int64 `json:"resident_start_bytes"`
	InEnd   *int64 `json:"resident_end_bytes"`
	Stayed  *int64 `json:"stayed_bytes"` // in memory both at the start and at the end
	Failed  string `json:"failed,omitempty"`
	Mapped  bool   `json:"mapped"`      // as in FileMemory.Mapped
	Graphs  bool   `json:"graphs_seen"` // as in FileMemory.Graphs
	Cell    int64  `json:"cell_bytes"`
	// Groups cover the file without gaps. Empty: the file is not a model's, or its pages are unknown.
	Groups      []FileGroup  `json:"groups"`
	Tensors     []FileTensor `json:"tensors"` // in order of offset
	TensorsLeft int          `json:"tensors_left_out"`
}

// FileGroup is a part of a file: the adjacent tensors of a layer, one tensor of no layer, or a part without
// any known tensor.
type FileGroup struct {
	Layer  *int   `json:"layer"`
	Name   string `json:"name"` // of a tensor of no layer; empty with no layer: no tensor
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
	// The bytes of each cell from Offset that were in memory; the last cell ends with the group. nil:
	// unknown.
	Start  []int64 `json:"start"`
	End    []int64 `json:"end"`
	Stayed []int64 `json:"stayed"`
}

// FileTensor is a tensor in a file.
type FileTensor struct {
	Name    string              `json:"name"`
	Class   profile.MemoryClass `json:"class"`
	Type    string              `json:"type"`
	Layer   *int                `json:"layer"`
	Group   int                 `json:"group"` // the group in which it begins
	Offset  int64               `json:"offset"`
	Bytes   int64               `json:"bytes"`
	InStart *int64              `json:"resident_start_bytes"`
	InEnd   *int64              `json:"resident_end_bytes"`
	Stayed  *int64              `json:"stayed_bytes"`
}

// FaultMarks lists individual faults, as columns: the longest, where there are too many. Times are from the
// run's start.
type FaultMarks struct {
	Left    int64    `json:"left_out"`
	Strings []string `json:"strings"`
	// Of each fault, in order of its begin.
	Start  []int64  `json:"start_ns"`
	Dur    []int64  `json:"dur_ns"` // -1: unknown; Start is then when it completed
	PID    []int32  `json:"pid"`
	TID    []int32  `json:"tid"`
	Major  []int    `json:"major"` // 1: major
	Addr   []string `json:"address"`
	Class  []int    `json:"class"`  // Strings
	Tensor []int    `json:"tensor"` // Strings; the empty string: none
	Type   []int    `json:"type"`   // Strings
	File   []int    `json:"file"`   // Strings
	Expert []int32  `json:"expert"` // -1: none
	Read   []int64  `json:"read_bytes"`
	Step   []int64  `json:"step"` // 0: none
	Op     []int64  `json:"op"`   // 0: none
}
