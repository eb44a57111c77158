// SPDX-License-Identifier: Apache-2.0

package record

import (
	"math"
	"os"
	"runtime/debug"
	"strings"
)

// memoryLimit is how much memory Go's runtime aims to stay below; it frees earlier and more often instead
// of growing. The rings are not in it.
const memoryLimit = 128 << 20

// LimitMemory bounds profinfer's own memory while it looks at processes and their files. A limit that the
// environment sets (GOMEMLIMIT) stays.
func LimitMemory() (restore func()) {
	before := debug.SetMemoryLimit(-1)
	if before == math.MaxInt64 {
		debug.SetMemoryLimit(memoryLimit)
	}
	return func() { debug.SetMemoryLimit(before) }
}

const (
	oomScore   = "/proc/self/oom_score_adj"
	oomPrefers = "1000" // whatever else uses memory
)

// expendable has the kernel end profinfer first where memory runs out, not the engine, which is larger. It is
// called after the command was started, which would inherit it; where it is not permitted, nothing changes.
func expendable() (restore func()) {
	before, err := os.ReadFile(oomScore)
	if err == nil {
		err = os.WriteFile(oomScore, []byte(oomPrefers), 0)
	}
	if err != nil {
		return func() {}
	}
	return func() { _ = os.WriteFile(oomScore, []byte(strings.TrimSpace(string(before))), 0) }
}
