// SPDX-License-Identifier: Apache-2.0

package probe

import "runtime"

// ReturnsKill reports whether, on this kernel, a return probe would kill a process that runs under a seccomp
// filter.
func ReturnsKill() bool {
	_, v := Release()
	return returnsKill(runtime.GOARCH, v)
}

// returnsKill: since 6.11 a return probe on x86-64 uses a system call, which a filter that does not know it
// refuses; the thread then returns to an invalid address. Fixed by "seccomp: passthrough uretprobe systemcall
// without filtering": 6.14, 6.13.3, 6.12.14; never in 6.11. A distribution may have backported the fix while
// its release still says 6.11.0: that is not checked. An unreadable version counts as safe.
func returnsKill(arch string, v Version) bool {
	return arch == "amd64" &&
		(!v.Less(Version{6, 11, 0}) && v.Less(Version{6, 12, 14}) || !v.Less(Version{6, 13, 0}) &&
			v.Less(Version{6, 13, 3}))
}
