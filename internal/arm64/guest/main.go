// SPDX-License-Identifier: Apache-2.0

// Guest is what the tests of package arm64 run in the emulated machine beside profinfer:
//
//	guest count FILE COMMAND...   runs a command, writes what the kernel counted of all its threads, in user space
//
// The counts are the kernel's own, inherited by every thread: an oracle for sums over operators.
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) < 4 || os.Args[1] != "count" {
		fmt.Fprintln(os.Stderr, "usage: guest count FILE COMMAND...")
		os.Exit(2)
	}
	status, err := count(os.Args[2], os.Args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
	os.Exit(status)
}

func count(file string, argv []string) (status int, err error) {
	// Events belong to this thread and are inherited by what it starts. They count from the command's exec
	// on, not here.
	runtime.LockOSThread()
	fds := map[string]int{}
	for name, config := range map[string]uint64{"cycles": unix.PERF_COUNT_HW_CPU_CYCLES,
		"instructions": unix.PERF_COUNT_HW_INSTRUCTIONS} {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_HARDWARE, Config: config,
			Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
			Bits: unix.PerfBitDisabled | unix.PerfBitInherit | unix.PerfBitEnableOnExec |
				unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
		attr.Size = uint32(unsafe.Sizeof(attr))
		if fds[name], err = unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var x *exec.ExitError
	if err != nil && !errors.As(err, &x) {
		return 0, err
	}
	totals := map[string]uint64{}
	for name, fd := range fds {
		var b [24]byte
		if n, err := unix.Read(fd, b[:]); err != nil || n != len(b) {
			return 0, fmt.Errorf("reading %s: %d bytes, %v", name, n, err)
		}
		value, enabled, running := binary.NativeEndian.Uint64(b[:]), binary.NativeEndian.Uint64(b[8:]),
			binary.NativeEndian.Uint64(b[16:])
		if enabled == 0 || running != enabled {
			return 0, fmt.Errorf("%s counted for %d of %d ns", name, running, enabled)
		}
		totals[name] = value
	}
	out, err := json.Marshal(totals)
	if err != nil {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), os.WriteFile(file, out, 0o644)
}
