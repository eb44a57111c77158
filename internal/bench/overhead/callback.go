// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// callback compares the first step, of one token, of llama-eval-callback with that of llama-completion, which
// does the same without a callback: runs take turns, and a recording of steps times both. The callback copies
// and adds up every tensor, so the factor is large, and rough.
func (l *lab) callback(ctx context.Context, dir string, n int) error {
	spec, err := demo.Model(*model)
	if err != nil {
		return err
	}
	file, err := l.file(ctx, spec.WithVocabulary())
	if err != nil {
		return err
	}
	args := []string{"-m", file, "-p", "h", "-t", strconv.Itoa(n), "-n", "1"}
	with := l.e.Command("llama-eval-callback", args...)
	without := l.e.Command("llama-completion", append(args, "--no-warmup", "-no-cnv")...)
	var a, b []float64
	for i := range *callback {
		if tty() {
			fmt.Fprintf(os.Stderr, "\r\x1b[Kllama-eval-callback: run %d of %d", i+1, *callback)
		}
		x, err := l.firstStep(ctx, dir, without)
		if err == nil {
			b = append(b, x)
			x, err = l.firstStep(ctx, dir, with)
		}
		if err != nil {
			clearLine()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			fmt.Printf("llama-eval-callback: left out: %v\n", err)
			return nil
		}
		a = append(a, x)
	}
	clearLine()
	fmt.Printf("llama-eval-callback, %s: %.0f ms for a step of one token, %.1f ms without (median of %d runs each): factor %.0f\n\n",
		format.Plural(n, "thread"), middle(a)/1e6, middle(b)/1e6, len(a), middle(a)/middle(b))
	return nil
}

// firstStep runs a program once and returns how long its first step of one token took, ns.
func (l *lab) firstStep(ctx context.Context, dir string, argv []string) (float64, error) {
	out := filepath.Join(dir, "callback.pinf")
	defer os.Remove(out)
	cmd := exec.CommandContext(ctx, *program,
		append([]string{"record", "--level", "step", "--no-sched", "-o", out, "--"}, argv...)...)
	if msg, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%v: %w: %s", argv, err, msg[max(0, len(msg)-300):])
	}
	r, err := trace.Open(out)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	s := &first{}
	if _, err := profile.Replay(r, s); err != nil {
		return 0, err
	}
	if s.ns == 0 {
		return 0, fmt.Errorf("%v computed no step of one token", argv)
	}
	return float64(s.ns), nil
}

type first struct {
	profile.BaseSink
	ns int64
}

func (f *first) Step(s *profile.Step) error {
	if f.ns == 0 && s.NTokens == 1 {
		f.ns = s.Dur
	}
	return nil
}

func middle(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}
