// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// On a real full file system. It takes root to make one.
func TestFullTmpfs(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	defer syscall.Unmount(dir, 0)
	path := filepath.Join(dir, "run.pinf")
	w, err := Create(path)
	must(t, err)
	err = record(w, 1000)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "is kept") {
		t.Fatal(err)
	}
	t.Log(err)
	if e := w.Close(End{Time: 300 * second, Reason: "interrupted"}); e != err {
		t.Fatal(e)
	}
	r, err := Open(path)
	must(t, err)
	defer r.Close()
	c := collect(t, r)
	if len(c.Hits) == 0 || r.Problems() != nil {
		t.Errorf("%d hits, %v", len(c.Hits), r.Problems())
	}
	t.Logf("%d hits, losses %+v, ends %+v", len(c.Hits), c.Losses, c.Ends)
}
