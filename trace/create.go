// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// held is an older recording that has the name of the new one until that has something to tell.
type held struct {
	tmp   string      // where the new one is written; empty: under its name already
	was   fs.FileInfo // the older one
	parts []string    // the older one's other files, to be removed
}

// Create begins a recording in the file path. An older file of that name stays as it is until the first hit or mark was written, or
// the recording is closed: so a recording that comes to nothing costs none ([Writer.Discard]). Until then the new one is written beside it, as
// path.new0 (or the next number that is free); a recorder that is killed in that time leaves it there. Where no file can be made beside it, the older one is
// emptied at once, and so is an empty one. A symbolic link is followed.
//
// Nothing but a regular file is written to.
func Create(path string) (*Writer, error) {
	name := path
	st, err := os.Stat(path)
	if err == nil {
		if err := regular(path, st); err != nil {
			return nil, err
		}
		if to, err := filepath.EvalSymlinks(path); err == nil {
			name = to
		}
	}
	var f *os.File
	var h *held
	if err == nil && st.Size() > 0 {
		if f, err = os.OpenFile(name, os.O_RDWR, 0); err != nil { // what may not be written is not replaced
			return nil, cannotCreate(err)
		}
		f.Close()
		f, h = beside(name, st)
	}
	if h == nil {
		// Not O_WRONLY: definitions that fell out of the cache are read back.
		if f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644); err != nil {
			return nil, cannotCreate(err)
		}
		if st, err := f.Stat(); err == nil {
			if err := regular(path, st); err != nil {
				f.Close()
				return nil, err
			}
		}
	}
	w := NewWriter(f)
	w.f, w.name, w.path, w.held = f, path, name, h
	if err := w.header(); err != nil {
		w.settle()
		f.Close()
		return nil, err
	}
	return w, nil
}

func cannotCreate(err error) error {
	return fmt.Errorf("cannot create the trace: %w; name another file with -o", err)
}

func regular(path string, st fs.FileInfo) error {
	switch {
	case st.IsDir():
		return fmt.Errorf("cannot create the trace %s: it is a directory; name a file with -o", path)
	case !st.Mode().IsRegular():
		return fmt.Errorf("cannot create the trace %s: it is not a regular file, it will not be overwritten; name another with -o", path)
	}
	return nil
}

// beside makes a file beside an older one, with its owner and permissions. nil: none can be made.
func beside(path string, older fs.FileInfo) (*os.File, *held) {
	for i := range 100 {
		tmp := fmt.Sprintf("%s.new%d", path, i)
		f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			break
		}
		if sameOwner(f, older) == nil && f.Chmod(older.Mode().Perm()) == nil {
			return f, &held{tmp: tmp, was: older}
		}
		f.Close()
		os.Remove(tmp)
		break
	}
	return nil, nil
}

// publish gives the recording its name. The writer is locked.
func (w *Writer) publish() error {
	h := w.held
	if h == nil {
		return nil
	}
	w.held = nil
	if h.tmp != "" {
		if err := w.rename(h); err != nil {
			os.Remove(h.tmp)
			w.kept = noTime
			return w.fail(0, err)
		}
	}
	for _, p := range h.parts {
		os.Remove(p) // one that stays is told from this recording's by its head
	}
	return nil
}

// rename puts the new file in the older one's place, if both are what they were.
func (w *Writer) rename(h *held) error {
	is, err := w.f.Stat()
	if err != nil {
		return err
	}
	if at, err := os.Lstat(h.tmp); err != nil || !os.SameFile(at, is) {
		return fmt.Errorf("%s, to which it was written, is another file by now", h.tmp)
	}
	// Numbers of files are used again.
	if at, err := os.Lstat(w.path); err == nil && !(os.SameFile(at, h.was) && at.Size() == h.was.Size() && at.ModTime().Equal(h.was.ModTime())) {
		return errors.New("another file of that name was made meanwhile; it is kept")
	}
	return os.Rename(h.tmp, w.path)
}

// settle ends what Create began: a recording without failure has its name, another leaves no file beside the older one.
func (w *Writer) settle() {
	switch h := w.held; {
	case h == nil:
	case w.err == nil:
		w.publish()
	default:
		w.held = nil
		if h.tmp != "" {
			os.Remove(h.tmp)
		}
	}
}

// Discard ends a recording in which nothing was recorded: its file is removed, and an older one of its name is what it was. One that has
// its name already has hits or marks, unless there was no older one. It returns the error that ended the recording, nil if none did.
func (w *Writer) Discard() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.err
	}
	w.closed = true
	name := w.path
	if w.held != nil && w.held.tmp != "" {
		name = w.held.tmp
	}
	w.held = nil
	if w.f != nil {
		is, err := w.f.Stat()
		if at, e := os.Lstat(name); err == nil && e == nil && os.SameFile(at, is) {
			os.Remove(name)
		}
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
