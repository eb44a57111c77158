// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/trace"
)

// A page of a file that lies on disk only is read by a major fault; the page of memory that was never touched
// needs a minor one.
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
	if _, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&file[0])), uintptr(len(file)),
		uintptr(unsafe.Pointer(&resident[0]))); e != 0 {
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
	inFile, inMemory := (*trace.Fault)(nil), (*trace.Fault)(nil)
	for i := range e.Faults {
		k := &e.Faults[i]
		if k.TID != int32(unix.Gettid()) || k.Time < before || k.Time > after {
			continue
		}
		switch k.Addr {
		case uint64(uintptr(unsafe.Pointer(&file[3*page+5]))):
			inFile = k
		case uint64(uintptr(unsafe.Pointer(&anon[page+7]))):
			inMemory = k
		}
	}
	if inFile == nil || inMemory == nil {
		t.Fatalf("of %d faults, those of the test: %+v, %+v", len(e.Faults), inFile, inMemory)
	}
	if l := s.Lost(); l != (Lost{}) {
		t.Errorf("lost %+v", l)
	}
	if inMemory.Kind != trace.FaultMinor || inMemory.Minor <= inFile.Minor-1 ||
		(inMemory.Dur >= 0) != s.FaultsTimed() || inMemory.Read > 0 {
		t.Errorf("%+v after %+v", *inMemory, *inFile)
	}
	if !disk {
		t.Skipf("the file stays in memory here, as its file system has no disk; the rest: %+v, timed: %t",
			*inMemory, s.FaultsTimed())
	}
	// The runtime's signals can end the fault early; then it is done again, and counted as minor.
	if inFile.Kind == trace.FaultMajor && (inFile.Major == 0 || inMemory.Major != inFile.Major) {
		t.Errorf("counts %d and %d", inFile.Major, inMemory.Major)
	}
	if s.FaultsTimed() && (inFile.Dur <= inMemory.Dur || inFile.Dur > after-before) {
		t.Errorf("durations %d and %d ns of %d", inFile.Dur, inMemory.Dur, after-before)
	}
	if inFile.Read < int64(page) {
		t.Errorf("%d bytes were read, want a page", inFile.Read)
	}
	t.Logf("%+v %+v", *inFile, *inMemory)
}
