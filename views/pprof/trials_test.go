// SPDX-License-Identifier: Apache-2.0

package pprof

import (
	"bytes"
	"slices"
	"testing"

	model "github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

// Recordings that are cut, lacking, huge or hostile: there is a profile of each, and its times are the
// steps'.
func TestTrials(t *testing.T) {
	for _, trial := range profiletest.Trials() {
		t.Run(trial.Name, func(t *testing.T) {
			if trial.Large && testing.Short() {
				t.Skip("large")
			}
			var b bytes.Buffer
			if err := trial.Write(&b); err != nil {
				t.Fatal(err)
			}
			r, err := trace.NewReader(&b)
			if err != nil {
				t.Skip(err) // no recording: a file without anything in it
			}
			m := feed(t, newExporter(), func(s model.Sink) (*model.Header, error) {
				return model.Replay(r, s)
			})
			var want int64
			stat := m.stats[facts.ByBlock]
			for i := range stat.Phases {
				want += stat.Phases[i].TracedDur
			}
			// what other processes computed, in which each operator has its own time
			for i := range stat.Remote {
				for j := range stat.Remote[i].Rows {
					want += stat.Remote[i].Rows[j].Dur
				}
			}
			got := m.total(0)
			for _, s := range m.Sample {
				if slices.Contains(names(s), frameOutside) {
					got -= s.Value[0]
				}
				if slices.Min(s.Value) < 0 {
					t.Errorf("%v has values %v", names(s), s.Value)
				}
			}
			if got != want {
				t.Errorf("all take %d ns, the steps %d", got, want)
			}
		})
	}
}
