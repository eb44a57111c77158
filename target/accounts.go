// SPDX-License-Identifier: Apache-2.0

package target

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Account is what the kernel counted for a process or a thread since it began.
type Account struct {
	Minor, Major int64 // page faults
	// bytes fetched from storage; -1: unknown (no CONFIG_TASK_IO_ACCOUNTING, or not permitted)
	Read int64
}

// ProcessAccount returns the totals of all threads of a process, including those that have ended. It also
// works for a process that has ended but was not waited for.
func ProcessAccount(pid int) (Account, error) { return account(pid, "") }

// ThreadAccounts returns the account of each live thread, by thread ID.
func ThreadAccounts(pid int) (map[int]Account, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, procError(pid, fmt.Sprintf("/proc/%d/task", pid), err)
	}
	out := make(map[int]Account, len(entries))
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if a, err := account(pid, "task/"+e.Name()+"/"); err == nil { // on failure: it has ended
			out[tid] = a
		}
	}
	return out, nil
}

func account(pid int, of string) (Account, error) {
	b, err := readProc(pid, of+"stat")
	if err != nil {
		return Account{}, err
	}
	a, err := parseFaults(string(b))
	if err != nil {
		return Account{}, fmt.Errorf("process %d: %w", pid, err)
	}
	a.Read = -1
	if b, err := readProc(pid, of+"io"); err == nil {
		a.Read = parseRead(b)
	}
	return a, nil
}

// parseFaults reads minflt and majflt of proc_pid_stat(5).
func parseFaults(s string) (a Account, err error) {
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:]) // f[0] is field 3
	if len(f) < 10 {
		return a, fmt.Errorf("cannot read page faults from %q", s)
	}
	minor, err1 := strconv.ParseUint(f[7], 10, 63)
	major, err2 := strconv.ParseUint(f[9], 10, 63)
	if err := errors.Join(err1, err2); err != nil {
		return a, fmt.Errorf("cannot read page faults: %w", err)
	}
	return Account{Minor: int64(minor), Major: int64(major)}, nil
}

// parseRead reads read_bytes of proc_pid_io(5); it returns -1 if the field is missing.
func parseRead(b []byte) int64 {
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte("read_bytes:")); ok {
			if n, err := strconv.ParseUint(string(bytes.TrimSpace(v)), 10, 63); err == nil {
				return int64(n)
			}
		}
	}
	return -1
}
