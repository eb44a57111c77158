// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/testkit"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/summary"
)

// benched is a test of llama-bench as it says itself (-o json).
type benched struct {
	Prompt int     `json:"n_prompt"`
	Gen    int     `json:"n_gen"`
	TPS    float64 `json:"avg_ts"`
}

// statOf is what `stat --json` says of a recording.
func statOf(t *testing.T, path string) *summary.Stat {
	t.Helper()
	var s summary.Stat
	out := profinfer(t, "stat", "--json", "-i", path)
	if err := json.Unmarshal([]byte(out.stdout), &s); err != nil {
		t.Fatalf("%v\n%s", err, out.stderr)
	}
	return &s
}

// sameRate checks that decode's tokens a second are those that llama-bench counts, and not those of calls
// that return before. Its own n steps come last: stat has the warm-up's too, in which a device may be made
// ready.
func sameRate(t *testing.T, s *summary.Stat, steps []*profile.Step, n int, bench, within float64) {
	t.Helper()
	i := slices.IndexFunc(s.Phases, func(f summary.Phase) bool { return f.Phase == string(profile.Decode) })
	if i < 0 {
		t.Fatal("no decode")
	}
	f := &s.Phases[i]
	if f.TokensPerS == nil || f.CallTokensPerS == nil || f.Async == 0 || f.Unseen > 0 {
		t.Fatalf("%v t/s, its calls %v; %d of %d steps asynchronous, the results of %d not seen",
			f.TokensPerS, f.CallTokensPerS, f.Async, f.Steps, f.Unseen)
	}
	var whole []int64
	all := int64(0)
	for _, s := range steps {
		if d, ok := s.EndToEnd(); ok && s.Phase == profile.Decode && s.Incomplete == "" {
			whole = append(whole, d)
			all += d
		}
	}
	if tps := float64(len(whole)) * 1e9 / float64(all); int64(len(whole)) != f.Steps ||
		math.Abs(tps / *f.TokensPerS - 1) > 1e-9 {
		t.Errorf("stat has %d steps at %.4f t/s, the recording %d at %.4f", f.Steps, *f.TokensPerS,
			len(whole), tps)
	}
	n = min(n, len(whole))
	all = 0
	for _, d := range whole[len(whole)-n:] {
		all += d
	}
	tps := float64(n) * 1e9 / float64(all)
	if math.Abs(tps/bench-1) > within || *f.CallTokensPerS < *f.TokensPerS {
		t.Errorf("%.2f t/s (its calls %.2f), llama-bench says %.2f", tps, *f.CallTokensPerS, bench)
	}
	t.Logf("%.2f t/s, llama-bench says %.2f; with the warm-up %.2f; its calls alone %.2f; %d steps, %d asynchronous", tps, bench, *f.TokensPerS, *f.CallTokensPerS, f.Steps, f.Async)
}

// Tokens a second of layers on a device are those of llama-bench: with the wait until the results are there.
func TestQuietOffloadRate(t *testing.T) {
	if testkit.Quiet(t) {
		return
	}
	e := engines.Offload(t)
	t.Setenv("GGML_VK_VISIBLE_DEVICES", "0")
	_, inside := engines.Model(t, e, "llama-tiny")
	needBPF(t)
	for _, layers := range []string{"2", "99"} {
		t.Run(layers+" layers", func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "run.pinf")
			r := profinfer(t, append([]string{"record", "-o", path, "--"},
				e.Command("llama-bench", "-m", inside, "-p", "64", "-n", "100", "-r", "1", "-t", "1", "-dev",
					"Vulkan0", "-ngl", layers, "-o", "json")...)...)
			if r.status != 0 {
				t.Fatalf("record: status %d\n%s%s", r.status, tailOf(r.stdout, 20), tailOf(r.stderr, 20))
			}
			var bench []benched
			if err := json.Unmarshal([]byte(r.stdout[max(0, strings.IndexByte(r.stdout, '[')):]),
				&bench); err != nil || len(bench) != 2 {
				t.Fatalf("llama-bench's output: %v\n%s", err, r.stdout)
			}
			s := statOf(t, path)
			for _, b := range bench {
				if b.Gen > 0 {
					// it also counts what it does between steps
					sameRate(t, s, load(t, path).steps, 100, b.TPS, 0.2)
				}
			}
		})
	}
}
