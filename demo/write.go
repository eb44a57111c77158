// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/profinfer/profinfer/internal/safeopen"
)

// Progress receives progress reports: what is being done, and how much of a total (bytes; total 0 if
// unknown). It is called often and must be fast.
type Progress func(what string, done, total int64)

func (p Progress) report(what string, done, total int64) {
	if p != nil {
		p(what, done, total)
	}
}

// Write writes the model to path, replacing an existing file. A file under that name is always complete: an
// interrupted one is left as path.part and replaced next time.
func Write(path string, spec Spec) error {
	return WriteProgress(context.Background(), path, spec, nil)
}

// WriteProgress is [Write] that can be cancelled and reports progress.
func WriteProgress(ctx context.Context, path string, spec Spec, progress Progress) (err error) {
	f, err := spec.file()
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := safeopen.MkdirAll(dir); err != nil {
		return fmt.Errorf("folder for the model: %w", err)
	}
	at, err := safeopen.At(path)
	if err != nil {
		return fmt.Errorf("model file: %w", err)
	}
	defer at.Close()
	part := at.Name + ".part"
	if err := at.Remove(part); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := needSpace(dir, size); err != nil {
		return fmt.Errorf("model %s: %w", spec.Name, err)
	}
	out, err := at.Create(part, safeopen.Public)
	if err != nil {
		return fmt.Errorf("model file: %w", err)
	}
	defer func() {
		if err != nil {
			out.Close()
			at.Remove(part)
		}
	}()
	w := &progressWriter{ctx: ctx, w: out, what: "writing " + filepath.Base(path), total: size,
		progress: progress}
	if err := f.Write(w); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return at.Rename(part, at.Name)
}

// Ensure makes sure that directory dir contains the model and returns its path. An existing file is used if
// it has the right size and header.
func Ensure(ctx context.Context, dir string, spec Spec, progress Progress) (string, error) {
	path := filepath.Join(dir, spec.FileName())
	same, err := spec.is(path)
	if err != nil {
		return "", err
	}
	if same {
		return path, nil
	}
	return path, WriteProgress(ctx, path, spec, progress)
}

// is reports whether the file at path is this model, judged by length and header.
func (s Spec) is(path string) (bool, error) {
	f, err := s.file()
	if err != nil {
		return false, err
	}
	size, err := f.Size()
	if err != nil {
		return false, err
	}
	want, err := f.Header()
	if err != nil {
		return false, err
	}
	in, err := safeopen.Input(path)
	if err != nil {
		return false, nil // if something is wrong, writing will report it
	}
	defer in.Close()
	if st, err := in.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() != size {
		return false, nil
	}
	have := make([]byte, len(want))
	if _, err := io.ReadFull(in, have); err != nil {
		return false, nil
	}
	return bytes.Equal(have, want), nil
}

// progressWriter counts the bytes written, and stops when its context is done.
type progressWriter struct {
	ctx         context.Context
	w           io.Writer
	what        string
	done, total int64
	progress    Progress
}

func (p *progressWriter) Write(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := p.w.Write(b)
	p.done += int64(n)
	p.progress.report(p.what, p.done, p.total)
	return n, err
}
