// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// record builds a perf record: header, body, then pid, tid, time, cpu.
func record(typ uint32, misc uint16, time uint64, body []byte) []byte {
	for len(body)%8 != 0 {
		body = append(body, 0)
	}
	le := binary.LittleEndian
	b := le.AppendUint32(nil, typ)
	b = le.AppendUint16(b, misc)
	b = le.AppendUint16(b, uint16(8+len(body)+24))
	b = append(b, body...)
	b = le.AppendUint64(b, 0)
	b = le.AppendUint64(b, time)
	return le.AppendUint64(b, 0)
}

func u32s(vs ...uint32) (b []byte) {
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

func testRing(size int, at uint64, records ...[]byte) *perfRing {
	r := &perfRing{page: &unix.PerfEventMmapPage{}, data: make([]byte, size)}
	r.page.Data_tail = at
	for _, rec := range records {
		for _, c := range rec {
			r.data[at&uint64(size-1)] = c
			at++
		}
	}
	r.page.Data_head = at
	return r
}

func TestRing(t *testing.T) {
	const p10, p12 = 1<<26 + 10, 1<<26 + 12 // beyond any real process
	now := uint64(boottime()) - 1e9
	mmap := u32s(p10, 11)
	for _, v := range []uint64{0x7000, 0x2000, 0x1000} {
		mmap = binary.LittleEndian.AppendUint64(mmap, v)
	}
	mmap = append(mmap, u32s(8, 1, 77, 0, 0, 0, 5, 2)...)
	lib := "/" + strings.Repeat("long/", 40) + "x.so"
	mmap = append(mmap, lib+" (deleted)\x00"...)
	recs := [][]byte{
		record(unix.PERF_RECORD_MMAP2, 0, now+4, mmap),
		record(unix.PERF_RECORD_COMM, commExec, now+3, append(u32s(p12, p12), "prog\x00"...)),
		record(unix.PERF_RECORD_FORK, 0, now+2, append(u32s(p12, p10, p12, p10), make([]byte, 8)...)),
		record(unix.PERF_RECORD_LOST, 0, now+5, append(make([]byte, 8), 9, 0, 0, 0, 0, 0, 0, 0)),
		record(unix.PERF_RECORD_COMM, 0, now+6, nil), // too short
		record(99, 0, now+7, nil),
		record(unix.PERF_RECORD_EXIT, 0, now+8, append(u32s(p12, p10, 13, p10), make([]byte, 8)...)),
		// another pid namespace
		record(unix.PERF_RECORD_COMM, 0, now+9, append(u32s(^uint32(0), p12), "outside\x00"...)),
	}
	for _, at := range []uint64{0, 1000, 4096 - 60, 1<<40 - 8} {
		s := &perfSource{w: newWatcher(), rings: map[int]*perfRing{0: testRing(4096, at&^7, recs...)}}
		s.w.tracked[p10] = &trackedProcess{}
		out, _ := s.round()
		slices.SortFunc(out[max(0, len(out)-2):], func(a, b Event) int { return a.PID - b.PID })
		var got []string
		for _, ev := range out {
			got = append(got, fmt.Sprint(ev.Kind, " ", ev.PID&0xff, " ", ev.Comm, ev.Path))
		}
		want := "fork 12 |exec 12 prog|mmap 10 " + lib + "|lost 0 |thread exit 12 |exit 10 |exit 12 "
		// The loss makes the watcher look: it finds that the processes are gone.
		if g := strings.Join(got, "|"); g != want {
			t.Errorf("ring at %d: %q, want %q", at, g, want)
		}
		m := out[2]
		if m.Start != 0x7000 || m.Len != 0x2000 || m.Offset != 0x1000 || m.Dev != unix.Mkdev(8, 1) ||
			m.Inode != 77 || !m.Deleted || m.TID != 11 || out[3].Lost != 9 {
			t.Errorf("%+v, %+v", m, out[3])
		}
		if r := s.rings[0]; r.page.Data_tail != r.page.Data_head {
			t.Error("not all was read")
		}
	}
	// What is too new waits for the other rings.
	s := &perfSource{w: newWatcher(),
		rings: map[int]*perfRing{0: testRing(4096, 0,
			record(unix.PERF_RECORD_FORK, 0, uint64(boottime())+1e9,
				append(u32s(p12, p10, p12, p10), make([]byte, 8)...)))}}
	s.w.tracked[p10] = &trackedProcess{}
	if out, _ := s.round(); len(out) != 0 || len(s.held) != 1 {
		t.Errorf("an event of the future: %v, %d held", out, len(s.held))
	}
}

func FuzzRing(f *testing.F) {
	f.Add(record(unix.PERF_RECORD_FORK, 0, 1, u32s(12, 10, 12, 10, 0, 0)), uint16(0))
	f.Add(record(unix.PERF_RECORD_MMAP2, 0, 1, make([]byte, 64)), uint16(4090))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 7, 0, 1, 0, 0, 0, 0, 0, 0, 0}, uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, at uint16) {
		if len(b) > 4096 {
			b = b[:4096]
		}
		r := testRing(4096, uint64(at)&^7, b)
		s := &perfSource{w: newWatcher(), rings: map[int]*perfRing{0: r}}
		s.drain(r)
		for _, rec := range s.held {
			s.decode(rec)
		}
		if left := r.page.Data_head - r.page.Data_tail; left >= 8 {
			t.Fatalf("%d bytes left in the ring", left)
		}
	})
}

func TestParseCPUs(t *testing.T) {
	for in, want := range map[string][]int{"0": {0}, "0-3": {0, 1, 2, 3}, "0-1,4,6-7": {0, 1, 4, 6, 7},
		"": nil} {
		if got, err := parseCPUs(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	for _, bad := range []string{"x", "3-1", "0-99999999", "-1", "0-"} {
		if got, err := parseCPUs(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}

func FuzzCPUList(f *testing.F) {
	f.Add("0-3,8")
	f.Fuzz(func(t *testing.T, s string) {
		if cpus, err := parseCPUs(s); err == nil && (len(cpus) > 1<<16 || !slices.IsSorted(cpus)) {
			t.Fatalf("%d CPUs", len(cpus))
		}
	})
}
