// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"reflect"
	"testing"
)

func TestFilterText(t *testing.T) {
	for s, f := range map[string]Filter{
		"":                    {},
		"op=MUL_MAT,ADD":      {Ops: []string{"MUL_MAT", "ADD"}},
		"phase=decode":        {Phases: []string{"decode"}},
		"tid=7":               {TIDs: []int{7}},
		"op=ADD tid=7,8":      {Ops: []string{"ADD"}, TIDs: []int{7, 8}},
		"phase=encode tid=12": {Phases: []string{"encode"}, TIDs: []int{12}},
		"op=ADD phase=prefill,unknown tid=1,2,3": {Ops: []string{"ADD"},
			Phases: []string{"prefill", "unknown"}, TIDs: []int{1, 2, 3}},
	} {
		m := Meta{Extra: map[string]string{}}
		m.SetFilter(f)
		if m.Extra["filter"] != s {
			t.Errorf("%+v is written as %q, not %q", f, m.Extra["filter"], s)
		}
		got := m.Filter()
		if !reflect.DeepEqual(got, f) {
			t.Errorf("%q is read as %+v", s, got)
		}
		if want := len(f.Ops)+len(f.TIDs) > 0; got.PartOfSteps() != want {
			t.Errorf("%q: a part of steps: %v", s, !want)
		}
	}
	if f := ParseFilter("\x00 tid=x,3 none op"); len(f.Ops) != 1 || len(f.TIDs) != 1 {
		t.Errorf("%+v", f)
	}
}

func TestElsewhere(t *testing.T) {
	for b, want := range map[string]bool{"": false, BackendCPU: false, "Vulkan": true} {
		if Elsewhere(b) != want {
			t.Errorf("%q: %v", b, !want)
		}
	}
}
