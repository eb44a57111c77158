// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"syscall"

	"github.com/profinfer/profinfer/internal/format"
)

// needSpace fails if the file system of dir lacks space for size bytes and a little more.
func needSpace(dir string, size int64) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return nil // unknown: writing then fails or not
	}
	const spare = 64 << 20
	free := int64(st.Bavail) * int64(st.Bsize)
	if free < size+spare {
		return fmt.Errorf("needs %s in %s, where only %s are free: free some space or choose another folder or a smaller model",
			format.Bytes(size+spare), dir, format.Bytes(free))
	}
	return nil
}
