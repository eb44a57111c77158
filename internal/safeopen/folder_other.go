// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package safeopen

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// On other systems recordings are only read and exported, by their owners.

type folder struct{ path string }

func (p *Place) find(path string, mkdir bool) error {
	if mkdir {
		return os.MkdirAll(path, 0o755)
	}
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	p.path, p.Name = filepath.Dir(path), filepath.Base(path)
	_, err := os.Stat(p.path)
	return err
}

func (p *Place) at(name string) string { return filepath.Join(p.path, name) }

// Mine returns an error if a folder is unfit for programs that root will run; here always nil.
func Mine(string) error { return nil }

// Close closes the folder.
func (p *Place) Close() error { return nil }

// Lstat describes a name.
func (p *Place) Lstat(name string) (fs.FileInfo, error) { return os.Lstat(p.at(name)) }

// Open opens a regular file for reading.
func (p *Place) Open(name string) (*os.File, error) {
	st, err := os.Lstat(p.at(name))
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &SpecialError{p.File(name), st.Mode()}
	}
	return os.Open(p.at(name))
}

// Input opens a file for reading.
func Input(path string) (*os.File, error) { return os.Open(path) }

// Create creates a new file, and fails if the name exists.
func (p *Place) Create(name string, mode fs.FileMode) (*os.File, error) {
	return os.OpenFile(p.at(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
}

func init() { AllNamed = true }

// Unnamed is not supported here: all files have names.
func (p *Place) Unnamed(fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

// LinkFile is not supported here.
func (p *Place) LinkFile(*os.File, string) error { return errors.ErrUnsupported }

// Empty opens an existing file to rewrite it in place.
func (p *Place) Empty(name string, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(p.at(name), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Chmod(mode), f.Truncate(0)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Replaceable returns why a file cannot be replaced by another.
func (p *Place) Replaceable(name string) error {
	f, err := os.OpenFile(p.at(name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// Stream opens a pipe or a device for writing.
func (p *Place) Stream() (*os.File, error) { return os.OpenFile(p.at(p.Name), os.O_WRONLY, 0) }

// Rename renames a file within the folder, replacing an existing one.
func (p *Place) Rename(from, to string) error { return os.Rename(p.at(from), p.at(to)) }

// Link adds a name to a file.
func (p *Place) Link(from, to string) error { return os.Link(p.at(from), p.at(to)) }

// Remove removes a name.
func (p *Place) Remove(name string) error { return os.Remove(p.at(name)) }

// List returns the folder's entries.
func (p *Place) List() ([]fs.DirEntry, error) { return os.ReadDir(p.path) }
