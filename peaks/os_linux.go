// SPDX-License-Identifier: Apache-2.0

package peaks

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// allowed are the CPUs that this process may run on; nil: unknown.
func allowed() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil { // more CPUs than fit in the set
		return nil
	}
	var out []int
	for i := 0; i < len(set)*64 && len(out) < set.Count(); i++ {
		if set.IsSet(i) {
			out = append(out, i)
		}
	}
	return out
}

// pin binds the calling thread to one CPU.
func pin(id int) error {
	var set unix.CPUSet
	set.Set(id)
	if !set.IsSet(id) {
		return fmt.Errorf("CPU %d: beyond what a thread can be pinned to", id)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pinning a thread to CPU %d: %w", id, err)
	}
	return nil
}

// threadCPU is the CPU time of the calling thread; below 0: unknown.
func threadCPU() time.Duration { return cpuTime(unix.CLOCK_THREAD_CPUTIME_ID) }

// processCPU is the CPU time of this process; below 0: unknown.
func processCPU() time.Duration { return cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID) }

func cpuTime(id int32) time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(id, &ts) != nil {
		return -1
	}
	return time.Duration(ts.Nano())
}

// allocate maps untouched memory, in huge pages if the system has them: with small ones, many loads wait for
// the page tables, which is a different figure.
func allocate(n int64) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("no %d MB of memory to read: %w", n/1e6, err)
	}
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // EINVAL if the kernel has none
	return b, nil
}

func release(b []byte) { _ = unix.Munmap(b) }

// clockTick is USER_HZ, the unit of /proc/stat: 100 on x86-64 and arm64 (include/uapi/asm-generic/param.h).
const clockTick = 10 * time.Millisecond

var root = os.DirFS("/")
