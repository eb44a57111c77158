// SPDX-License-Identifier: Apache-2.0

package peaks

import "golang.org/x/sys/unix"

// allowTiles asks the kernel to let this process use AMX tiles; without that, SIGILL ends it on the first use
// of one. Kernels before 5.16 refuse it. (Documentation/arch/x86/xstate.rst: ARCH_REQ_XCOMP_PERM,
// XFEATURE_XTILE_DATA.)
func allowTiles() bool {
	const archReqXcompPerm, xtileData = 0x1023, 18
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, archReqXcompPerm, xtileData, 0)
	return errno == 0
}
