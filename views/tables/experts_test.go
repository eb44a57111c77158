// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

// chosen writes a trace in which three tokens, then one, choose 2 of 16 experts in two layers; of the first
// layer's choice of the prompt the last token was lost, and the second holds places of a cache.
func chosen(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	model := profiletest.MoE
	model.Used = 2
	err := profiletest.Record(&buf, func(r *profiletest.Recorder) {
		r.Shape = func(s *trace.Shape) {
			for i := range s.Nodes {
				s.Nodes[i].Name = strings.Replace(s.Nodes[i].Name, "ffn_moe_topk-1", "ffn_moe_slots-1", 1)
			}
		}
		first := true
		r.Experts = func(x *trace.Experts) {
			if first {
				x.Chosen = x.Chosen[:4]
			}
			first = false
		}
	}, func(_ *profiletest.Recorder, p *profiletest.Player) error {
		return p.Play(profiletest.Run{Model: model, PID: 10, Threads: 2, Prefill: 3, Decode: 1, Start: 1000,
			Gap: 500})
	})
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestExpertRows(t *testing.T) {
	got := string(export(t, chosen(t), "experts", "csv"))
	want := `step,graph,shape,layer,node,token,rank,expert,slot
1,1,1,0,25,0,0,0,
1,1,1,0,25,0,1,1,
1,1,1,0,25,1,0,1,
1,1,1,0,25,1,1,2,
1,1,1,0,25,2,0,,
1,1,1,0,25,2,1,,
1,1,1,1,55,0,0,,1
1,1,1,1,55,0,1,,2
1,1,1,1,55,1,0,,2
1,1,1,1,55,1,1,,3
1,1,1,1,55,2,0,,3
1,1,1,1,55,2,1,,4
2,2,2,0,25,0,0,3,
2,2,2,0,25,0,1,4,
2,2,2,1,55,0,0,,4
2,2,2,1,55,0,1,,5
`
	if got = strings.ReplaceAll(got, "\r\n", "\n"); got != want {
		t.Errorf("got\n%s", got)
	}
}
