// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Words in the file on which readers base decisions. Each is declared only here.

// Role is the meaning of a hit at a site.
type Role string

const (
	RoleStepBegin Role = "step begin" // a call that computes a batch begins
	RoleStepEnd   Role = "step end"   // that call returns
	// the graph scheduler begins to run a graph (all of its splits)
	RoleSchedBegin Role = "scheduler begin"
	RoleSchedEnd   Role = "scheduler end"        // the scheduler is done
	RoleGraphBegin Role = "graph begin"          // one backend begins to run one graph
	RoleGraphEnd   Role = "graph end"            // that graph is done
	RoleOpBegin    Role = "operator begin"       // a thread begins an operator
	RoleOpFused    Role = "fused operator begin" // a thread begins a fused operator: two nodes at once
	RoleOpEnd      Role = "operator end"         // a thread arrives at the barrier that ends an operator
	// data begin to be copied into, out of or between backends' memory
	RoleCopyBegin Role = "copy begin"
	// that call returns: an asynchronous copy may still be in progress
	RoleCopyEnd Role = "copy end"
	// a thread begins to wait until a backend has finished all its work
	RoleSyncBegin   Role = "sync begin"
	RoleSyncEnd     Role = "sync end"     // the wait is over
	RoleSubmitBegin Role = "submit begin" // submission of work to a device queue begins
	RoleSubmitEnd   Role = "submit end"   // that call returns
	RoleWaitBegin   Role = "wait begin"   // a thread begins to wait for work in a queue
	RoleWaitEnd     Role = "wait end"     // that call returns
	RoleDone        Role = "done"         // handles of submissions are known to be done
)

// OfOperators reports whether it is a role of operators, not of steps, graphs or devices.
func (r Role) OfOperators() bool { return r == RoleOpBegin || r == RoleOpFused || r == RoleOpEnd }

// BackendCPU is the name of the backend whose operators are seen: threads of the process compute them. Others
// are named by the engine.
const BackendCPU = "CPU"

// Elsewhere reports whether a backend is known not to be the CPU. Empty: it is unknown.
func Elsewhere(backend string) bool { return backend != BackendCPU && backend != "" }

// Covers is what is done once a wait has returned 0; empty: unknown.
type Covers string

const (
	// what was submitted with the handle, and what was submitted to its queue before
	CoversToken  Covers = "token"
	CoversQueue  Covers = "queue"  // everything in a queue
	CoversDevice Covers = "device" // everything on a device
)

// Filter is which operators were requested. The zero value: all.
type Filter struct {
	Ops    []string // with these names
	Phases []string // in steps of these phases: prefill, decode, encode, unknown
	TIDs   []int    // on these threads
}

const extraFilter = "filter" // of Meta.Extra

// String has the format of record's flags: "op=MUL_MAT,ADD phase=decode tid=42".
func (f Filter) String() string {
	var parts []string
	if len(f.Ops) > 0 {
		parts = append(parts, "op="+strings.Join(f.Ops, ","))
	}
	if len(f.Phases) > 0 {
		parts = append(parts, "phase="+strings.Join(f.Phases, ","))
	}
	if len(f.TIDs) > 0 {
		parts = append(parts, "tid="+strings.Trim(strings.ReplaceAll(fmt.Sprint(f.TIDs), " ", ","), "[]"))
	}
	return strings.Join(parts, " ")
}

// ParseFilter parses the result of String, and ignores what it does not know.
func ParseFilter(s string) (f Filter) {
	for part := range strings.SplitSeq(s, " ") {
		name, list, _ := strings.Cut(part, "=")
		switch name {
		case "op":
			f.Ops = strings.Split(list, ",")
		case "phase":
			f.Phases = strings.Split(list, ",")
		case "tid":
			for tid := range strings.SplitSeq(list, ",") {
				if n, err := strconv.Atoi(tid); err == nil {
					f.TIDs = append(f.TIDs, n)
				}
			}
		}
	}
	return f
}

// PartOfSteps reports whether only some of a step's operators were requested.
func (f *Filter) PartOfSteps() bool { return len(f.Ops) > 0 || len(f.TIDs) > 0 }

// Filter returns which operators were requested.
func (m *Meta) Filter() Filter { return ParseFilter(m.FilterText()) }

// FilterText is the filter in the file's format.
func (m *Meta) FilterText() string { return m.Extra[extraFilter] }

// SetFilter stores the filter. Extra must not be nil.
func (m *Meta) SetFilter(f Filter) {
	if s := f.String(); s != "" {
		m.Extra[extraFilter] = s
	}
}

// Levels of a recording: what was probed.
const (
	LevelStep  = "step"
	LevelGraph = "graph"
	LevelOp    = "op"
)

// Reasons of losses, and of operators that were not recorded.
const (
	WhyLost      = "lost"      // records found no room, or something failed
	WhyThrottled = "throttled" // to keep a budget
	WhyLearning  = "learning"
	WhyFiltered  = "filtered"  // it was not requested, or exceeds what is kept
	WhyCut       = "cut"       // its begin or end is not in the recording
	WhyUnmatched = "unmatched" // it matches nothing known
)

// What was lost.
const (
	LostHits        = "hits"
	LostMarks       = "marks"
	LostDefinitions = "definitions"
	LostSched       = "sched"
	LostReads       = "reads" // of the process's memory
	LostFaults      = "faults"
	LostExperts     = "experts"
	LostGraphs      = "graphs"
	LostProcesses   = "processes"
	LostProbes      = "probes"
	LostOperators   = "operators"
	LostMappings    = "mappings"
	LostOthers      = "others" // switches of other processes
	LostAll         = "all"
)

// Lost reports whether it is a loss, and of one of these or, with none given, of anything.
func (l *Loss) Lost(what ...string) bool {
	return l.Why == WhyLost && (l.What == LostAll || slices.Contains(what, l.What))
}

// OfOthers reports a loss of switches of other processes, of which only a limited number is kept: nothing of
// the engine is missing.
func (l *Loss) OfOthers() bool { return l.Why == WhyFiltered && l.What == LostOthers }
