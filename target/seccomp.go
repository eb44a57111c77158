// SPDX-License-Identifier: Apache-2.0

package target

import (
	"bytes"
	"fmt"
)

// Seccomp reports whether any thread of a process runs under seccomp, with a filter (as in most containers)
// or in strict mode. A filter that is set later cannot be foreseen.
func Seccomp(pid int) (bool, error) {
	tids, err := Threads(pid)
	if err != nil {
		return false, err
	}
	seen := false
	for _, tid := range tids {
		mode, ok, err := seccompMode(pid, tid)
		if err != nil {
			continue // a thread that has ended
		}
		seen = true
		if ok && mode != "0" {
			return true, nil
		}
	}
	if !seen {
		return false, procError(pid, "its threads", ErrNoProcess)
	}
	return false, nil
}

// seccompMode is the mode in /proc/PID/task/TID/status: 0 none, 1 strict, 2 filter; on a kernel without
// seccomp there is none.
func seccompMode(pid, tid int) (mode string, ok bool, err error) {
	b, err := readProc(pid, fmt.Sprintf("task/%d/status", tid))
	if err != nil {
		return "", false, err
	}
	mode, ok = parseSeccomp(b)
	return mode, ok, nil
}

func parseSeccomp(status []byte) (mode string, ok bool) {
	for line := range bytes.Lines(status) {
		if v, ok := bytes.CutPrefix(line, []byte("Seccomp:")); ok {
			return string(bytes.TrimSpace(v)), true
		}
	}
	return "", false
}
