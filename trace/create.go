// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/profinfer/profinfer/internal/safeopen"
)

// held is an older recording that keeps its name until the new one has something to record.
type held struct {
	f     *os.File    // the new one; nil: it already has its name
	tmp   string      // its name until then; empty: none
	was   fs.FileInfo // the older one
	parts []part      // other files of the older one, to be removed
}

// part is a file with its state when it was examined.
type part struct {
	name string
	was  fs.FileInfo
}

func (p *part) is(now fs.FileInfo) bool {
	return os.SameFile(now, p.was) && now.Size() == p.was.Size() && now.ModTime().Equal(p.was.ModTime())
}

// An Option changes how a recording is begun.
type Option func(*Writer)

// Force replaces an existing file even if it is not a trace.
func Force() Option { return func(w *Writer) { w.force = true } }

// Create begins a recording in the file path. An older recording of that name is unchanged until the first
// hit or mark is written, or the recording is closed: an attempt that records nothing costs nothing
// ([Writer.Discard]). Until then the new file has no name. On a file system without unnamed files it lies
// beside the older one, hidden, and a recorder that is killed in that time leaves it there. If no file can be
// created beside it, the older one is emptied at once. An empty file is replaced at once. Symbolic links are
// followed, by root only if they do not belong to another user.
//
// Only the owner can access a file (0600, or stricter if an older one was); see package safeopen for who that
// is. Only regular files are replaced, and, without [Force], only if they are empty or traces.
func Create(path string, opts ...Option) (*Writer, error) {
	at, err := safeopen.At(path)
	if err != nil {
		return nil, cannotCreate(path, err)
	}
	w, err := create(at, opts)
	if err != nil {
		at.Close()
	}
	return w, err
}

func create(at *safeopen.Place, opts []Option) (*Writer, error) {
	w := NewWriter(nil)
	for _, o := range opts {
		o(w)
	}
	w.at, w.mode = at, safeopen.Private
	f, err := w.open()
	if err != nil {
		return nil, err
	}
	w.file, w.f = newFile(f, at.Path), f
	w.fs = namesIn(at, w.mode)
	if err := w.header(); err != nil {
		w.settle()
		f.Close()
		return nil, err
	}
	return w, nil
}

// open makes the recording's file.
func (w *Writer) open() (*os.File, error) {
	path, at := w.at.Path, w.at
	st, err := at.Lstat(at.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Not write-only: definitions that fell out of the cache are read back.
		f, err := at.Create(at.Name, w.mode)
		if err != nil {
			return nil, cannotCreate(path, err)
		}
		return f, nil
	case err != nil:
		return nil, cannotCreate(path, err)
	case st.IsDir():
		return nil, fmt.Errorf("cannot create the trace %s: it is a directory; name a file with -o", path)
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("cannot create the trace %s: it is not a regular file, it will not be overwritten; name another with -o", path)
	}
	if err := isTrace(at, at.Name, st); errors.Is(err, errNoTrace) && !w.force {
		return nil, fmt.Errorf("cannot create the trace: %s holds something else than a trace, it is not replaced; name another file with -o, or replace it with --force", path)
	} else if err != nil && !errors.Is(err, errNoTrace) {
		return nil, cannotCreate(path, err) // an unreadable file is not replaced
	}
	if err := at.Replaceable(at.Name); err != nil {
		return nil, cannotCreate(path, err)
	}
	w.mode = safeopen.Stricter(st)
	h := &held{was: st}
	f, tmp, err := at.Temporary(w.mode)
	if err != nil {
		if f, err = at.Empty(at.Name, w.mode); err != nil {
			return nil, cannotCreate(path, err)
		}
		return f, nil
	}
	h.f, h.tmp = f, tmp
	if st.Size() > 0 {
		w.held = h
		return f, nil
	}
	if err := w.rename(h); err != nil {
		f.Close()
		return nil, cannotCreate(path, err)
	}
	return f, nil
}

func cannotCreate(path string, err error) error {
	if !strings.Contains(err.Error(), path) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("cannot create the trace: %w; name another file with -o", err)
}

// publish gives the recording its name. The writer must be locked.
func (w *Writer) publish() error {
	h := w.held
	if h == nil {
		return nil
	}
	w.held = nil
	if h.f != nil {
		if err := w.rename(h); err != nil {
			w.kept = noTime
			return w.fail(0, err)
		}
	}
	for _, p := range h.parts { // one that stays differs from this recording's by its header
		if now, err := w.at.Lstat(p.name); err == nil && p.is(now) {
			w.at.Remove(p.name)
		}
	}
	return nil
}

// rename puts the new file in the older one's place, if both are unchanged. On failure the new file has
// no name.
func (w *Writer) rename(h *held) (err error) {
	if h.tmp, err = w.at.Named(h.f, h.tmp); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			w.at.Remove(h.tmp)
		}
	}()
	is, err := h.f.Stat()
	if err != nil {
		return err
	}
	if at, err := w.at.Lstat(h.tmp); err != nil || !os.SameFile(at, is) {
		return fmt.Errorf("%s, to which it was written, is another file by now", w.at.File(h.tmp))
	}
	// Inode numbers are reused.
	was := part{w.at.Name, h.was}
	if at, err := w.at.Lstat(w.at.Name); err == nil && !was.is(at) {
		return errors.New("another file of that name was made meanwhile; it is kept")
	}
	return w.at.Rename(h.tmp, w.at.Name)
}

// settle finishes what Create began: a successful recording gets its name, a failed one leaves no file beside
// the older one.
func (w *Writer) settle() {
	switch h := w.held; {
	case h == nil:
	case w.err == nil:
		w.publish()
	default:
		w.held = nil
		if h.tmp != "" {
			w.at.Remove(h.tmp)
		}
	}
}

// Discard ends a recording in which nothing was recorded: its file is removed, and an older one of its name
// stays unchanged. A recording that already has its name has hits or marks, unless there was no older one. It
// returns the error that ended the recording, nil if none did.
func (w *Writer) Discard() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.err
	}
	w.closed = true
	if w.at != nil {
		name := w.at.Name
		if w.held != nil && w.held.f != nil {
			name = w.held.tmp
		}
		is, err := w.f.Stat()
		if at, e := w.at.Lstat(name); name != "" && err == nil && e == nil && os.SameFile(at, is) {
			w.at.Remove(name)
		}
		w.at.Close()
	}
	w.held = nil
	if w.f != nil {
		w.f.Close()
	}
	for _, p := range w.older {
		p.f.Close()
	}
	w.older, w.defs = nil, definitions{}
	if w.enc != nil {
		w.enc.Close()
	}
	return w.err
}
