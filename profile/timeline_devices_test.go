// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/timeline"
)

// Copies and devices' spans of a split run, as the page reads them.
func TestTimelineDevices(t *testing.T) {
	b := timeline.New(timeline.Options{})
	h, err := profile.Replay(offloadRun(t, 2, nil), profile.Tee(b))
	if err != nil {
		t.Fatal(err)
	}
	tl, err := b.Finish(h)
	if err != nil {
		t.Fatal(err)
	}
	c := (&blocks{t, tl.Copies}).block(12)
	text := func(i int64) string { return tl.Strings[i] }
	var got []string
	var start int64
	for i := range c[0] {
		start += c[0][i]
		got = append(got, fmt.Sprintf("%d: %d+%d step %d split %d kind %d %s %s %s>%s %d B %d",
			tl.Threads[c[2][i]].TID, start, c[1][i], c[3][i], c[4][i], c[5][i],
			text(c[6][i]), text(c[7][i]), text(c[8][i]), text(c[9][i]), c[10][i], c[11][i]))
	}
	// The prefill step takes 255 µs, then 5 µs pass; a decode step 246.
	want := []string{
		"500: 500+-1 step 1 split 0 kind 1 inp_tokens i32 host>CPU 32 B 0",
		"500: 144000+4000 step 1 split 5 kind 0 GPU0#l_out-0#0 f32 CPU>GPU 2048 B 0",
		"500: 253000+-1 step 1 split -1 kind 2 result_output f32 GPU>host 4096 B 0",
		"500: 260500+-1 step 2 split 0 kind 1 inp_tokens i32 host>CPU 4 B 0",
		"500: 395000+4000 step 2 split 1 kind 0 GPU0#l_out-0#0 f32 CPU>GPU 256 B 0",
		"500: 504000+-1 step 2 split -1 kind 2 result_output f32 GPU>host 4096 B 0",
	}
	if len(got) != 9 || !slices.Equal(got[:6], want) {
		t.Errorf("copies\n%q\nwant\n%q", got, want)
	}
	d := (&blocks{t, tl.Devices}).block(7)
	got = nil
	var graph int64
	for i := range d[0] {
		graph += d[0][i]
		got = append(got, fmt.Sprintf("graph %d: %d after its call, waited %d, %d before, thread %d", graph,
			d[1][i], d[2][i], d[3][i], tl.Threads[d[4][i]].TID))
		if d[5][i] != -1 || d[6][i] != -1 {
			t.Errorf("no queue was seen: %d, %d", d[5][i], d[6][i])
		}
	}
	if want := []string{"graph 6: 90000 after its call, waited 80000, 0 before, thread 500",
		"graph 8: 90000 after its call, waited 80000, 0 before, thread 500",
		"graph 10: 90000 after its call, waited 80000, 0 before, thread 500"}; !slices.Equal(got, want) {
		t.Errorf("devices\n%q\nwant\n%q", got, want)
	}
}
