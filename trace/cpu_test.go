// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"path/filepath"
	"reflect"
	"testing"
)

func TestCPU(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.pinf")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	steal, khz := int64(70e6), int64(2_400_000)
	want := CPUState{Time: 5e9, CPUs: []CPUTime{{CPU: 0, Steal: &steal}, {CPU: 3, KHz: &khz}}}
	for _, err := range []error{w.Meta(Meta{Start: 1}), w.CPU(want), w.Drain(5e9), w.Close(End{Time: 6e9})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	for {
		b, err := r.Next()
		if err != nil {
			break
		}
		if b.CPU != nil {
			n++
			if !reflect.DeepEqual(*b.CPU, want) {
				t.Errorf("read %+v", *b.CPU)
			}
		}
	}
	if p := r.Problems(); n != 1 || len(p) != 0 {
		t.Errorf("%d blocks, problems %q", n, p)
	}
}
