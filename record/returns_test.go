// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/engine/ggml"
	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

type counts struct {
	profile.BaseSink
	whole, graphs, ops int
	backends           map[string]int
}

func (c *counts) Op(*profile.Op) error { c.ops++; return nil }
func (c *counts) Graph(g *profile.Graph) error {
	c.graphs++
	c.backends[g.Backend]++
	return nil
}
func (c *counts) Step(s *profile.Step) error {
	if s.Incomplete == "" {
		c.whole++
	}
	return nil
}

// Where return probes would end the process (said so here: this kernel need not be one of those), what can be
// had by them alone is left out, begin and end, and said to be. Steps, graphs and operators are recorded as
// ever.
func TestWithoutReturns(t *testing.T) {
	e := engines.Offload(t)
	if err := probe.Check(); err != nil {
		t.Skip(err)
	}
	was := returnsKill
	t.Cleanup(func() { returnsKill = was })
	returnsKill = func(int) bool { return true }
	t.Setenv("GGML_VK_VISIBLE_DEVICES", "0")
	_, inside := engines.Model(t, e, "llama-tiny")
	path := filepath.Join(t.TempDir(), "run.pinf")
	var warned []string
	_, err := Run(context.Background(), ggml.New(),
		Options{Output: path, Level: engine.LevelOp, Sched: true, Warn: func(s string) {
			warned = append(warned, s)
		},
			Command: e.Command("llama-bench", "-m", inside, "-p", "0", "-n", "400", "-r", "1", "-t", "1",
				"--no-warmup", "-dev", "Vulkan0", "-ngl", "2")})
	if err != nil {
		t.Fatal(err)
	}
	rd, err := trace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	c := &counts{backends: map[string]int{}}
	h, err := profile.Replay(rd, c)
	if err != nil {
		t.Fatal(err)
	}
	// the backend is looked up, and probed, while its first graphs run
	if c.whole < 200 || c.backends["CPU"] < 390 || c.backends["Vulkan"] < 200 || c.ops < 390*20 {
		t.Errorf("%d whole steps, graphs %v, %d operators", c.whole, c.backends, c.ops)
	}
	const said = "vkQueueSubmit, "
	if !slices.ContainsFunc(warned, func(s string) bool {
		return strings.Contains(s, said) && strings.Contains(s, "seccomp")
	}) {
		t.Errorf("warned of %q", warned)
	}
	for _, p := range h.Processes {
		if !slices.ContainsFunc(p.Warnings, func(s string) bool { return strings.Contains(s, said) }) {
			t.Errorf("the recording does not say so: %q", p.Warnings)
		}
		for _, s := range p.Sites {
			if s.Return || strings.HasPrefix(string(s.Role), "submit") ||
				strings.HasPrefix(string(s.Role), "wait") {
				t.Errorf("%s at %s, return %v", s.Role, s.Where, s.Return)
			}
		}
	}
}
