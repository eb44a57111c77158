// SPDX-License-Identifier: Apache-2.0

package trace

// FaultKind says what a fault record is.
type FaultKind uint8

const (
	FaultMajor  FaultKind = 1 // the thread had to wait for the page, mostly for the disk
	FaultMinor  FaultKind = 2 // the page was in memory
	FaultCounts FaultKind = 3 // no fault: the thread's counts when it ended, or when it was looked at
)

// Fault is a page fault of a thread, or what the thread counted so far. Of minor faults there are all, or
// those that had something read from disk or took 100 µs: Meta.Extra["faults"] is "all" or "major".
type Fault struct {
	Time int64 // when it was done
	PID  int32
	TID  int32
	CPU  uint16
	Kind FaultKind
	Addr uint64
	Dur  int64 // ns; -1: not seen
	// Read are the bytes it had read from disk, read-ahead included; where Dur is not seen, those since the
	// thread's fault before. Of FaultCounts all that the thread read. -1: not known.
	Read int64
	// Major and Minor are the thread's counts, this fault included. They grow by more than the records where
	// the kernel took faults for a thread that was in a system call: those have no record.
	Major, Minor uint64
}

// Columns of a faults block.
const (
	faultKind  = iota // a byte each
	faultTime         // to the record before
	faultCPU          // to the record before
	faultPID          // to the record before
	faultTID          // to the record before
	faultAddr         // to the record before of the same thread modulo 256
	faultDur          // as it is, plus 1
	faultRead         // as it is, plus 1
	faultMajor        // to the record before of the same thread modulo 256
	faultMinor        // likewise
	faultColumns
)

// faultContext is what was last seen of a thread.
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

// Faults takes page faults, in any order of time.
func (w *Writer) Faults(fs []Fault) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return add(w, TypeFaults, fs, &w.faults.columns, w.faults.add, w.faults.reset)
}

// decodeFaults reads a block. What it returns is the caller's.
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
	Path   string `json:"path"` // "[heap]" and the like too; empty: anonymous
	Dev    uint64 `json:"dev,omitempty"`
	Inode  uint64 `json:"inode,omitempty"` // 0: no file
}

// FilePages tells which pages of a file are in memory, whoever brought them there.
type FilePages struct {
	Path  string `json:"path"`
	Dev   uint64 `json:"dev"`
	Inode uint64 `json:"inode"`
	Size  int64  `json:"size"` // bytes
	// bytes that a bit stands for: a page; of very large files several, at least half of which are in memory
	Page int64 `json:"page"`
	// Resident has a bit for each page, the lowest of the first byte for the first page: it is in memory.
	Resident []byte `json:"resident"`
	// Failed says why it is not known, empty if it is.
	Failed string `json:"failed,omitempty"`
}

// Memory is what a process has mapped at a time, and what of those files that are no programs is in memory: a
// file in a record of its own, without Maps, as its pages can take long to look at.
type Memory struct {
	PID  int32  `json:"pid"`
	Time int64  `json:"time_ns"`
	When string `json:"when"` // "start", "end": with pages; "changed"
	// Maps in order of address.
	Maps  []MemoryMap `json:"maps"`
	Files []FilePages `json:"files,omitempty"`
	// Major, Minor and Read are the whole process's counts, threads that have ended included: what /proc says
	// of it. -1: not known.
	Major int64 `json:"major"`
	Minor int64 `json:"minor"`
	Read  int64 `json:"read_bytes"` // fetched from storage
}

// Memory tells what a process has mapped.
func (w *Writer) Memory(m Memory) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state(); err != nil {
		return err
	}
	return w.json(TypeMemory, m, 1, m.Time, m.Time)
}
