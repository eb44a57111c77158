// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package safeopen

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Elsewhere recordings are read and exported, by whom they belong to.

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

// Mine says why a folder is not fit for programs that root will run.
func Mine(string) error { return nil }

// Close gives the folder back.
func (p *Place) Close() error { return nil }

// Lstat tells of a name.
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

// Create makes a new file, never one that is there.
func (p *Place) Create(name string, mode fs.FileMode) (*os.File, error) {
	return os.OpenFile(p.at(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
}

func init() { AllNamed = true }

// Unnamed makes no file here: they all have names.
func (p *Place) Unnamed(fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

// LinkFile names no file here.
func (p *Place) LinkFile(*os.File, string) error { return errors.ErrUnsupported }

// Empty opens an older file to write it anew where it is.
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

// Replaceable says why the file of a name cannot be replaced by another.
func (p *Place) Replaceable(name string) error {
	f, err := os.OpenFile(p.at(name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// Stream opens a pipe or a device for writing.
func (p *Place) Stream() (*os.File, error) { return os.OpenFile(p.at(p.Name), os.O_WRONLY, 0) }

// Rename gives a file another name in the folder, in place of what has it.
func (p *Place) Rename(from, to string) error { return os.Rename(p.at(from), p.at(to)) }

// Link gives a file one more name.
func (p *Place) Link(from, to string) error { return os.Link(p.at(from), p.at(to)) }

// Remove takes a name away.
func (p *Place) Remove(name string) error { return os.Remove(p.at(name)) }

// List is what the folder holds.
func (p *Place) List() ([]fs.DirEntry, error) { return os.ReadDir(p.path) }
