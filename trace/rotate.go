// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/profinfer/profinfer/internal/safeopen"
)

// A long recording can be written as several files, of which the oldest are removed. The newest always has
// the requested name (run.pinf), the previous one is run.pinf.1, and so on. Each is a complete trace.

// Continued is the reason in the End of a file when the recording continues in the next.
const Continued = "continued in the next file"

// Keys of Meta.Extra in the files after the first.
const (
	extraPart      = "part"
	extraPartStart = "part_start_ns"
)

// maxHeld bounds the older files that are kept open to read definitions back.
const maxHeld = 16

// Part returns the number of this file in its recording, from 1. Files of one recording share BootID and
// Start.
func (m *Meta) Part() int {
	if n, err := strconv.Atoi(m.Extra[extraPart]); err == nil && n > 1 {
		return n
	}
	return 1
}

// PartStart returns when this file of the recording began, ns: for the first, that is Start.
func (m *Meta) PartStart() int64 {
	if t, err := strconv.ParseInt(m.Extra[extraPartStart], 10, 64); err == nil && m.Part() > 1 {
		return t
	}
	return m.Start
}

// RotateError reports that no new file could be started, or the previous one not ended. The recording
// continues, and nothing already in files is lost; Rotate may be called again.
type RotateError struct {
	Path  string
	Begun bool // a new file was started, but the previous one has no end
	Err   error
}

func (e *RotateError) Error() string {
	if e.Begun {
		return fmt.Sprintf("cannot end the file before %s: %v; what was written to it is kept", e.Path, e.Err)
	}
	return fmt.Sprintf("cannot begin a new file after %s: %v; it is written on", e.Path, e.Err)
}

func (e *RotateError) Unwrap() error { return e.Err }

// totals are the totals in End for one file, and its length.
type totals struct {
	hits, lost uint64
	bytes      int64
}

func less(a, b uint64) uint64 { return a - min(a, b) }

// names are the operations on names of files in the recording's directory.
type names struct {
	create       func(name string) (*os.File, error)
	link, rename func(from, to string) error
	remove       func(name string) error
}

func namesIn(at *safeopen.Place, mode fs.FileMode) names {
	return names{create: func(name string) (*os.File, error) {
		return at.Create(name, mode)
	}, link: at.Link, rename: at.Rename, remove: at.Remove}
}

func partName(path string, n int) string { return path + "." + strconv.Itoa(n) }

// nextName is the name of the next file until it has its initial definitions.
func nextName(path string) string { return path + ".next" }

// CreateParts begins a recording like [Create], for use with Rotate. The older files of an earlier recording
// of that name (path.1, path.2 ...) are removed as well, so that no two recordings mix. A file that is not a
// trace is not removed, but an error.
func CreateParts(path string, opts ...Option) (*Writer, error) {
	if st, err := os.Lstat(path); err == nil && st.Mode()&fs.ModeSymlink != 0 {
		return nil, fmt.Errorf("cannot create the trace %s: it is a symbolic link, which cannot be followed by files beside it; name the file itself with -o", path)
	}
	at, err := safeopen.At(path)
	if err != nil {
		return nil, cannotCreate(path, err)
	}
	w, err := createParts(at, opts)
	if err != nil {
		at.Close()
	}
	return w, err
}

func createParts(at *safeopen.Place, opts []Option) (*Writer, error) {
	es, err := at.List()
	if err != nil {
		return nil, cannotCreate(at.Path, err)
	}
	var old []part
	for _, name := range append(partsIn(es, at.Name), nextName(at.Name)) {
		st, err := removable(at, name)
		if err != nil {
			return nil, err
		}
		if st != nil {
			old = append(old, part{name, st})
		}
	}
	// They are removed once the new one has its name: a failure before costs nothing.
	w, err := create(at, opts)
	if err != nil {
		return nil, err
	}
	if w.held == nil {
		w.held = &held{}
	}
	w.held.parts = old
	return w, nil
}

// partsOf returns the existing files path.1, path.2 ..., newest first.
func partsOf(path string) ([]string, error) {
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	es, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot look for older files of the recording: %w", err)
	}
	ps := partsIn(es, base)
	for i, p := range ps {
		ps[i] = path + strings.TrimPrefix(p, base)
	}
	return ps, nil
}

// partsIn are base's older files in a directory, newest first.
func partsIn(es []fs.DirEntry, base string) []string {
	var ns []int
	for _, e := range es {
		s, ok := strings.CutPrefix(e.Name(), base+".")
		if n, err := strconv.Atoi(s); ok && err == nil && n > 0 && strconv.Itoa(n) == s {
			ns = append(ns, n)
		}
	}
	slices.Sort(ns)
	var ps []string
	for _, n := range ns {
		ps = append(ps, partName(base, n))
	}
	return ps
}

// errNoTrace: a file contains something else.
var errNoTrace = errors.New("it is no trace")

// isTrace returns why a file must not be replaced or removed: only traces may be, and empty files.
func isTrace(at *safeopen.Place, name string, st fs.FileInfo) error {
	switch {
	case !st.Mode().IsRegular():
		return errNoTrace
	case st.Size() == 0:
		return nil
	}
	f, err := at.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, len(fileMagic))
	if n, _ := f.ReadAt(b, 0); n > 0 && Is(b[:n]) {
		return nil
	}
	return errNoTrace
}

// Is reports by its beginning whether a file can be a trace, including one truncated in its first bytes.
func Is(begin []byte) bool {
	return strings.HasPrefix(string(begin), fileMagic) || strings.HasPrefix(fileMagic, string(begin))
}

// removable returns why a file must not be removed, or its state; nil: it does not exist.
func removable(at *safeopen.Place, name string) (fs.FileInfo, error) {
	st, err := at.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	switch err := isTrace(at, name, st); {
	case errors.Is(err, errNoTrace):
		return nil, fmt.Errorf("%s is in the way of this recording's older files and no trace, it will not be removed; name another file with -o", at.File(name))
	case err != nil:
		return nil, fmt.Errorf("cannot look at an earlier recording: %w; name another file with -o", err)
	}
	return st, nil
}

// Parts returns the files of the recording whose newest is path, oldest first, path itself last. Adjacent
// files of another recording are left out.
func Parts(path string) ([]string, error) {
	is, err := metaOf(path)
	if err != nil {
		return nil, err
	}
	older, err := partsOf(path)
	if err != nil {
		return nil, err
	}
	parts, next := []string{path}, is
	for _, p := range older {
		m, err := metaOf(p)
		if err != nil || m.BootID != is.BootID || m.Start != is.Start || m.Part() >= next.Part() {
			continue
		}
		parts, next = append(parts, p), m
	}
	slices.Reverse(parts)
	return parts, nil
}

// metaOf returns the first meta block of a trace.
func metaOf(path string) (*Meta, error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	r.Want(TypeMeta)
	if b, err := r.Next(); err == nil {
		return b.Meta, nil
	}
	return nil, fmt.Errorf("%s does not say what it records", path)
}

// partOf adds to m the number of the file in the recording.
func (w *Writer) partOf(m Meta) Meta {
	if w.part > 1 {
		m.Extra = maps.Clone(m.Extra)
		if m.Extra == nil {
			m.Extra = map[string]string{}
		}
		m.Extra[extraPart], m.Extra[extraPartStart] = strconv.Itoa(w.part), strconv.FormatInt(w.partStart, 10)
	}
	return m
}

// Rotate ends the current file normally and continues in a new one of the same name. The ended file becomes
// path.1, the previous path.1 becomes path.2, and so on; those beyond path.keep are removed. keep 0 removes
// none. The new file has all definitions that it needs.
//
// Call it right after Drain: what was passed in so far is in the old file, what follows is in the new one.
// Anything in progress is split between the two. A file without events is not ended.
//
// Events are always in some file, even if the recorder is killed at any time. A *[RotateError] does not end
// the recording, a *[WriteError] does.
func (w *Writer) Rotate(keep int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state(); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	if !w.events || w.held != nil {
		return nil
	}
	if err := w.ours(); err != nil {
		return &RotateError{Path: w.name, Err: err}
	}
	begun, err := w.rotate(keep)
	if err != nil {
		return &RotateError{w.name, begun, err}
	}
	return nil
}

// ours returns why the name of the current file cannot be given to another.
func (w *Writer) ours() error {
	if w.at == nil || w.f == nil {
		return errors.New("it was not created by name")
	}
	at, err := w.at.Lstat(w.at.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // someone moved it away: it stays there
	}
	if err != nil {
		return err
	}
	is, err := w.f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(at, is) {
		return errors.New("the name leads to another file by now")
	}
	return nil
}

func (w *Writer) rotate(keep int) (begun bool, err error) {
	tmp := nextName(w.at.Name)
	if _, err := removable(w.at, tmp); err != nil {
		return false, err
	}
	if err := w.fs.remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	f, err := w.fs.create(tmp)
	if err != nil {
		return false, err
	}
	old, start, meta := w.file, w.partStart, w.defs.meta
	undo := func(err error) (bool, error) {
		if w.place != old.place {
			w.file, w.partStart, w.defs.meta, w.err = old, start, meta, nil
			w.part--
		}
		f.Close()
		w.fs.remove(tmp)
		return false, err
	}
	// First make room, because of the size limit or a full disk.
	if err := w.shift(keep); err != nil {
		return undo(err)
	}
	for len(w.older) >= maxHeld || keep > 0 && len(w.older) >= keep {
		w.defs.lose(w.older[0]) // kept open, it would still use its space
		w.older[0].f.Close()
		w.older = w.older[1:]
	}
	w.file = newFile(f, w.at.Path)
	w.f = f
	w.part++
	w.partStart = w.now()
	if err := w.retell(); err != nil {
		return undo(err)
	}
	if err := w.swap(tmp); err != nil {
		return undo(err)
	}
	next := w.file
	w.file = old
	// The new file is in place: failing to end this one is only reported.
	failed := w.finish(End{Time: w.now(), Reason: Continued, Status: -1, Hits: w.told.hits,
		Lost: w.told.lost})
	w.err = nil
	w.before = totals{w.before.hits + w.told.hits, w.before.lost + w.told.lost, w.before.bytes + w.pos}
	w.place.f = w.f
	w.older = append(w.older, w.place)
	w.file = next
	w.drained, w.sinceDrain = noTime, 0 // the next watermark is written at once
	w.segStart = w.partStart
	return true, failed
}

// retell begins a file with the definitions in force; shapes follow when marks refer to them.
func (w *Writer) retell() error {
	w.defs.seg++
	if w.meta != nil {
		var m Meta
		if err := json.Unmarshal(w.meta, &m); err != nil {
			return err
		}
		d, err := w.define(TypeMeta, w.partOf(m), 1, nil, nil)
		if err != nil {
			return err
		}
		w.defs.meta = d
	}
	if err := w.inForce(); err != nil {
		return err
	}
	return w.header()
}

// shift frees path.1: the files from there on, up to the first free name, move on.
func (w *Writer) shift(keep int) error {
	free := 1
	for ; keep <= 0 || free <= keep; free++ {
		if _, err := w.at.Lstat(partName(w.at.Name, free)); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return err
		}
	}
	if keep > 0 && free > keep {
		free = keep
		if _, err := removable(w.at, partName(w.at.Name, free)); err != nil {
			return err
		}
		if err := w.fs.remove(partName(w.at.Name, free)); err != nil {
			return err
		}
	}
	for ; free > 1; free-- {
		if err := w.fs.rename(partName(w.at.Name, free-1), partName(w.at.Name, free)); err != nil {
			return err
		}
	}
	return nil
}

// swap makes the current file path.1 and the one at tmp path. If the file system has hard links, path always
// leads to a complete file.
func (w *Writer) swap(tmp string) error {
	first := partName(w.at.Name, 1)
	linked := true
	if err := w.fs.link(w.at.Name, first); errors.Is(err, fs.ErrNotExist) {
		return w.fs.rename(tmp, w.at.Name) // it was moved away
	} else if err != nil {
		linked = false
		if err := w.fs.rename(w.at.Name, first); err != nil {
			return err
		}
	}
	err := w.fs.rename(tmp, w.at.Name)
	switch {
	case err == nil:
	case linked:
		w.fs.remove(first)
	default:
		w.fs.rename(first, w.at.Name)
	}
	return err
}

// Total returns the bytes written so far, over all files, removed ones included.
func (w *Writer) Total() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.before.bytes + w.pos
}

// growth is how fast a file grows between calls of Full.
type growth struct {
	last, most int64
	part       int
}

// Full reports whether the current file, with what is still needed to end it, could exceed limit bytes by the
// next call. Call it after each Drain, and call Rotate if it is true.
func (w *Writer) Full(limit int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Encoded records shrink when they are packed.
	size := w.pos + int64(w.hits.size()+w.marks.size()+w.seqs.size()+w.sched.size()+w.samples.size()+
		w.faults.size()+w.experts.size()) + endBytes
	g := &w.growth
	if w.part == g.part {
		g.most = max(size-g.last, g.most-g.most/64)
	}
	g.last, g.part = size, w.part
	return size+2*g.most > limit
}

// endBytes exceeds what ends a file: four more blocks of records, a watermark, an end.
const endBytes = 16 << 10
