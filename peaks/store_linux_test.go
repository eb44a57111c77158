// SPDX-License-Identifier: Apache-2.0

package peaks

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPipe: a named pipe in the file's place, which nobody writes to, is not waited for.
func TestPipe(t *testing.T) {
	p, dir := sample(), t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, p.Machine.key()+".json"), 0o600); err != nil {
		t.Skip(err)
	}
	if got, err := load([]string{dir}, &p.Machine); got != nil || err == nil {
		t.Errorf("%v, %v", got, err)
	}
}
