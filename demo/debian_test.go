// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A package that was left by an interrupted run is taken by its sum, not by its size and name.
func TestSameSum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.deb")
	whole := []byte("a package")
	if err := os.WriteFile(path, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("SHA256:%x", sha256.Sum256(whole))
	if err := sameSum(path, want); err != nil {
		t.Error(err)
	}
	if err := sameSum(path, "MD5Sum:00"); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("a pbckage"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := sameSum(path, want); err == nil || !strings.Contains(err.Error(), "try again") {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Error("what is not Debian's is left")
	}
}

func TestDropSetID(t *testing.T) {
	root := t.TempDir()
	su := filepath.Join(root, "usr/bin/su")
	if err := os.MkdirAll(filepath.Dir(su), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(su, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(su, 0o755|fs.ModeSetuid|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(outside, 0o755|fs.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if err := dropSetID(root); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(su); err != nil || st.Mode() != 0o755 {
		t.Error(st.Mode(), err)
	}
	if st, err := os.Stat(outside); err != nil || st.Mode()&fs.ModeSetuid == 0 {
		t.Error("what a link leads to was changed", err)
	}
}

// Where root has no HOME the folder below /var/cache is root's alone.
func TestClosed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "profinfer")
	for range 2 {
		if err := closed(dir); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
			t.Error(st.Mode(), err)
		}
		if err := os.Chmod(dir, 0o755); err != nil { // as older ones made it
			t.Fatal(err)
		}
	}
	link := dir + "2"
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := closed(link); err == nil {
		t.Error("a link was taken for the folder")
	}
}

// apt's settings hold a proxy's password, and are for nobody else to read, also where an older one had let
// them.
func TestAptSettings(t *testing.T) {
	if _, err := exec.LookPath("apt-config"); err != nil {
		t.Skip("no apt here: ", err)
	}
	system := filepath.Join(t.TempDir(), "system.conf")
	if err := os.WriteFile(system, []byte("Acquire::http::Proxy \"http://me:secret@127.0.0.1:9\";\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("APT_CONFIG", system)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "apt.conf"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := newApt(context.Background(), dir, nil)
	if err != nil {
		t.Skip("apt's settings cannot be made here: ", err)
	}
	b, err := os.ReadFile(a.conf())
	if err != nil || !strings.Contains(string(b), "me:secret@") {
		t.Fatalf("the proxy is not carried over: %v\n%s", err, b)
	}
	if st, err := os.Stat(a.conf()); err != nil || st.Mode().Perm() != 0o600 {
		t.Error(st.Mode(), err)
	}
}
