// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"testing"

	"github.com/profinfer/profinfer/profile"
)

// Graphs of a step are kept until the step ends, and no longer.
func TestGraphsAreForgotten(t *testing.T) {
	b := New(Options{})
	if err := b.Graph(&profile.Graph{PID: 1, Step: 1, Backend: "BLAS", Start: 1300, Dur: 200}); err != nil {
		t.Fatal(err)
	}
	if _, n := b.open.Kept(); n != 1 {
		t.Fatalf("graphs of %d steps are kept, want 1", n)
	}
	if err := b.Step(&profile.Step{ID: 1, PID: 1, Start: 1000, Dur: 1000}); err != nil {
		t.Fatal(err)
	}
	if _, n := b.open.Kept(); n != 0 {
		t.Errorf("graphs of %d steps are still kept", n)
	}
}
