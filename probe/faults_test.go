// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/engine"
)

// A page of a file that lies on disk only is read by a major fault; the page of memory that was never touched needs a
// minor one.
func TestFaults(t *testing.T) {
	needBPF(t)
	s, err := Open(Config{Faults: FaultsAll})
	if err != nil {
		t.Fatal(err, VerifierLog(err))
	}
	defer s.Close()
	a, err := s.Process(os.Getpid(), &engine.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Detach()
	f, err := os.CreateTemp(".", "pages")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := os.Getpagesize()
	f.Write(make([]byte, 64*page))
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	file, err := unix.Mmap(int(f.Fd()), 0, 64*page, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(file)
	unix.Madvise(file, unix.MADV_RANDOM) // each page by itself
	anon, err := unix.Mmap(-1, 0, 4*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(anon)
	var resident [64]byte
	if _, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&file[0])), uintptr(len(file)), uintptr(unsafe.Pointer(&resident[0]))); e != 0 {
		t.Fatal(e)
	}
	disk := resident[3]&1 == 0 // else the file system has none
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := Now()
	read := file[3*page+5]
	anon[page+7] = read
	after := Now()
	var e Events
	s.Drain(&e)
	found := map[FaultKind]*Fault{}
	for i := range e.Faults {
		k := &e.Faults[i]
		if k.TID != int32(unix.Gettid()) || k.Time < before || k.Time > after {
			continue
		}
		switch k.Addr {
		case uint64(uintptr(unsafe.Pointer(&file[3*page+5]))), uint64(uintptr(unsafe.Pointer(&anon[page+7]))):
			found[k.Kind] = k
		}
	}
	major, minor := found[FaultMajor], found[FaultMinor]
	if minor == nil || disk && major == nil {
		t.Fatalf("of %d faults, those of the test: %+v", len(e.Faults), found)
	}
	if l := s.Lost(); l != (Lost{}) {
		t.Errorf("lost %+v", l)
	}
	if minor.Minor == 0 || (minor.Dur >= 0) != s.FaultsTimed() {
		t.Errorf("%+v", *minor)
	}
	if !disk {
		t.Skipf("the file stays in memory here, as its file system has no disk; the rest: %+v, timed: %t", *minor, s.FaultsTimed())
	}
	if s.FaultsTimed() && (major.Dur <= 0 || major.Dur > after-before || minor.Dur <= 0) {
		t.Errorf("durations %d and %d ns of %d", major.Dur, minor.Dur, after-before)
	}
	if major.Read >= 0 && major.Read < int64(page) || minor.Read > 0 {
		t.Errorf("%d and %d bytes were read, want a page and none", major.Read, minor.Read)
	}
	if minor.Major != major.Major || minor.Minor <= major.Minor || major.Major == 0 {
		t.Errorf("counts %d, %d and %d, %d", major.Major, major.Minor, minor.Major, minor.Minor)
	}
	t.Logf("%+v %+v", *major, *minor)
}
