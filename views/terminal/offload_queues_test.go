// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/offload"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// Backends of which one's queues were seen, one's wait only, and one's neither.
func TestOffloadQueuesGolden(t *testing.T) {
	ns := func(v float64) *float64 { return &v }
	stat := func(queues bool) *summary.Stat {
		gpu := offload.Backend{Backend: "GPU\x1b[31m", Graphs: 2, Nodes: 50, Weights: 1 << 20, Host: 2e5,
			Layers: &offload.LayerSet{First: 2, Last: 9, Count: 8},
			Ops: []offload.OpCount{{Op: "MUL_MAT",
				PerStep: 16}}, Spans: 20, Device: ns(9e6), Waited: ns(7e6), Idle: ns(3e7)}
		npu := offload.Backend{Backend: "NPU", Graphs: 1, Nodes: 3, Host: 1e5, Spans: 10, Device: ns(4e6),
			Waited: ns(3e6)}
		if queues {
			gpu.QueueSpans, gpu.Busy, gpu.Submissions, gpu.Submitting = 20, ns(8.5e6), ns(16), ns(4e4)
		}
		b := stat.New(stat.Options{})
		s := b.Finish(&profile.Header{Meta: trace.Meta{Command: []string{"llama-bench"}}, End: &trace.End{}})
		s.Offload = []offload.Offload{{Phase: profile.Decode, Steps: 10, Backends: []offload.Backend{
			{Backend: "CPU", Graphs: 1, Nodes: 57, Host: 3e7,
				Ops: []offload.OpCount{{Op: "MUL_MAT", PerStep: 21}}}, gpu, npu}}}
		return s
	}
	for _, c := range []struct {
		name   string
		queues bool
		o      Options
	}{{"queues", true, Options{File: "run.pinf", Width: 150, Unicode: true}}, {"queues-60", true,
		Options{File: "run.pinf", Width: 60}},
		{"waits", false, Options{File: "run.pinf", Width: 150, Unicode: true}}} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := Stat(&b, stat(c.queues), c.o.full()); err != nil {
				t.Fatal(err)
			}
			golden(t, "offload-"+c.name+".txt", b.Bytes())
			checkPrintable(t, b.String(), c.o)
		})
	}
}
