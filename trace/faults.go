// SPDX-License-Identifier: Apache-2.0

package trace

// FaultKind is the kind of a fault record.
type FaultKind uint8

const (
	FaultMajor  FaultKind = 1 // the thread had to wait for the page, usually for the disk
	FaultMinor  FaultKind = 2 // the page was in memory
	FaultCounts FaultKind = 3 // not a fault: the thread's counts when it ended, or when it was read
)

// Fault is a page fault of a thread, or the thread's counts so far. Minor faults are recorded all, or only if
// something was read from disk or they took 100 µs: Meta.Extra["faults"] is "all" or "major".
type Fault struct {
	Time int64 // of its end
	PID  int32
	TID  int32
	CPU  uint16
	Kind FaultKind
	Addr uint64
	Dur  int64 // ns; -1: not seen
	// Read is the number of bytes read from disk, read-ahead included; if Dur is not seen, those since the
	// thread's previous fault. For FaultCounts it is the thread's total. -1: unknown.
	Read int64
	// Major and Minor are the thread's counts, including this fault. They grow by more than the number of
	// records if the kernel took faults for a thread during a system call: those have no record.
	Major, Minor uint64
}

// Columns of a faults block.
const (
	faultKind  = iota // one byte each
	faultTime         // difference to the previous record
	faultCPU          // difference to the previous record
	faultPID          // difference to the previous record
	faultTID          // difference to the previous record
	faultAddr         // difference to the previous record of the same thread modulo 256
	faultDur          // value plus 1
	faultRead         // value plus 1
	faultMajor        // difference to the previous record of the same thread modulo 256
	faultMinor        // likewise
	faultColumns
)

// faultContext is the last record of a thread.
type faultContext struct{ addr, major, minor uint64 }

type faultState struct {
	time     int64
	cpu      uint16
	pid, tid int32
	ctx      [256]faultContext
}

type faultEncoder struct {
	columns
	s faultState
}

func newFaultEncoder() faultEncoder { return faultEncoder{columns: newColumns(faultColumns)} }

func (e *faultEncoder) reset() {
	e.columns.reset()
	e.s = faultState{}
}

func (e *faultEncoder) add(fs []Fault) {
	s := &e.s
	for i := range fs {
		f := &fs[i]
		e.at(f.Time)
		e.c[faultKind] = append(e.c[faultKind], byte(f.Kind))
		e.c[faultTime] = appendInt(e.c[faultTime], f.Time-s.time)
		e.c[faultCPU] = appendInt(e.c[faultCPU], int64(f.CPU)-int64(s.cpu))
		e.c[faultPID] = appendInt(e.c[faultPID], int64(f.PID)-int64(s.pid))
		e.c[faultTID] = appendInt(e.c[faultTID], int64(f.TID)-int64(s.tid))
		s.time, s.cpu, s.pid, s.tid = f.Time, f.CPU, f.PID, f.TID
		x := &s.ctx[f.TID&255]
		e.c[faultAddr] = appendInt(e.c[faultAddr], int64(f.Addr-x.addr))
		e.c[faultDur] = appendUint(e.c[faultDur], uint64(f.Dur+1))
		e.c[faultRead] = appendUint(e.c[faultRead], uint64(f.Read+1))
		e.c[faultMajor] = appendInt(e.c[faultMajor], int64(f.Major-x.major))
		e.c[faultMinor] = appendInt(e.c[faultMinor], int64(f.Minor-x.minor))
		*x = faultContext{f.Addr, f.Major, f.Minor}
	}
}

// Faults writes page faults, in any order of time.
func (w *Writer) Faults(fs []Fault) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return add(w, TypeFaults, fs, &w.faults.columns, w.faults.add, w.faults.reset)
}

// decodeFaults reads a block. The caller owns the result.
func decodeFaults(p []byte, count int) ([]Fault, error) {
	var c [faultColumns]column
	if err := splitColumns(p, c[:]); err != nil {
		return nil, err
	}
	kinds := c[faultKind].b
	if len(kinds) != count || count > maxCount {
		return nil, errColumn
	}
	c[faultKind].b = nil
	out := make([]Fault, count)
	var s faultState
	for i, k := range kinds {
		s.time += c[faultTime].int()
		s.cpu += uint16(c[faultCPU].int())
		s.pid += int32(c[faultPID].int())
		s.tid += int32(c[faultTID].int())
		x := &s.ctx[s.tid&255]
		x.addr += uint64(c[faultAddr].int())
		x.major += uint64(c[faultMajor].int())
		x.minor += uint64(c[faultMinor].int())
		out[i] = Fault{Time: s.time, PID: s.pid, TID: s.tid, CPU: s.cpu, Kind: FaultKind(k), Addr: x.addr,
			Dur: max(int64(c[faultDur].uint()-1), -1), Read: max(int64(c[faultRead].uint()-1),
				-1), Major: x.major, Minor: x.minor}
	}
	return out, finish(c[:])
}

// MemoryMap is a mapping of a file in a process.
type MemoryMap struct {
	Start  uint64 `json:"start"`
	End    uint64 `json:"end"`
	Offset uint64 `json:"offset"` // in the file
	Perms  string `json:"perms"`
	Path   string `json:"path"` // also "[heap]" and the like; empty: anonymous
	Dev    uint64 `json:"dev,omitempty"`
	Inode  uint64 `json:"inode,omitempty"` // 0: no file
}

// FilePages is which pages of a file are in memory, whoever brought them there.
type FilePages struct {
	Path  string `json:"path"`
	Dev   uint64 `json:"dev"`
	Inode uint64 `json:"inode"`
	Size  int64  `json:"size"` // bytes
	// bytes per bit: one page; for very large files several, at least half of which are in memory
	Page int64 `json:"page"`
	// Resident has one bit per page, the lowest of the first byte for the first page: set if it is in memory.
	Resident []byte `json:"resident"`
	// Failed is why it is unknown, empty if it is known.
	Failed string `json:"failed,omitempty"`
}

// Memory is what a process has mapped at some time, and which pages of its mapped files, except programs, are
// in memory. Each file has a record of its own, without Maps, as examining its pages can take long.
type Memory struct {
	PID  int32  `json:"pid"`
	Time int64  `json:"time_ns"`
	When string `json:"when"` // "start", "end": with pages; "changed"
	// Maps are in order of address.
	Maps  []MemoryMap `json:"maps"`
	Files []FilePages `json:"files,omitempty"`
	// Major, Minor and Read are the counts of the whole process in /proc, including threads that have ended.
	// -1: unknown.
	Major int64 `json:"major"`
	Minor int64 `json:"minor"`
	Read  int64 `json:"read_bytes"` // fetched from storage
}

// Memory writes what a process has mapped.
func (w *Writer) Memory(m Memory) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state(); err != nil {
		return err
	}
	return w.json(TypeMemory, m, 1, m.Time, m.Time)
}
