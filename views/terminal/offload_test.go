// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
)

// A run that is split over the CPU, BLAS and a device.
func TestOffloadGolden(t *testing.T) {
	hostile := func(r *profiletest.Recorder) {
		r.Shape = func(s *trace.Shape) {
			for i := range s.Nodes {
				s.Nodes[i].Op += "\x1b[31m\u202e"
			}
		}
	}
	for _, c := range []struct {
		name   string
		o      Options
		change func(*profiletest.Recorder)
	}{
		{"usual", Options{File: "run.pinf", Width: 140, Unicode: true}, nil},
		{"80", Options{File: "run.pinf", Width: 80}, nil},
		{"hostile", Options{File: "run.pinf", Width: 120, Unicode: true}, hostile},
	} {
		t.Run(c.name, func(t *testing.T) {
			var rec, b bytes.Buffer
			if err := profiletest.Offload(&rec, 3, c.change); err != nil {
				t.Fatal(err)
			}
			r, err := trace.NewReader(&rec)
			if err != nil {
				t.Fatal(err)
			}
			s := stat.New(stat.Options{Top: 2})
			h, err := profile.Replay(r, s)
			if err != nil {
				t.Fatal(err)
			}
			if err := Stat(&b, s.Finish(h), c.o.full()); err != nil {
				t.Fatal(err)
			}
			golden(t, "offload-"+c.name+".txt", b.Bytes())
			checkPrintable(t, b.String(), c.o)
		})
	}
}
