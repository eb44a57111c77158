// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"bytes"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// Faults that waited stand below their thread, others do not; one whose begin is not known has no length.
func TestFaults(t *testing.T) {
	var b bytes.Buffer
	err := Export(&b, func(s profile.Sink) (*profile.Header, error) {
		to := s
		for _, f := range []profile.Fault{
			{Fault: trace.Fault{Time: 5_000_000, Dur: 1_000_000, PID: 7, TID: 8, Kind: trace.FaultMajor,
				Addr: 0x10, Read: 4096},
				OpID: 3, FaultPlace: profile.FaultPlace{Class: profile.MemExpert, Tensor: "blk.0.up\x1b",
					Expert: 5, File: "m"}},
			{Fault: trace.Fault{Time: 6_000_000, Dur: 1_000, PID: 7, TID: 8, Kind: trace.FaultMinor}},
			{Fault: trace.Fault{Time: 6_500_000, Dur: 200_000, PID: 7, TID: 8, Kind: trace.FaultMinor},
				FaultPlace: profile.FaultPlace{Expert: -1}},
			{Fault: trace.Fault{Time: 7_000_000, Dur: -1, PID: 7, TID: 9, Kind: trace.FaultMajor, Read: -1},
				FaultPlace: profile.FaultPlace{Expert: -1}},
			{Fault: trace.Fault{Time: 8_000_000, PID: 7, TID: 8, Kind: trace.FaultCounts, Major: 9}},
		} {
			if err := to.Fault(&f); err != nil {
				return nil, err
			}
		}
		return &profile.Header{First: 1, Last: 9_000_000}, to.Memory(&trace.Memory{PID: 7})
	})
	if err != nil {
		t.Fatal(err)
	}
	c := check(t, b.Bytes())
	major, minor := c.named("major fault"), c.named("minor fault")
	if len(major) != 2 || len(minor) != 1 {
		t.Fatalf("%d major and %d minor slices", len(major), len(minor))
	}
	m := major[0]
	if m.start != 4_000_000 || m.dur != 1_000_000 || m.notes["expert"] != "5" || m.notes["op_id"] != "3" ||
		m.notes["class"] != "expert" || m.notes["read_bytes"] != "4096" || m.notes["address"] != "0x10" {
		t.Errorf("%+v", m)
	}
	if m := major[1]; m.start != 7_000_000 || m.dur != 0 || m.notes["duration"] == "" ||
		m.notes["read_bytes"] != "" {
		t.Errorf("%+v", m)
	}
}
