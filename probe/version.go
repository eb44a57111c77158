// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Version is the version of a kernel: 6.6.35.
type Version [3]int

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// Less reports whether v was released before o.
func (v Version) Less(o Version) bool {
	for i := range v {
		if v[i] != o[i] {
			return v[i] < o[i]
		}
	}
	return false
}

// Release returns the running kernel's release as in uname ("6.8.0-45-generic") and its version, zero if it
// cannot be parsed.
func Release() (string, Version) {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "", Version{}
	}
	s := unix.ByteSliceToString(u.Release[:])
	v, _ := ParseVersion(s)
	return s, v
}

// ParseVersion parses the two or three numbers at the beginning of a release.
func ParseVersion(release string) (Version, error) {
	var v Version
	rest := release
	for i := range v {
		n := 0
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		x, err := strconv.Atoi(rest[:n])
		if err != nil || x > 1<<16 {
			if i == 2 {
				return v, nil // "6.18-rc1"
			}
			return Version{}, fmt.Errorf("cannot read the kernel's version from %q", release)
		}
		v[i] = x
		rest = rest[n:]
		if !strings.HasPrefix(rest, ".") && i < 1 {
			return Version{}, fmt.Errorf("cannot read the kernel's version from %q", release)
		}
		if !strings.HasPrefix(rest, ".") {
			return v, nil
		}
		rest = rest[1:]
	}
	return v, nil
}
