// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// queueSeen writes down what devices did, times from the step's begin.
type queueSeen struct {
	seen
	graphs, subs []string
}

func (s *queueSeen) Device(d *profile.DeviceSpan) error {
	at := int64(1000)
	for at+1000 <= d.Graph.Start {
		at += 1000
	}
	if d.Queue == nil {
		s.graphs = append(s.graphs, fmt.Sprintf("%d: %d to %d by %s, before %d", d.Graph.ID, d.Graph.Start-at,
			d.Done-at, d.By, d.Before))
		return nil
	}
	shared := ""
	if d.Shared {
		shared = ", shared"
	}
	s.graphs = append(s.graphs, fmt.Sprintf("%d: q%d %d to %d busy %d added %d by %s, %d in %d, waited %d, before %d%s", d.Graph.ID, d.Queue.ID, d.Begin-at, d.Done-at,
		d.Busy, d.Added, d.By, d.Submissions, d.Submit, d.Waited, d.Before, shared))
	return nil
}

func (s *queueSeen) Submission(x *profile.Submission) error {
	graph := int64(0)
	if x.Graph != nil {
		graph = x.Graph.ID
	}
	done := "open"
	if x.Done != 0 {
		done = fmt.Sprintf("%d to %d %s", x.Begin-1000, x.Done-1000, x.By)
	}
	s.subs = append(s.subs, fmt.Sprintf("q%d/%d %s graph %d step %d: %d+%d %s", x.Queue.ID, x.Queue.Device,
		x.Queue.Backend, graph, x.Step, x.Start-1000, x.Call, done))
	return nil
}

// submission, fence, idle and so on are calls from one time to another.
func submission(at, end int64, queue, token uint64, work int32) []trace.Mark {
	return []trace.Mark{{Time: at, Kind: trace.MarkSubmitBegin, Site: offSubmit, Ctx: queue, Graph: token,
		UID: 0x50, NNodes: work},
		{Time: end, Kind: trace.MarkSubmitEnd, Site: offSubmitEnd}}
}

func fence(at, end int64, token uint64, result int32) []trace.Mark {
	return []trace.Mark{{Time: at, Kind: trace.MarkWaitBegin, Site: offFence, Graph: token, UID: 0x50,
		NNodes: 1},
		{Time: end, Kind: trace.MarkWaitEnd, Site: offFenceEnd, Type: result}}
}

func idle(at, end int64, queue uint64) []trace.Mark {
	return []trace.Mark{{Time: at, Kind: trace.MarkWaitBegin, Site: offIdle, Ctx: queue, UID: 0x50,
		NNodes: -1}, {Time: end, Kind: trace.MarkWaitEnd, Site: offIdleEnd}}
}

func reset(at int64, token uint64) []trace.Mark {
	return []trace.Mark{{Time: at, Kind: trace.MarkDone, Site: offReset, Graph: token, UID: 0x50, NNodes: 1}}
}

func graph(at, end int64) []trace.Mark {
	return []trace.Mark{{Time: at, Kind: trace.MarkGraphBegin, Site: offGPUBegin, Ctx: 9, Shape: 2,
		NNodes: 1}, {Time: end, Kind: trace.MarkGraphEnd, Site: offGPUEnd}}
}

func by(tid int32, ms []trace.Mark) []trace.Mark {
	for i := range ms {
		ms[i].TID = tid
	}
	return ms
}

// The step's graph on the device lasts from 150 to 160; the backend is waited for from 190 to 400.
func TestQueues(t *testing.T) {
	const q, q2, f, f2 = 0x60, 0x61, 0x70, 0x71
	for _, c := range []struct {
		name   string
		marks  [][]trace.Mark
		graphs string
		subs   string
	}{
		{"one submission with a fence", [][]trace.Mark{submission(152, 155, q, f, 1), fence(200, 350, f, 0)},
			"2: q1 152 to 350 busy 198 added 198 by vkWaitForFences, 1 in 3, waited 160, before 0",
			"q1/1 GPU graph 2 step 1: 152+3 152 to 350 vkWaitForFences"},
		{"a fence that is polled is reset", [][]trace.Mark{submission(152, 155, q, f, 1), reset(340, f)},
			"2: q1 152 to 340 busy 188 added 188 by vkResetFences, 1 in 3, waited 150, before 0",
			"q1/1 GPU graph 2 step 1: 152+3 152 to 340 vkResetFences"},
		{"a fence covers what was submitted before it, and nothing after it",
			[][]trace.Mark{submission(151, 152, q, 0, 1), submission(153, 154, q, f, 2),
				submission(155, 157, q, 0, 1),
				submission(192, 193, q, f2, 0), fence(200, 250, f, 0), fence(251, 300, f2, 0)},
			"2: q1 151 to 300 busy 149 added 149 by vkWaitForFences, 3 in 4, waited 110, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 250 vkWaitForFences, q1/1 GPU graph 2 step 1: 153+1 153 to 250 vkWaitForFences, " +
				"q1/1 GPU graph 2 step 1: 155+2 250 to 300 vkWaitForFences, q1/1 GPU graph 0 step 0: 192+1 250 to 300 vkWaitForFences"},
		{"the device had nothing of it for a while",
			[][]trace.Mark{submission(151, 152, q, f, 1), fence(153, 154, f, 0),
				submission(157, 158, q, f, 1), fence(195, 300, f, 0)},
			"2: q1 151 to 300 busy 146 added 146 by vkWaitForFences, 2 in 2, waited 111, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 154 vkWaitForFences, q1/1 GPU graph 2 step 1: 157+1 157 to 300 vkWaitForFences"},
		{"waited for within the call", [][]trace.Mark{submission(151, 152, q, f, 1), fence(153, 158, f, 0)},
			"2: q1 151 to 158 busy 7 added 7 by vkWaitForFences, 1 in 1, waited 5, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 158 vkWaitForFences"},
		{"a wait that timed out says nothing",
			[][]trace.Mark{submission(151, 152, q, f, 1), fence(195, 210, f, 2), fence(211, 300, f, 0)},
			"2: q1 151 to 300 busy 149 added 149 by vkWaitForFences, 1 in 1, waited 110, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 300 vkWaitForFences"},
		{"another device's fence of the same number", [][]trace.Mark{submission(151, 152, q, f, 1),
			{{Time: 200, Kind: trace.MarkDone, Site: offReset, Graph: f, UID: 0x51, NNodes: 1}}, reset(300,
				f)},
			"2: q1 151 to 300 busy 149 added 149 by vkResetFences, 1 in 1, waited 110, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 300 vkResetFences"},
		{"no wait of the queue is seen: the backend's own", [][]trace.Mark{submission(151, 152, q, 0, 1)},
			"2: q1 151 to 400 busy 249 added 249 by synchronize, 1 in 1, waited 210, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 400 synchronize"},
		{"the backend's wait covers its graphs, not what another thread does on the queue meanwhile",
			[][]trace.Mark{submission(151, 152, q, 0, 1), by(8, submission(195, 196, q, 0, 1))},
			"2: q1 151 to 400 busy 249 added 249 by synchronize, 1 in 1, waited 210, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 400 synchronize, q1/1 GPU graph 0 step 0: 195+1 open"},
		{"the queue is waited for: what came after the wait's begin is not covered",
			[][]trace.Mark{submission(151, 152, q, 0, 1), idle(200, 300, q),
				by(8, submission(250, 251, q, 0, 1))},
			"2: q1 151 to 300 busy 149 added 149 by vkQueueWaitIdle, 1 in 1, waited 110, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 300 vkQueueWaitIdle, q1/1 GPU graph 0 step 0: 250+1 open"},
		{"another queue is waited for", [][]trace.Mark{submission(151, 152, q, 0, 1), submission(155, 156, q2,
			0, 1), idle(200, 300, q2), idle(301, 350, q)},
			"2: q2 151 to 350 busy 199 added 199 by vkQueueWaitIdle, 2 in 2, waited 160, before 0",
			"q2/1 GPU graph 2 step 1: 155+1 155 to 300 vkQueueWaitIdle, q1/1 GPU graph 2 step 1: 151+1 151 to 350 vkQueueWaitIdle"},
		{"the device is waited for", [][]trace.Mark{submission(151, 152, q, 0, 1),
			{{Time: 200, Kind: trace.MarkWaitBegin, Site: offDevice, UID: 0, NNodes: -1},
				{Time: 210, Kind: trace.MarkWaitEnd, Site: offDeviceEnd}},
			{{Time: 220, Kind: trace.MarkWaitBegin, Site: offDevice, UID: 0x50, NNodes: -1},
				{Time: 300, Kind: trace.MarkWaitEnd, Site: offDeviceEnd}}},
			"2: q1 151 to 300 busy 149 added 149 by cuCtxSynchronize, 1 in 1, waited 110, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 300 cuCtxSynchronize"},
		{"a read that does not wait, and one that does", [][]trace.Mark{submission(151, 152, q, 0, 1),
			{{Time: 200, Kind: trace.MarkWaitBegin, Site: offRead, Ctx: q, UID: 0x50, NNodes: 0},
				{Time: 210, Kind: trace.MarkWaitEnd, Site: offReadEnd}},
			{{Time: 220, Kind: trace.MarkWaitBegin, Site: offRead, Ctx: q, UID: 0x50, NNodes: 1},
				{Time: 300, Kind: trace.MarkWaitEnd, Site: offReadEnd}}},
			"2: q1 151 to 300 busy 149 added 149 by clEnqueueReadBuffer, 1 in 1, waited 110, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 300 clEnqueueReadBuffer"},
		{"two graphs under way, a wait each",
			[][]trace.Mark{submission(151, 152, q, f, 1), graph(161, 167), submission(162, 163, q, f2, 1),
				fence(200, 250, f, 0), fence(260, 350, f2, 0)},
			"2: q1 151 to 250 busy 99 added 99 by vkWaitForFences, 1 in 1, waited 60, before 0 | 3: q1 250 to 350 busy 100 added 100 by vkWaitForFences, 1 in 1, waited 100, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 250 vkWaitForFences, q1/1 GPU graph 3 step 1: 162+1 250 to 350 vkWaitForFences"},
		{"two graphs, one wait", [][]trace.Mark{submission(151, 152, q, 0, 1), graph(161, 167),
			submission(162, 163, q, f, 1), fence(200, 350, f, 0)},
			"2: q1 151 to 350 busy 199 added 199 by vkWaitForFences, 1 in 1, waited 0, before 0, shared | 3: q1 162 to 350 busy 188 added 0 by vkWaitForFences, 1 in 1, waited 160, before 1",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 350 vkWaitForFences, q1/1 GPU graph 3 step 1: 162+1 162 to 350 vkWaitForFences"},
		{"two graphs, the second without a wait",
			[][]trace.Mark{submission(151, 152, q, f, 1), graph(161, 167), submission(162, 163, q, 0, 1),
				fence(168, 169, f, 0)},
			"2: q1 151 to 169 busy 18 added 18 by vkWaitForFences, 1 in 1, waited 1, before 0 | 3: q1 169 to 400 busy 231 added 231 by synchronize, 1 in 1, waited 210, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 169 vkWaitForFences, q1/1 GPU graph 3 step 1: 162+1 169 to 400 synchronize"},
		{"a copy before the graph keeps the queue",
			[][]trace.Mark{submission(145, 146, q, f, 1), submission(151, 152, q, f2, 1),
				fence(200, 250, f, 0), fence(260, 350, f2, 0)},
			"2: q1 250 to 350 busy 100 added 100 by vkWaitForFences, 1 in 1, waited 100, before 0",
			"q1/1 GPU graph 0 step 1: 145+1 145 to 250 vkWaitForFences, q1/1 GPU graph 2 step 1: 151+1 250 to 350 vkWaitForFences"},
		{"a submission that failed", [][]trace.Mark{submission(151, 152, q, f, 1),
			{{Time: 153, Kind: trace.MarkSubmitBegin, Site: offSubmit, Ctx: q, Graph: f2, UID: 0x50,
				NNodes: 1}, {Time: 154, Kind: trace.MarkSubmitEnd, Site: offSubmitEnd, Type: -4}},
			fence(200, 350, f, 0)},
			"2: q1 151 to 350 busy 199 added 199 by vkWaitForFences, 1 in 2, waited 160, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 350 vkWaitForFences"},
		{"only a handle, no work", [][]trace.Mark{submission(151, 152, q, f, 0), fence(200, 350, f, 0)},
			"2: 150 to 350 by vkWaitForFences, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 350 vkWaitForFences"},
		{"several handles at once, of which one may be enough", [][]trace.Mark{submission(151, 152, q, f, 1),
			{{Time: 200, Kind: trace.MarkWaitBegin, Site: offFence, Graph: f, UID: 0x50, NNodes: 2},
				{Time: 210, Kind: trace.MarkWaitEnd, Site: offFenceEnd}}, reset(300, f)},
			"2: q1 151 to 300 busy 149 added 149 by vkResetFences, 1 in 1, waited 110, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 300 vkResetFences"},
		{"another thread's graph meanwhile",
			[][]trace.Mark{submission(151, 152, q, 0, 1), by(8, graph(192, 198)),
				by(8, submission(195, 196, q, 0, 1))},
			"2: q1 151 to 400 busy 249 added 249 by synchronize, 1 in 1, waited 210, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 400 synchronize, q1/1 GPU graph 3 step 0: 195+1 open"},
		{"another backend is waited for before", [][]trace.Mark{submission(151, 152, q, f, 1),
			{{Time: 170, Kind: trace.MarkSyncBegin, Site: offSync, Ctx: 8},
				{Time: 176, Kind: trace.MarkSyncEnd, Site: offSyncEnd}}, fence(195, 300, f, 0)},
			"2: q1 151 to 300 busy 149 added 149 by vkWaitForFences, 1 in 1, waited 110, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 300 vkWaitForFences"},
		{"waited for while another backend is", [][]trace.Mark{submission(151, 152, q, f, 1),
			{{Time: 170, Kind: trace.MarkSyncBegin, Site: offSync, Ctx: 8},
				{Time: 176, Kind: trace.MarkSyncEnd, Site: offSyncEnd}}, fence(172, 175, f, 0)},
			"2: q1 151 to 175 busy 24 added 24 by vkWaitForFences, 1 in 1, waited 3, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 175 vkWaitForFences"},
		{"a graph whose submissions were not seen is before it",
			[][]trace.Mark{graph(161, 167), submission(162, 163, q, f, 1), fence(200, 350, f, 0)},
			"3: q1 162 to 350 busy 188 added 188 by vkWaitForFences, 1 in 1, waited 160, before 1",
			"q1/1 GPU graph 3 step 1: 162+1 162 to 350 vkWaitForFences"},
		{"the wait's begin was not seen",
			[][]trace.Mark{submission(151, 152, q, f, 1), fence(200, 350, f, 0)[1:]},
			"2: q1 151 to 400 busy 249 added 249 by synchronize, 1 in 1, waited 210, before 0",
			"q1/1 GPU graph 2 step 1: 151+1 151 to 400 synchronize"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &queueSeen{}
			if _, err := profile.Replay(offloaded(t, 1, func(ms []trace.Mark) []trace.Mark {
				ms = append(ms, slices.Concat(c.marks...)...)
				slices.SortStableFunc(ms, func(a, b trace.Mark) int { return int(a.Time - b.Time) })
				return ms
			}), profile.Tee(s)); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(s.graphs, " | "); got != c.graphs {
				t.Errorf("graphs\n%s\nwant\n%s", got, c.graphs)
			}
			if got := strings.Join(s.subs, ", "); got != c.subs {
				t.Errorf("submissions\n%s\nwant\n%s", got, c.subs)
			}
		})
	}
}

// Work that nobody waits for is not kept for ever; the graph then has the span that the backend's own wait
// tells.
func TestQueuesBounded(t *testing.T) {
	var all [][]trace.Mark
	for i := range int64(1 << 14) {
		all = append(all, submission(151+i*8>>14, 151+i*8>>14, 0x60, 0, 1))
	}
	all = append(all, submission(159, 159, 0x60, 0x70, 1), fence(200, 350, 0x70, 0))
	s := &queueSeen{}
	if _, err := profile.Replay(offloaded(t, 1, func(ms []trace.Mark) []trace.Mark {
		ms = append(ms, slices.Concat(all...)...)
		slices.SortStableFunc(ms, func(a, b trace.Mark) int { return int(a.Time - b.Time) })
		return ms
	}), profile.Tee(s)); err != nil {
		t.Fatal(err)
	}
	if len(s.subs) != 1<<14+1 || !strings.HasSuffix(s.subs[0], "open") ||
		!strings.HasSuffix(s.subs[1<<14], "vkWaitForFences") {
		t.Errorf("%d submissions: %s ... %s", len(s.subs), s.subs[0], s.subs[len(s.subs)-1])
	}
	if got := strings.Join(s.graphs, " | "); got != "2: 150 to 400 by synchronize, before 0" {
		t.Errorf("graphs %s", got)
	}
}
