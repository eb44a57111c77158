// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"bytes"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

// The counter of tokens a second goes by when a step's results were there, and has no value where that was
// not seen.
func TestTokenRate(t *testing.T) {
	for _, waits := range []bool{true, false} {
		var in, out bytes.Buffer
		rec := profiletest.Remote{Steps: 3}
		if !waits {
			rec.Marks = func(_ int, ms []trace.Mark) []trace.Mark {
				return slices.DeleteFunc(ms, func(m trace.Mark) bool {
					return m.Kind == trace.MarkSyncBegin || m.Kind == trace.MarkSyncEnd
				})
			}
		}
		if err := rec.Record(&in); err != nil {
			t.Fatal(err)
		}
		r, err := trace.NewReader(&in)
		if err != nil {
			t.Fatal(err)
		}
		if err := Export(&out, func(s profile.Sink) (*profile.Header, error) {
			return profile.Replay(r, s)
		}); err != nil {
			t.Fatal(err)
		}
		c := check(t, out.Bytes())
		var got []float64
		for id, v := range c.counters {
			if c.tracks[id].name == "decode t/s" {
				got = v
			}
		}
		// the call takes 40 µs of the 500 until the result
		if waits && !slices.Equal(got, []float64{2000, 2000, 2000, 0}) || !waits && len(got) != 0 {
			t.Errorf("waits %v: %v tokens a second", waits, got)
		}
	}
}
