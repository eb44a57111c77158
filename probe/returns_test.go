// SPDX-License-Identifier: Apache-2.0

package probe

import "testing"

// The kernels whose return probes are system calls that a seccomp filter refuses.
func TestReturnsKill(t *testing.T) {
	for release, want := range map[string]bool{
		"6.10.14": false, "6.11.0": true, "6.11-rc1": true, "6.11.0-29-generic": true, "6.11.11": true,
		"6.12.0": true, "6.12.13": true, "6.12.14": false,
		"6.12.48+deb13-amd64": false, "6.12.12+deb13-amd64": true, "6.13.0": true, "6.13.2-arch1-1": true,
		"6.13.3": false, "6.13.12": false, "6.14.0": false,
		"6.8.0-45-generic": false, "5.15.0": false, "6.18.44": false, "nonsense": false,
	} {
		v, _ := ParseVersion(release)
		if got := returnsKill("amd64", v); got != want {
			t.Errorf("%s: %v, want %v", release, got, want)
		}
		if returnsKill("arm64", v) {
			t.Errorf("%s on arm64: return probes are no system calls there", release)
		}
	}
}
