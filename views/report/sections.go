// SPDX-License-Identifier: Apache-2.0

package report

import (
	"reflect"

	"github.com/profinfer/profinfer/profile"
)

// Section is what a section of the page's data holds as JSON.
type Section struct {
	Name string
	Type reflect.Type
	Null bool // it is null where the run has nothing of it
}

// Sections returns all sections of JSON. The page's types are generated from them: see internal/pagetypes. Sections of another
// form (columns of the timeline, what tokens chose) are described where they are made.
func Sections() []Section {
	return []Section{
		{Name: "stat", Type: reflect.TypeFor[Stats]()},
		{Name: "dag", Type: reflect.TypeFor[profile.DAGs]()},
		{Name: "time", Type: reflect.TypeFor[profile.Timeline]()},
		{Name: "series", Type: reflect.TypeFor[profile.Series]()},
		{Name: "roofline", Type: reflect.TypeFor[profile.Roofline]()},
		{Name: "slow", Type: reflect.TypeFor[profile.Slow]()},
		{Name: "experts", Type: reflect.TypeFor[profile.ExpertMap]()},
		{Name: "faults", Type: reflect.TypeFor[profile.FaultSeries](), Null: true},
		{Name: "faults/marks", Type: reflect.TypeFor[profile.FaultMarks]()},
		{Name: "offload", Type: reflect.TypeFor[profile.OffloadDetail]()},
	}
}

// Stats are the statistics in each grouping that the page shows, as `stat --json --by` gives them.
type Stats struct {
	Block  *profile.Stat `json:"block"`
	Layer  *profile.Stat `json:"layer"`
	Op     *profile.Stat `json:"op"`
	Thread *profile.Stat `json:"thread"`
	Weight *profile.Stat `json:"weight"`
}

// IndexType is the type of what the page reads first.
func IndexType() reflect.Type { return reflect.TypeFor[index]() }

//go:generate go run ../../internal/pagetypes ../../web/src/api/types.ts
