// SPDX-License-Identifier: Apache-2.0

package record

import (
	"math"
	"os"
	"runtime/debug"
	"strings"
)

// memoryLimit is the memory that Go's runtime aims to stay below; it frees earlier and more often instead of
// growing. It excludes the rings.
const memoryLimit = 128 << 20

// LimitMemory bounds profinfer's own memory while it examines processes and their files. A limit from the
// environment (GOMEMLIMIT) takes precedence.
func LimitMemory() (restore func()) {
	before := debug.SetMemoryLimit(-1)
	if before == math.MaxInt64 {
		debug.SetMemoryLimit(memoryLimit)
	}
	return func() { debug.SetMemoryLimit(before) }
}

const (
	oomScore   = "/proc/self/oom_score_adj"
	oomPrefers = "1000" // before anything else that uses memory
)

// expendable makes the kernel kill profinfer first when memory runs out, not the engine, which is larger. It
// is called after the command was started, which would inherit it. If it is not permitted, nothing changes.
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
