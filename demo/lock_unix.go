// SPDX-License-Identifier: Apache-2.0

//go:build unix

package demo

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/profinfer/profinfer/internal/safeopen"
)

// lock waits until no other process holds the file at path locked and locks it: two installations in one
// directory would damage each other. The lock is released with the process.
func lock(ctx context.Context, path string, progress Progress) (unlock func(), err error) {
	at, err := safeopen.At(path)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	f, err := at.Create(at.Name, safeopen.Public)
	if errors.Is(err, fs.ErrExist) {
		f, err = at.Open(at.Name)
	}
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		}
		progress.report("waiting for another installation to end", 0, 0)
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
	}
}
