// SPDX-License-Identifier: Apache-2.0

//go:build unix

package trace

import (
	"io/fs"
	"os"
	"syscall"
)

// sameOwner gives a file the owner and group of another; an error: that is not permitted, and they differ.
func sameOwner(f *os.File, of fs.FileInfo) error {
	st, ok := of.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	is, err := f.Stat()
	if err != nil {
		return err
	}
	if own, ok := is.Sys().(*syscall.Stat_t); ok && own.Uid == st.Uid && own.Gid == st.Gid {
		return nil
	}
	return f.Chown(int(st.Uid), int(st.Gid))
}
