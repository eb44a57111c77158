// SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"strconv"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

// busySink is a sink that makes up switches: now and then another process takes a CPU for a while.
type busySink struct {
	profile.Sink
	n    int
	last int64
}

func (s *busySink) Op(o *profile.Op) error {
	if s.n++; s.n%40 == 0 && len(o.Threads) > 1 && o.Start > s.last+2000 {
		th := o.Threads[s.n/40%len(o.Threads)]
		other := int32(7000 + s.n%13)
		s.last = o.Start + 2000
		for _, e := range []trace.Sched{
			{Time: o.Start + 500, CPU: th.CPU, Kind: trace.SchedSwitch, PrevTID: th.TID, PrevPID: 100,
				PrevComm: "llama-bench", NextTID: other, NextPID: other, NextComm: "apt-get"},
			{Time: o.Start + 2000, CPU: th.CPU, Kind: trace.SchedSwitch, PrevState: 1, PrevTID: other,
				PrevPID: other, PrevComm: "apt-get", NextTID: th.TID, NextPID: 100, NextComm: "llama-bench"},
		} {
			if err := s.Sink.Sched(&e); err != nil {
				return err
			}
		}
	}
	return s.Sink.Op(o)
}

// spansOfStep is how many spans of operators a step of synthetic has.
const spansOfStep = 4 * (16*15 + 3)

// synthetic plays a run of about so many spans of operators, on four threads.
func synthetic(spans int) Replay {
	return func(sink profile.Sink) (*profile.Header, error) {
		p := profiletest.Player{Sink: &busySink{Sink: sink}}
		m := profiletest.Model{Layers: 16, Width: 2048, FF: 8192, Vocab: 32000, Heads: 32, HeadsKV: 8,
			HeadDim: 64, Base: 0x10000}
		r := profiletest.Run{Model: m, PID: 100, Ctx: 1, Threads: 4, Prefill: 64,
			Decode: max(1, spans/spansOfStep), Start: 1_000_000_000_000, Sched: true}
		if err := p.Play(r); err != nil {
			return nil, err
		}
		return p.Header("op"), nil
	}
}

// TestWriteTimePage writes a page with a timeline of many spans, to look at it and to measure frames
// (web/test/frames.mjs):
//
//	PROFINFER_PAGE=/tmp/million.html PROFINFER_SPANS=1000000 go test ./views/report -run TestWriteTimePage
func TestWriteTimePage(t *testing.T) {
	name := os.Getenv("PROFINFER_PAGE")
	if name == "" {
		t.Skip("PROFINFER_PAGE names no file")
	}
	spans := 1_000_000
	if s := os.Getenv("PROFINFER_SPANS"); s != "" {
		var err error
		if spans, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	run, err := Load("synthetic.pinf", synthetic(spans))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(f, "profinfer test", []*Run{run}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
