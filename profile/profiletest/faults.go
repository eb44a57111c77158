// SPDX-License-Identifier: Apache-2.0

package profiletest

import (
	"strings"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

const faultPage = 4096

// Faulty makes a recorder report page faults of a process. Every seventh operator with a weight has a major
// fault that reads on its second thread, and a shorter one on its first. Every fourth step has one that reads
// ahead outside any operator. Of the model's file the first half is in memory at the start, and at the end
// all pages but every third. hostile: paths and reasons are hostile.
func Faulty(r *Recorder, m Model, pid int32, hostile bool) {
	path, failed := "/models/made.gguf", ""
	if hostile {
		path, failed = hostileNames[0]+"/"+hostileNames[5]+".gguf", hostileNames[1]
	}
	// The model's own leaves are far apart; in a file they are adjacent, after a page of header.
	const from = 0x7f00_0000_0000
	at := map[uint64]uint64{}
	next := uint64(from)
	for _, n := range m.Shape(pid, 1, 1, 256).Nodes {
		if n.Leaf && strings.HasSuffix(n.Name, ".weight") && at[n.Data] == 0 {
			at[n.Data] = next
			next += (n.Nb[3] + 31) &^ 31
		}
	}
	to := (next + faultPage - 1) &^ (faultPage - 1)
	shape := r.Shape
	r.Shape = func(s *trace.Shape) {
		if shape != nil {
			shape(s)
		}
		for i := range s.Nodes {
			if n := &s.Nodes[i]; n.Leaf && at[n.Data] != 0 {
				n.Data = at[n.Data]
			}
		}
	}
	size := int64(to-from) + faultPage
	pages := func(in func(page int64) bool) trace.FilePages {
		f := trace.FilePages{Path: path, Dev: 1, Inode: 2, Size: size, Page: faultPage,
			Resident: make([]byte, (size/faultPage+7)/8)}
		for p := range size / faultPage {
			if in(p) {
				f.Resident[p/8] |= 1 << (p % 8)
			}
		}
		return f
	}
	other := trace.FilePages{Path: "/usr/lib/locale/" + path, Dev: 1, Inode: 3, Size: 1 << 21,
		Page: faultPage, Failed: failed}
	if failed == "" {
		other.Failed = "operation not permitted"
	}
	maps := []trace.MemoryMap{{Start: 0x1000, End: 0x2000, Perms: "r-xp", Path: "/bin/made", Dev: 1,
		Inode: 1},
		{Start: from, End: to, Offset: faultPage, Perms: "r--s", Path: path, Dev: 1, Inode: 2}}
	meta := r.Head
	r.Head = func(t *trace.Meta) {
		if meta != nil {
			meta(t)
		}
		if t.Extra == nil {
			t.Extra = map[string]string{}
		}
		t.Extra["faults"] = "major"
	}
	r.Mapped = func() []trace.Memory {
		return []trace.Memory{
			{PID: pid, Time: 1, When: "start", Major: 3, Minor: 50, Read: 1 << 16, Maps: maps,
				Files: []trace.FilePages{pages(func(p int64) bool {
					return p < size/faultPage/2
				}), other}},
			{PID: pid, Time: 1 << 40, When: "end", Major: -1, Minor: -1, Read: -1, Maps: maps,
				Files: []trace.FilePages{pages(func(p int64) bool {
					return p%3 != 0
				}), other}},
		}
	}
	var major [2]uint64
	told, step := false, int64(0)
	r.Faults = func(o *profile.Op) (fs []trace.Fault) {
		if len(o.Threads) < 2 {
			return nil
		}
		fault := func(th int, kind trace.FaultKind, from, to float64, addr uint64, read int64) {
			t := &o.Threads[th]
			if kind == trace.FaultMajor {
				major[th]++
			}
			at := func(part float64) int64 { return int64(part * float64(t.Busy+t.OffCPU)) }
			fs = append(fs, trace.Fault{Time: t.Start + at(to), Dur: max(1, at(to)-at(from)), PID: pid,
				TID: t.TID, CPU: t.CPU, Kind: kind, Addr: addr, Read: read, Major: major[th], Minor: 20})
		}
		if !told {
			told = true
			for th := range 2 {
				fs = append(fs, trace.Fault{Time: 1, PID: pid, TID: o.Threads[th].TID,
					Kind: trace.FaultCounts, Dur: -1, Read: 1 << 16})
			}
		}
		if o.Step != nil && o.Step.ID != step {
			if step = o.Step.ID; step%4 == 0 {
				fs = append(fs, trace.Fault{Time: o.Start - 1, Dur: 1000, PID: pid, TID: o.Threads[0].TID,
					Kind: trace.FaultMinor, Addr: from +
						2*faultPage, Read: 1 << 17, Major: major[0], Minor: 20})
			}
		}
		nodes := o.Shape.Nodes
		for _, src := range nodes[o.Node].Src {
			n := &nodes[src]
			if !n.Leaf || at[n.Data] == 0 || o.ID%7 != 0 {
				continue
			}
			addr := at[n.Data] + uint64(o.ID%16)*n.Nb[2]%max(1, n.Nb[3])
			fault(0, trace.FaultMajor, 0.2, 0.3, addr, 0)
			fault(1, trace.FaultMajor, 0.1, 0.6, addr+64, 1<<14)
			break
		}
		return fs
	}
}

// faulty is a trial of page faults on a mixture of experts; names: with hostile names, and unknown durations.
func faulty(names bool) Trial {
	t := Trial{Name: "faults", What: "page faults of a mixture of experts whose file is partly in memory"}
	if names {
		t = Trial{Name: "faults-names", What: "page faults whose durations are not known, with hostile names"}
	}
	run := with(func(r *Run) { r.Model, r.Preempt = MoE, 0 })
	t.Write = played(run, func(r *Recorder) {
		if names {
			harm(r, false)
		}
		Faulty(r, run.Model, run.PID, names)
		if !names {
			return
		}
		meta, faults := r.Head, r.Faults
		r.Head = func(m *trace.Meta) {
			meta(m)
			m.Extra["fault_times"] = "off"
		}
		r.Faults = func(o *profile.Op) []trace.Fault {
			fs := faults(o)
			for i := range fs {
				fs[i].Dur = -1
			}
			return fs
		}
	})
	return t
}
