// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/memory"
	"github.com/profinfer/profinfer/profile/summary"
)

//go:fix inline
func num(v int64) *int64 { return new(v) }

// faultsOf is a stat with page faults and nothing else. Names are meant to do harm.
func faultsOf() *summary.Stat {
	share := 0.094
	bad := "/models/\x1b[31mevil\n.gguf"
	return &summary.Stat{Phases: []summary.Phase{},
		Faults: &memory.Stat{Which: "major", Timed: true, Major: num(1234), Minor: num(56789), Seen: 1200,
			NoAddress: num(34),
			Own:       num(1300), Before: num(66), Wait: num(3_260_000_000), Read: num(1 << 30),
			ReadFaults: 900 << 20,
			Classes: []memory.FaultSum{{Class: profile.MemExpert, Major: 1000, Minor: 40,
				Wait: num(2_900_000_000), Read: 800 << 20},
				{Class: profile.MemWeight, Major: 180, Minor: 3, Wait: num(359_000_000), Read: 100 << 20},
				{Class: profile.MemProgram, Major: 19, Wait: num(900_000)}, {Class: profile.MemOther,
					Major: 1,
					Wait:  num(100)}},
			Names: []memory.FaultSum{{Class: profile.MemExpert, Name: "ffn_up_exps", Type: "q4_0",
				Major: 1000,
				Minor: 40, Wait: num(2_900_000_000), Read: 800 << 20},
				{Class: profile.MemWeight, Name: "\u202eattn_q", Type: "q4_0", Major: 180, Minor: 3,
					Wait: num(359_000_000), Read: 100 << 20},
				{Class: profile.MemProgram, Name: "/usr/lib/libc.so.6", Major: 19,
					Wait: num(900_000)}, {Class: profile.MemOther, Major: 1, Wait: num(100)}},
			Phases: []memory.FaultPhase{{Phase: "prefill", InStep: true, Steps: 1, Faulted: 1,
				Dur:   1_000_000_000,
				Major: 200, Wait: num(1_000_000_000), Wall: num(600_000_000), Read: 100 << 20},
				{Phase: "decode", InStep: true, Steps: 64, Faulted: 60, Dur: 20_000_000_000, Major: 980,
					Wait: num(2_200_000_000), Wall: num(1_880_000_000), Share: &share, Read: 800 << 20},
				{Major: 20, Wait: num(60_000_000)}},
			Steps: []memory.FaultStep{{Step: 7, Phase: "decode", Dur: 500_000_000, Major: 90,
				Wait: num(300_000_000), Wall: num(260_000_000), Read: 12 << 20}},
			Files: []memory.FileMemory{{Path: bad, Bytes: 663 << 20, InStart: num(0), InEnd: num(600 << 20),
				Mapped: true, Graphs: true,
				Classes: []memory.ClassMemory{{Class: profile.MemExpert, Tensors: 3, Bytes: 500 << 20,
					InStart: num(0), InEnd: num(450 << 20)},
					{Class: profile.MemWeight, Tensors: 30, Bytes: 163 << 20, InStart: num(0),
						InEnd: num(163<<20 - 1)}}},
				{Path: "copied.gguf", Bytes: 83 << 20, InStart: num(83 << 20),
					Graphs: true}, {Path: "other.gguf",
					Bytes: 5, Failed: "only root\x07"},
				{Path: "nograph.gguf", Bytes: 1 << 20, InStart: num(1 << 20),
					InEnd: num(1 << 20)}, {Path: "/usr/lib/locale", Bytes: 4 << 20, InStart: num(0)}},
		}}
}

func TestFaultsGolden(t *testing.T) {
	untimed := faultsOf()
	f := untimed.Faults
	f.Timed, f.Wait, f.Read, f.Own, f.Minor, f.Which = false, nil, nil, nil, nil, "all"
	for i := range f.Classes {
		f.Classes[i].Wait = nil
	}
	for i := range f.Phases {
		f.Phases[i].Wait, f.Phases[i].Wall, f.Phases[i].Share = nil, nil, nil
	}
	f.Steps[0].Wall = nil
	for _, c := range []struct {
		name string
		s    *summary.Stat
		o    Options
	}{
		{"usual", faultsOf(), Options{Width: 120, Unicode: true}},
		{"40", faultsOf(), Options{Width: 40}},
		{"verbose", faultsOf(), Options{Width: 160, Unicode: true, Verbose: true}},
		{"untimed", untimed, Options{Width: 120}},
	} {
		var b bytes.Buffer
		p := &page{o: c.o}
		p.faults(c.s)
		b.WriteString(p.b.String())
		golden(t, "faults-"+c.name+".txt", b.Bytes())
		checkPrintable(t, b.String(), c.o)
	}
}
