// SPDX-License-Identifier: Apache-2.0

package report

import (
	"reflect"

	"github.com/profinfer/profinfer/profile/dag"
	"github.com/profinfer/profinfer/profile/experts"
	"github.com/profinfer/profinfer/profile/memory"
	"github.com/profinfer/profinfer/profile/offload"
	"github.com/profinfer/profinfer/profile/series"
	"github.com/profinfer/profinfer/profile/slow"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/profile/timeline"
)

// Section describes a JSON section of the page's data.
type Section struct {
	Name string
	Type reflect.Type
	Null bool // it is null where the run has no such data
}

// Sections returns all JSON sections. The page's types are generated from them: see internal/pagetypes.
// Sections in other formats (columns of the timeline, tokens' choices) are described where they are made.
func Sections() []Section {
	return []Section{
		{Name: "stat", Type: reflect.TypeFor[Stats]()},
		{Name: "dag", Type: reflect.TypeFor[dag.List]()},
		{Name: "time", Type: reflect.TypeFor[timeline.Timeline]()},
		{Name: "series", Type: reflect.TypeFor[series.Series]()},
		{Name: "roofline", Type: reflect.TypeFor[series.Roofline]()},
		{Name: "slow", Type: reflect.TypeFor[slow.Slow]()},
		{Name: "experts", Type: reflect.TypeFor[experts.Map]()},
		{Name: "faults", Type: reflect.TypeFor[memory.Series](), Null: true},
		{Name: "faults/marks", Type: reflect.TypeFor[memory.FaultMarks]()},
		{Name: "offload", Type: reflect.TypeFor[offload.Detail]()},
	}
}

// Stats are the statistics in each grouping that the page shows, as in `stat --json --by`.
type Stats struct {
	Block  *summary.Stat `json:"block"`
	Layer  *summary.Stat `json:"layer"`
	Op     *summary.Stat `json:"op"`
	Thread *summary.Stat `json:"thread"`
	Weight *summary.Stat `json:"weight"`
}

// IndexType is the type of what the page reads first.
func IndexType() reflect.Type { return reflect.TypeFor[index]() }

//go:generate go run ../../internal/pagetypes ../../web/src/api/types.ts
