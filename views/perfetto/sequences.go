// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"fmt"

	"github.com/profinfer/profinfer/profile"
)

// maxRequests bounds the requests that are drawn; beyond it, only every second, fourth ... is.
const maxRequests = 1 << 14

type slotKey struct {
	pid int32
	ctx uint64
	seq int32
}

// drawRequests draws each sequence's requests on its own track, if there is more than one: the prompt until
// the first token, then the answer.
func (e *exporter) drawRequests(h *profile.Header) {
	s := e.requests.Finish(h)
	if s.Seen < 2 {
		return
	}
	slots := map[slotKey]*track{}
	for i := range s.Requests {
		r := &s.Requests[i]
		key := slotKey{r.PID, r.Ctx, r.Seq}
		k := slots[key]
		if k == nil {
			parent := e.t.process(r.PID)
			k = e.t.make()
			slots[key] = k
			e.t.p.descriptor(message(nil).uint(descUUID, k.uuid).str(descName,
				fmt.Sprintf("sequence %d", r.Seq)).uint(descParent, parent.uuid))
		}
		name := fmt.Sprintf("request %d", r.ID)
		if r.Warmup {
			name = "warm-up"
		}
		n := e.t.notes()
		n.text("context", fmt.Sprintf("0x%x", r.Ctx))
		noted := func(name string, v *int64) {
			if v != nil {
				n.int(name, *v)
			}
		}
		noted("prompt", r.Prompt)
		noted("cached", r.Cached)
		noted("generated", r.Generated)
		if r.AtLeast {
			n.text("at_least", "there can be more tokens")
		}
		noted("ttft_ns", r.TTFT)
		if r.TPOT != nil {
			n.float("tpot_ns", *r.TPOT)
		}
		noted("drafted", r.Drafted)
		noted("accepted", r.Accepted)
		e.t.begin(k, r.Start, r, "request", name, n)
		if r.TTFT != nil {
			first := r.Start + *r.TTFT
			e.t.begin(k, r.Start, nil, "request", "prompt", nil)
			e.t.end(k, first, nil)
			if r.End > first {
				e.t.begin(k, first, nil, "request", "answer", nil)
				e.t.end(k, r.End, nil)
			}
		}
		e.t.end(k, r.End, nil)
	}
}
