// SPDX-License-Identifier: Apache-2.0

// Package safeopen opens files so that no other user can influence which. profinfer mostly runs as root,
// often in folders of others and with names that others chose. A link, a device or a pipe planted in place of
// its file must not redirect what root writes, and no other user may own or read the result. Input is checked
// before it is opened, because opening a device or a pipe has side effects.
//
// It is the only way in which recordings, pages, exports and models are written: a folder is resolved once
// and held open, files in it are created under unused names, and mode and owner are set by the descriptor.
package safeopen

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// Modes of files. Recordings, pages and exports contain command lines, names and prompts.
const (
	Private fs.FileMode = 0o600
	Public  fs.FileMode = 0o644
)

// Stricter returns the mode of a private file that replaces another: permissions that the older file lacked
// stay removed. older can be nil.
func Stricter(older fs.FileInfo) fs.FileMode {
	if older == nil {
		return Private
	}
	return Private & older.Mode().Perm()
}

// Place is the location of a file: a folder, held open, and a name in it. All names that its methods take are
// names in that folder.
type Place struct {
	Path string // as requested
	Name string // in the folder, after resolving links of Path
	folder
	stream *os.File // of this process, not a name in a folder: /dev/stdout
}

// At resolves a path to a place. When root writes, symbolic links of other users are not followed; links of
// root and, under sudo, of the calling user are. The caller must close the place.
func At(path string) (*Place, error) {
	p := &Place{Path: path}
	if path == "" {
		return nil, errors.New("a file without a name")
	}
	if os.IsPathSeparator(path[len(path)-1]) {
		return nil, &SpecialError{path, fs.ModeDir}
	}
	if err := p.find(path, false); err != nil {
		return nil, err
	}
	return p, nil
}

// MkdirAll creates a folder and its missing parents, resolving the path like At. What it creates in a folder
// of the user who called sudo belongs to that user.
func MkdirAll(path string) error {
	p := &Place{Path: path}
	if err := p.find(path, true); err != nil {
		return err
	}
	p.Close()
	return nil
}

// File returns a name of the folder in the form shown to the user.
func (p *Place) File(name string) string {
	if name == p.Name {
		return p.Path
	}
	return filepath.Join(filepath.Dir(p.Path), name)
}

// LinkError means that a path leads through a symbolic link that is not followed.
type LinkError struct {
	Path, Link string
	UID        uint32 // its owner
}

func (e *LinkError) Error() string {
	return fmt.Sprintf("%s: %s is a symbolic link of another user (%d), which root does not follow; name the place itself", e.Path, e.Link, e.UID)
}

// SpecialError means that the file to be opened is not a regular file.
type SpecialError struct {
	Path string
	Mode fs.FileMode
}

func (e *SpecialError) Error() string {
	return fmt.Sprintf("%s is %s, not a regular file", e.Path, kind(e.Mode))
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "of the kernel's"
}

// ForeignError means that a file can neither be written in place nor be replaced.
type ForeignError struct{ Path, Why string }

func (e *ForeignError) Error() string { return e.Path + ": " + e.Why }

// AllNamed is set by tests to simulate file systems on which every file has a name.
var AllNamed bool

// Temporary creates a file beside the place's, which is to get its name once it is complete ([Place.Named]).
// Its own name is empty if it needs none until then.
func (p *Place) Temporary(mode fs.FileMode) (f *os.File, name string, err error) {
	if f, err = p.Unnamed(mode); err == nil {
		return f, "", nil
	}
	name, err = p.free(func(name string) error {
		f, err = p.Create(name, mode)
		return err
	})
	return f, name, err
}

// Named gives a temporary file a name, if it has none yet, so that it can be renamed over another.
func (p *Place) Named(f *os.File, name string) (string, error) {
	if name != "" {
		return name, nil
	}
	return p.free(func(name string) error { return p.LinkFile(f, name) })
}

// free calls take with hidden names until one is unused.
func (p *Place) free(take func(name string) error) (name string, err error) {
	for range 100 {
		name = fmt.Sprintf(".%s.%08x", p.Name, rand.Uint32())
		if err = take(name); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return "", err
	}
	return name, nil
}

// Write writes a file completely or not at all: the existing file stays until the new one is complete.
//
// asked: the user named this very path. Then a regular file is replaced, and a pipe or device of that user or
// of root is written to, as by any program. Otherwise a file is replaced only if it is empty, or if ours
// reports, from its beginning, that profinfer wrote it.
func Write(path string, asked bool, ours func(begin []byte) bool, fn func(io.Writer) error) error {
	if err := write(path, asked, ours, fn); err != nil {
		if strings.Contains(err.Error(), path) {
			return fmt.Errorf("cannot write: %w", err)
		}
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}

func write(path string, asked bool, ours func([]byte) bool, fn func(io.Writer) error) error {
	p, err := At(path)
	if err != nil {
		return err
	}
	defer p.Close()
	older, err := p.Lstat(p.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		older = nil
	case err != nil:
		return err
	case older.IsDir():
		return &SpecialError{path, older.Mode()}
	case !older.Mode().IsRegular():
		if !asked {
			return fmt.Errorf("%w; name another file with -o", &SpecialError{path, older.Mode()})
		}
		f, err := p.Stream()
		if err != nil {
			return err
		}
		defer f.Close()
		return buffered(f, fn)
	case !asked && older.Size() > 0:
		f, err := p.Open(p.Name)
		if err != nil {
			return err
		}
		begin := make([]byte, 4096)
		n, err := io.ReadFull(f, begin)
		f.Close()
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
		if !ours(begin[:n]) {
			return fmt.Errorf("%s is no file that profinfer wrote, it is not replaced unless it is named; name it, or another, with -o", path)
		}
	}
	f, tmp, err := p.Temporary(Stricter(older))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := buffered(f, fn); err != nil {
		if tmp != "" {
			p.Remove(tmp)
		}
		return err
	}
	if tmp, err = p.Named(f, tmp); err != nil {
		return err
	}
	defer p.Remove(tmp) // it has another name if all went well
	err = f.Close()
	if err == nil {
		err = p.Rename(tmp, p.Name)
	}
	return err
}

func buffered(f *os.File, fn func(io.Writer) error) error {
	w := bufio.NewWriterSize(f, 1<<16)
	if err := fn(w); err != nil {
		return err
	}
	return w.Flush()
}
