// SPDX-License-Identifier: Apache-2.0

package target

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

var steppedGlobal int

//go:noinline
func steppedCallee(n int) int { return n*3 + os.Getpagesize() }

//go:noinline
func steppedCaller(n int) int { return steppedCallee(n) + steppedGlobal }

// TestKernelSteps asks the running kernel which instructions it steps: to do so it maps a page of its own,
// [uprobes], into the process, and it needs none for what it emulates. Each instruction is probed and run in
// a process of its own.
func TestKernelSteps(t *testing.T) {
	if s := os.Getenv("PROFINFER_TEST_STEP"); s != "" {
		at, _ := strconv.ParseUint(s, 10, 64)
		os.Exit(stepHere(at))
	}
	if _, err := os.Stat("/sys/bus/event_source/devices/uprobe/type"); err != nil {
		needsRoot(t, "this kernel has no uprobes through perf events: %v", err)
	}
	entry := uint64(reflect.ValueOf(steppedCaller).Pointer())
	code := unsafe.Slice((*byte)(unsafe.Pointer(reflect.ValueOf(steppedCaller).Pointer())), 256)
	// one of each kind and class, all of which every call runs through
	type sort struct {
		kind  Kind
		class Class
	}
	found := map[sort]uint64{}
	for pc, kind := uint64(0), Other; kind != Return; {
		in, err := Decode(Arch(runtime.GOARCH), code[pc:], entry+pc)
		if err != nil {
			t.Fatal(err)
		}
		s := sort{in.Kind, in.Class}
		if _, ok := found[s]; !ok && in.Class != ClassRefused {
			found[s] = pc
			t.Logf("%v, %v: %s", s.kind, s.class, in.Text(nil))
		}
		pc, kind = pc+uint64(in.Len), in.Kind
	}
	for _, s := range []sort{{Call, ClassEmulated}, {CondJump, ClassEmulated}, {Other, ClassStepped}} {
		if _, ok := found[s]; !ok {
			t.Errorf("no %v, %v: nothing is tested", s.kind, s.class)
		}
	}
	for s, pc := range found {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestKernelSteps$")
		cmd.Env = append(os.Environ(), "PROFINFER_TEST_STEP="+strconv.FormatUint(pc, 10))
		out, err := cmd.CombinedOutput()
		var x *exec.ExitError
		if err != nil && !errors.As(err, &x) {
			t.Fatal(err)
		}
		switch status := cmd.ProcessState.ExitCode(); status {
		case 10, 11:
			if stepped := status == 11; stepped != (s.class == ClassStepped) {
				t.Errorf("%v, %v: the kernel steps it: %v", s.kind, s.class, stepped)
			}
		case 12:
			needsRoot(t, "cannot place a uprobe: %s", out)
		default:
			t.Errorf("%v, %v: status %d\n%s", s.kind, s.class, status, out)
		}
	}
}

// stepHere probes the instruction so far into steppedCaller, runs it, and returns 11 if it was stepped, 10 if
// not, 12 if it could not be probed.
func stepHere(at uint64) int {
	b, err := os.ReadFile("/sys/bus/event_source/devices/uprobe/type")
	typ, err2 := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	offset, err3 := fileOffset(uint64(reflect.ValueOf(steppedCaller).Pointer()) + at)
	exe, err4 := os.Readlink("/proc/self/exe")
	if err := errors.Join(err, err2, err3, err4); err != nil {
		fmt.Println(err)
		return 1
	}
	name, err := unix.BytePtrFromString(exe)
	if err != nil {
		return 1
	}
	runtime.LockOSThread()
	attr := unix.PerfEventAttr{Type: uint32(typ), Sample: 1, Ext1: uint64(uintptr(unsafe.Pointer(name))),
		Ext2: offset}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	runtime.KeepAlive(name)
	if err != nil {
		fmt.Println(err)
		return 12
	}
	for n := range 3 {
		steppedCaller(n)
	}
	var count [8]byte
	// a first instruction runs once more where the stack has to grow
	if n, err := unix.Read(fd, count[:]); err != nil || n != 8 || count[0] < 3 || count[0] > 4 {
		fmt.Println("hits:", count, err)
		return 1
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 1
	}
	if strings.Contains(string(maps), "[uprobes]") {
		return 11
	}
	return 10
}

// fileOffset returns where in the running file an address lies.
func fileOffset(pc uint64) (uint64, error) {
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		var first, last, at uint64
		var perm string
		if n, _ := fmt.Sscanf(line, "%x-%x %s %x", &first, &last, &perm, &at); n == 4 && pc >= first &&
			pc < last {
			return pc - first + at, nil
		}
	}
	return 0, fmt.Errorf("no mapping of %#x", pc)
}
