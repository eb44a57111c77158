// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/internal/safeopen"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/target"
	"github.com/profinfer/profinfer/trace"
)

const (
	// minData is the minimum size of a file that is not a program and may be a model.
	minData = 1 << 20
	// maxMaps bounds the mappings that are written, maxData the files whose pages are checked.
	maxMaps, maxData = 4096, 64
	// maxRefused bounds the remembered files that are ignored.
	maxRefused = 4096
	// lookAgain is the minimum time between two reads of a process's mappings for addresses that none of them
	// contains.
	lookAgain = time.Second
	// maxCommandLine bounds the words of a command line that are tried as files.
	maxCommandLine = 256
)

// memory is what is known about a process's mappings and the files in them.
type memory struct {
	maps    []target.Mapping
	files   map[fileKey]*dataFile
	refused map[fileKey]bool // devices, small files
	looked  time.Time
	begun   bool
	looking chan struct{} // closed once its files were checked
	whole   bool          // its mappings were read since it began to compute
	mute    bool          // its command line cannot be read
}

type dataFile struct {
	path string
	f    *os.File
	size int64
}

// writeFaults writes page faults and the mappings that contain them.
func (r *recorder) writeFaults(e *probe.Events) error {
	if r.opt.Faults == probe.FaultsOff {
		return nil
	}
	var p *process
	faults := slices.DeleteFunc(until(r.stop, e.Faults, func(f *trace.Fault) int64 {
		return f.Time
	}), func(f trace.Fault) bool {
		if p == nil || p.pid != int(f.PID) {
			if p = r.find(int(f.PID)); p == nil {
				return true
			}
		}
		if f.Kind != trace.FaultCounts && !p.mem.covers(f.Addr) {
			p.mem.whole = false
		}
		return false
	})
	if err := r.w.Faults(faults); err != nil {
		return err
	}
	for _, p := range r.procs {
		if p.att == nil || r.stop != 0 {
			continue
		}
		if !p.computes && p.mem.begun { // its model is being loaded
			if err := r.lookMemory(p, false); err != nil {
				return err
			}
		} else if p.computes && !p.mem.whole && time.Since(p.mem.looked) > lookAgain {
			p.mem.whole = true
			if err := r.lookMemory(p, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// faultsMeta writes to the trace which faults are recorded.
func (r *recorder) faultsMeta() {
	switch r.opt.Faults {
	case probe.FaultsOff:
		return
	case probe.FaultsMajor:
		r.meta.Extra["faults"] = "major"
	case probe.FaultsAll:
		r.meta.Extra["faults"] = "all"
	}
	if !r.session.FaultsTimed() {
		r.meta.Extra["fault_times"] = "off"
		r.meta.Notes = append(r.meta.Notes,
			"page faults: this kernel does not tell their begins, so their durations are not known")
	}
}

func (m *memory) covers(addr uint64) bool {
	i := sort.Search(len(m.maps), func(i int) bool { return m.maps[i].End > addr })
	return i < len(m.maps) && addr >= m.maps[i].Start
}

// beginMemory writes a process's counts and mappings at the start of recording its faults.
func (r *recorder) beginMemory(p *process) error {
	if r.opt.Faults == probe.FaultsOff || p.mem.begun {
		return nil
	}
	p.mem.begun = true
	p.mem.files = make(map[fileKey]*dataFile)
	if err := r.threadCounts(p); err != nil {
		return err
	}
	m := r.memoryOf(p, "start")
	p.mem.read(p.pid)
	files := append(p.mem.named(p.pid), p.mem.mapped(p.pid)...)
	m.Maps = p.mem.told()
	return r.writeMemory(p, m, files, false)
}

// lookMemory reads the process's mappings again and writes them if they contain a new file, or if requested.
func (r *recorder) lookMemory(p *process, tell bool) error {
	p.mem.looked = time.Now()
	if !p.mem.read(p.pid) {
		return nil
	}
	fresh := p.mem.mapped(p.pid)
	if len(fresh) == 0 && !tell {
		return nil
	}
	m := r.memoryOf(p, "changed")
	m.Maps = p.mem.told()
	return r.writeMemory(p, m, fresh, false)
}

// endMemory writes its counts, and how much of its files is in memory, at the end.
func (r *recorder) endMemory(p *process) error {
	if !p.mem.begun {
		return nil
	}
	p.mem.begun = false
	if err := r.threadCounts(p); err != nil {
		return err
	}
	m := r.memoryOf(p, "end")
	if m.Major < 0 {
		r.lastAccount(p, &m)
	}
	p.mem.read(p.pid) // if it still lives
	p.mem.mapped(p.pid)
	var files []*dataFile
	for _, k := range slices.SortedFunc(maps.Keys(p.mem.files), func(a, b fileKey) int {
		return cmp.Or(cmp.Compare(a.inode, b.inode), cmp.Compare(a.dev, b.dev))
	}) {
		files = append(files, p.mem.files[k])
	}
	p.mem.files = nil
	m.Maps = p.mem.told()
	return r.writeMemory(p, m, files, true)
}

// writeMemory writes a process's mappings, and then how much of its files is in memory.
func (r *recorder) writeMemory(p *process, m trace.Memory, files []*dataFile, last bool) error {
	if err := r.w.Memory(m); err != nil {
		if err := r.trouble(p, trace.LostMappings, len(m.Maps), err); err != nil {
			return err
		}
	}
	r.residency(p, m, files, last)
	return nil
}

// retellMemory writes mappings again in a new file of the recording.
func (r *recorder) retellMemory() error {
	for _, p := range r.procs {
		if p.mem.begun {
			if err := r.lookMemory(p, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// lastAccount takes the command's counts at its end, which /proc no longer has. For processes that it started
// they are unknown.
func (r *recorder) lastAccount(p *process, m *trace.Memory) {
	if r.command == nil || r.command.PID != p.pid {
		return
	}
	select {
	case <-r.command.Done():
	case <-time.After(time.Second): // its end was already reported: it will be waited for any moment
		return
	}
	if a, err := r.command.Account(); err == nil {
		m.Major, m.Minor, m.Read = a.Major, a.Minor, a.Read
	}
}

func (r *recorder) memoryOf(p *process, when string) trace.Memory {
	m := trace.Memory{PID: int32(p.pid), Time: probe.Now(), When: when, Major: -1, Minor: -1, Read: -1}
	if a, err := target.ProcessAccount(p.pid); err == nil {
		m.Major, m.Minor, m.Read = a.Major, a.Minor, a.Read
	}
	return m
}

// threadCounts writes the counts of each live thread.
func (r *recorder) threadCounts(p *process) error {
	accounts, err := target.ThreadAccounts(p.pid)
	if err != nil {
		return nil // it has ended: its threads were written then
	}
	now := probe.Now()
	var faults []trace.Fault
	for tid, a := range accounts {
		faults = append(faults, trace.Fault{Time: now, PID: int32(p.pid), TID: int32(tid),
			Kind: trace.FaultCounts,
			Dur:  -1, Read: a.Read, Major: uint64(a.Major), Minor: uint64(a.Minor)})
	}
	slices.SortFunc(faults, func(a, b trace.Fault) int { return int(a.TID - b.TID) })
	return r.w.Faults(faults)
}

// read reads the mappings; on failure it returns false and keeps the previous ones.
func (m *memory) read(pid int) bool {
	maps, err := target.Maps(pid)
	if err != nil || len(maps) == 0 {
		return false
	}
	m.maps = maps
	return true
}

func (m *memory) told() (out []trace.MemoryMap) {
	for i := range m.maps[:min(len(m.maps), maxMaps)] {
		k := &m.maps[i]
		out = append(out, trace.MemoryMap{Start: k.Start, End: k.End, Offset: k.Offset, Perms: k.Perms,
			Path: k.Path, Dev: k.Dev, Inode: k.Inode})
	}
	return out
}

// mapped opens files that are mapped, are not programs and were not seen before.
func (m *memory) mapped(pid int) (fresh []*dataFile) {
	programs := map[fileKey]bool{}
	for i := range m.maps {
		if m.maps[i].Exec() {
			programs[fileKey{m.maps[i].Dev, m.maps[i].Inode}] = true
		}
	}
	for i := range m.maps {
		k := fileKey{m.maps[i].Dev, m.maps[i].Inode}
		if k.inode == 0 || programs[k] || m.files[k] != nil || len(m.files) >= maxData {
			continue
		}
		if m.refused[k] {
			continue
		}
		f, _, err := target.OpenMapped(pid, m.maps[i])
		if errors.Is(err, target.ErrNotRegular) {
			m.refuse(k)
		}
		if err != nil {
			continue
		}
		if d := m.add(k, m.maps[i].Path, f); d != nil {
			fresh = append(fresh, d)
		}
	}
	return fresh
}

// refuse remembers what is not examined again on every read of the mappings: an engine for GPUs maps its
// devices hundreds of times.
func (m *memory) refuse(k fileKey) {
	if m.refused == nil || len(m.refused) >= maxRefused {
		m.refused = make(map[fileKey]bool)
	}
	m.refused[k] = true
}

// named opens files named on the command line: how much of a model is in memory must be known before it is
// mapped, as mapping can read all of it.
func (m *memory) named(pid int) (fresh []*dataFile) {
	words, err := cmdline(pid, &m.mute)
	if err != nil {
		return nil
	}
	root, err := os.OpenFile(procPath(pid, "root"), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	defer root.Close()
	for _, w := range words[:min(len(words), maxCommandLine)] {
		if w == "" || len(m.files) >= maxData {
			continue
		}
		inside := w
		if !filepath.IsAbs(w) {
			cwd, err := os.Readlink(procPath(pid, "cwd"))
			if err != nil {
				continue
			}
			if root, err := os.Readlink(procPath(pid, "root")); err == nil && root != "/" {
				// a chroot: cwd is reported as its parent sees it
				if rel, err := filepath.Rel(root, cwd); err == nil {
					cwd = "/" + rel
				}
			}
			inside = cwd + "/" + w // not cleaned: the file system decides where .. leads
		}
		f, err := safeopen.RegularIn(root, inside, func(st fs.FileInfo) error {
			if st.Size() < minData || m.files[keyOf(st)] != nil {
				return errNotWanted
			}
			return nil
		})
		if err != nil {
			continue
		}
		st, err := f.Stat()
		if err != nil || program(f) {
			f.Close()
			continue
		}
		if d := m.add(keyOf(st), filepath.Clean(inside), f); d != nil {
			fresh = append(fresh, d)
		}
	}
	return fresh
}

var errNotWanted = errors.New("it is not looked at")

func keyOf(st fs.FileInfo) fileKey {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return fileKey{}
	}
	return fileKey{sys.Dev, sys.Ino}
}

func procPath(pid int, name string) string {
	return filepath.Join("/proc", itoa(pid), name)
}

func program(f *os.File) bool {
	unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM) // avoid read-ahead because of this
	var b [4]byte
	_, err := f.ReadAt(b[:], 0)
	return err != nil || string(b[:]) == "\x7fELF" || string(b[:2]) == "#!"
}

// add keeps a file open, unless it is too small to matter.
func (m *memory) add(k fileKey, path string, f *os.File) *dataFile {
	st, err := f.Stat()
	if err != nil || st.Size() < minData {
		f.Close()
		m.refuse(k)
		return nil
	}
	d := &dataFile{path: path, f: f, size: st.Size()}
	m.files[k] = d
	return d
}
