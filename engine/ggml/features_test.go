// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"testing"

	"github.com/profinfer/profinfer/engine"
)

// Arrivals that do not tell their thread pool, as where the barrier is inlined, do not tell graphs apart:
// they cannot be followed.
func TestInlinedBarrier(t *testing.T) {
	p := &engine.Plan{Sites: []engine.Site{{Role: engine.RoleOpBegin},
		{Role: engine.RoleOpEnd, A: engine.Arg{Kind: engine.ArgReg}}}}
	if !featuresOf(p).Lockstep {
		t.Error("graphs are not followed although arrivals tell their pool")
	}
	p.Sites = append(p.Sites, engine.Site{Role: engine.RoleOpEnd})
	if featuresOf(p).Lockstep {
		t.Error("graphs are followed by arrivals that do not tell their pool")
	}
}
