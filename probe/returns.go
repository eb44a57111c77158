// SPDX-License-Identifier: Apache-2.0

package probe

import "runtime"

// ReturnsKill tells whether a return probe of this machine's kernel would end a process that runs under a
// seccomp filter.
func ReturnsKill() bool {
	_, v := Release()
	return returnsKill(runtime.GOARCH, v)
}

// returnsKill: since 6.11 a return probe of x86-64 comes by a system call, which a filter that does not know
// it refuses; the thread then returns into nothing. Fixed by "seccomp: passthrough uretprobe systemcall
// without filtering": 6.14, 6.13.3, 6.12.14; in 6.11 never. A distribution may have fixed its own, and its
// release then still says 6.11.0: it is not asked. A version that cannot be read is no reason.
func returnsKill(arch string, v Version) bool {
	return arch == "amd64" &&
		(!v.Less(Version{6, 11, 0}) && v.Less(Version{6, 12, 14}) || !v.Less(Version{6, 13, 0}) &&
			v.Less(Version{6, 13, 3}))
}
