// SPDX-License-Identifier: Apache-2.0

package memory

import "github.com/profinfer/profinfer/profile"

// FaultSeriesSchema is the version of FaultSeries' JSON form. Fields may be added without raising it.
const FaultSeriesSchema = 1

// Limits of a FaultSeries. What lies beyond is counted, never dropped in silence.
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

// Series is what pictures of page faults need and a FaultStat does not have. Times are ns, sizes bytes; nil:
// not known. All steps and operators are in it, those that were not wholly seen too.
type Series struct {
	SchemaVersion int          `json:"schema_version"`
	Timed         bool         `json:"timed"` // durations are known
	Phases        []FaultSteps `json:"phases"`
	// Names are FaultStat.Names by layer, without its limit: the longest wait first.
	Names     []FaultRow        `json:"names"`
	NamesLeft int               `json:"names_left_out"`
	Experts   []FaultExperts    `json:"experts"`
	Operators []DelayedOperator `json:"operators"` // that had faults, the most delayed first
	OpsLeft   int               `json:"operators_left_out"`
	Files     []FileMap         `json:"files"`
	Marks     FaultMarks        `json:"-"`
}

// FaultSteps are a phase's steps in order of time.
type FaultSteps struct {
	Phase string       `json:"phase"`
	Every int64        `json:"steps_per_point"` // how many steps a point stands for at most
	Steps []FaultPoint `json:"steps"`
}

// FaultPoint is a step, or some that follow each other: their sums.
type FaultPoint struct {
	Step int64 `json:"step"` // the first
	N    int64 `json:"n"`
	// the step with the longest time in faults; where that is not known, with most major ones
	Worst int64  `json:"worst"`
	PID   int32  `json:"pid"`
	Start int64  `json:"start_ns"` // boottime
	Dur   int64  `json:"dur_ns"`
	Major int64  `json:"major"`
	Wait  *int64 `json:"wait_ns"` // thread time in major faults and in others that read
	Wall  *int64 `json:"wall_ns"` // in which at least one thread was in one
	Read  int64  `json:"read_bytes"`

	worst [2]int64 // of the step Worst: time, major faults
}

// FaultRow sums up faults that hit tensors of one name, by layer. What is in no layer is in the sums only.
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

// FaultExperts are the experts of a process's layers: faults on them, and what of their weights was in memory
// at the end.
type FaultExperts struct {
	PID     int32              `json:"pid"`
	Experts int                `json:"experts"` // the most that a layer has
	Layers  []FaultExpertLayer `json:"layers"`
	Left    int                `json:"layers_left_out"`
}

// FaultExpertLayer has a value for each expert, by its number; all of its weights together.
type FaultExpertLayer struct {
	Layer int     `json:"layer"` // -1: none is told
	Bytes int64   `json:"bytes"` // of one expert's weights
	Major []int64 `json:"major"`
	Wait  []int64 `json:"wait_ns"` // nil: not known
	Read  []int64 `json:"read_bytes"`
	InEnd []int64 `json:"in_end_bytes"` // nil: not known
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
	Share *float64 `json:"share"` // Delay in Dur
	Read  int64    `json:"read_bytes"`
}

// FileMap tells which parts of a file were in memory: in cells of equal size over the file, and by tensor.
type FileMap struct {
	PID     int32  `json:"pid"`
	Path    string `json:"path"`
	Bytes   int64  `json:"bytes"`
	Page    int64  `json:"page_bytes"`
	InStart *int64 `json:"in_start_bytes"`
	InEnd   *int64 `json:"in_end_bytes"`
	Stayed  *int64 `json:"stayed_bytes"` // in memory at the start and at the end
	Failed  string `json:"failed,omitempty"`
	Mapped  bool   `json:"mapped"`      // as FileMemory.Mapped
	Graphs  bool   `json:"graphs_seen"` // as FileMemory.Graphs
	Cell    int64  `json:"cell_bytes"`
	// Groups follow each other from the file's begin to its end. None: the file is no model's, or its pages
	// are not known.
	Groups      []FileGroup  `json:"groups"`
	Tensors     []FileTensor `json:"tensors"` // in order of offset
	TensorsLeft int          `json:"tensors_left_out"`
}

// FileGroup is a part of a file: the tensors of a layer that lie together, one that is in no layer, or a part
// where none is known to lie.
type FileGroup struct {
	Layer  *int   `json:"layer"`
	Name   string `json:"name"` // of the tensor that is in no layer; empty with no layer: no tensor
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
	// Of each cell from Offset on the bytes that were in memory; the last cell ends with the group. nil: not
	// known.
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
	Group   int                 `json:"group"` // in which it begins
	Offset  int64               `json:"offset"`
	Bytes   int64               `json:"bytes"`
	InStart *int64              `json:"in_start_bytes"`
	InEnd   *int64              `json:"in_end_bytes"`
	Stayed  *int64              `json:"stayed_bytes"`
}

// FaultMarks are faults one by one, as columns: the longest, where there are too many. Times count from the
// run's start.
type FaultMarks struct {
	Left    int64    `json:"left_out"`
	Strings []string `json:"strings"`
	// Of each fault, in order of its begin.
	Start  []int64  `json:"start_ns"`
	Dur    []int64  `json:"dur_ns"` // -1: not known; Start is then when it was done
	PID    []int32  `json:"pid"`
	TID    []int32  `json:"tid"`
	Major  []int    `json:"major"` // 1: major
	Addr   []string `json:"address"`
	Class  []int    `json:"class"`  // Strings
	Tensor []int    `json:"tensor"` // Strings; the empty one: none
	Type   []int    `json:"type"`   // Strings
	File   []int    `json:"file"`   // Strings
	Expert []int32  `json:"expert"` // -1: none
	Read   []int64  `json:"read_bytes"`
	Step   []int64  `json:"step"` // 0: none
	Op     []int64  `json:"op"`   // 0: none
}
