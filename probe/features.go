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

// Feature is a kernel feature that recording uses.
type Feature struct {
	Name  string
	Since Version // of mainline; distributions backport features to older kernels
	// Err is nil if the kernel has it. Otherwise [Absent] reports whether it is missing or could not be
	// tested.
	Err error
}

// Absent reports whether the kernel lacks the feature: known from a test, or from the version if testing is
// not permitted.
func (f Feature) Absent(v Version) bool {
	return errors.Is(f.Err, ebpf.ErrNotSupported) || f.Err != nil && v.Less(f.Since)
}

// Needed tests the features that every recording needs.
func Needed() []Feature {
	ready()
	return []Feature{
		{"ring buffer", Version{5, 8, 0}, features.HaveMapType(ebpf.RingBuf)},
		{"cookies of uprobe links", Version{5, 15, 0},
			features.HaveProgramHelper(ebpf.Kprobe, asm.FnGetAttachCookie)},
		{"bpf_loop", Version{5, 17, 0}, features.HaveProgramHelper(ebpf.Kprobe, asm.FnLoop)},
	}
}

// Multi tests uprobe_multi links. unused says why they are not used although the kernel has them.
func Multi() (f Feature, unused string) {
	ready()
	f = Feature{"uprobe_multi", Version{6, 6, 0}, features.HaveBPFLinkUprobeMulti()}
	if release, v := Release(); f.Err == nil && multiMissesThreads(v) {
		unused = "the uprobe_multi links of " + release + " may miss all threads but the main one"
	}
	return f, unused
}

// multiMissesThreads identifies kernels whose uprobe_multi links, limited to a process, see only its main
// thread (fixed by "bpf: Fix multi-uprobe PID filtering logic": 6.6.35, 6.9.5, 6.10). A distribution may have
// backported the fix; that is not checked, as the other kind of link works as well.
func multiMissesThreads(v Version) bool {
	return !v.Less(Version{6, 6, 0}) && v.Less(Version{6, 6, 35}) ||
		!v.Less(Version{6, 7, 0}) && v.Less(Version{6, 9, 5})
}

// SkipsHits identifies kernels that skip a uprobe's program, without counting it, while another eBPF program
// runs on the CPU: they call it in the same way as programs of kprobes (trace_call_bpf). Since 6.0 it is
// called in its own way.
func SkipsHits(v Version) bool { return v != (Version{}) && v.Less(Version{6, 0, 0}) }

// ready makes the eBPF library determine the kernel's version, once: it reads /proc/self/mem, which a program
// with file capabilities (setcap) may read only while it is dumpable.
var ready = sync.OnceFunc(func() {
	was, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err == nil && was != 1 && unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) == nil {
		defer unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) //nolint:errcheck // back to its previous value
	}
	_ = features.HaveProgramType(ebpf.Kprobe)
})
