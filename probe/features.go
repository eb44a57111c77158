// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// Feature is something of the kernel that recording uses.
type Feature struct {
	Name  string
	Since Version // of mainline; distributions take features into older kernels
	// Err is nil where the kernel has it; [Absent] says whether it has not, else it could not be tried.
	Err error
}

// Absent tells that the kernel does not have the feature: tried, or told from the version where
// trying it is not permitted.
func (f Feature) Absent(v Version) bool {
	return errors.Is(f.Err, ebpf.ErrNotSupported) || f.Err != nil && v.Less(f.Since)
}

// Needed tries what no recording can do without.
func Needed() []Feature {
	ready()
	return []Feature{
		{"ring buffer", Version{5, 8, 0}, features.HaveMapType(ebpf.RingBuf)},
		{"cookies of uprobe links", Version{5, 15, 0},
			features.HaveProgramHelper(ebpf.Kprobe, asm.FnGetAttachCookie)},
		{"bpf_loop", Version{5, 17, 0}, features.HaveProgramHelper(ebpf.Kprobe, asm.FnLoop)},
	}
}

// Multi tries uprobe_multi links. unused says why they are not used although the kernel has them.
func Multi() (f Feature, unused string) {
	ready()
	f = Feature{"uprobe_multi", Version{6, 6, 0}, features.HaveBPFLinkUprobeMulti()}
	if release, v := Release(); f.Err == nil && multiMissesThreads(v) {
		unused = "the uprobe_multi links of " + release + " may miss all threads but the main one"
	}
	return f, unused
}

// multiMissesThreads tells the kernels whose uprobe_multi links, limited to a process, see its
// main thread alone (fixed by "bpf: Fix multi-uprobe PID filtering logic": 6.6.35, 6.9.5, 6.10). A
// distribution may have fixed its own; it is not asked, the other kind of link works as well.
func multiMissesThreads(v Version) bool {
	return !v.Less(Version{6, 6, 0}) && v.Less(Version{6, 6, 35}) ||
		!v.Less(Version{6, 7, 0}) && v.Less(Version{6, 9, 5})
}

// SkipsHits tells the kernels that leave a uprobe's program out, without counting it, while another eBPF
// program runs on the CPU: they call it as they call those of kprobes (trace_call_bpf). Since 6.0 it is
// called in a way of its own.
func SkipsHits(v Version) bool { return v != (Version{}) && v.Less(Version{6, 0, 0}) }

// ready lets the eBPF library find out the kernel's version, once: it reads /proc/self/mem, which a
// program with file capabilities (setcap) may only while it is dumpable.
var ready = sync.OnceFunc(func() {
	was, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err == nil && was != 1 && unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) == nil {
		defer unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) //nolint:errcheck // as it was
	}
	_ = features.HaveProgramType(ebpf.Kprobe)
})
