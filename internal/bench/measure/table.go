// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"io"
	"math"
	"os/exec"
	"time"

	"github.com/profinfer/profinfer/internal/bootstrap"
)

// Table is the figures of one build, or of two of which each run has a pair.
type Table struct {
	Out   io.Writer
	Noise *Noise
	Runs  int
	New   string
	Base  string // another build of the program; empty: there is none
	Limit time.Duration
	begun bool
}

// Figure is one line: what a command of the program took. Run runs it with a build of the program. It is
// called in turns with another build, and after Before.
type Figure struct {
	Name   string
	Before func() (Usage, error) // taken off what Run took; nil: nothing
	Run    func(program string) (Usage, error)
	// Columns that mean something: a difference has no peak of memory.
	NoRSS bool
}

// Command is the Run of the program with arguments.
func (t *Table) Command(args ...string) func(string) (Usage, error) {
	return func(program string) (Usage, error) {
		return Once(t.Limit, append([]string{program}, args...)...)
	}
}

// columns are what is shown of a usage.
var columns = []struct {
	name, format string
	of           func(u Usage) float64
}{
	{"wall s", "%.3f", func(u Usage) float64 { return u.Wall.Seconds() }},
	{"CPU s", "%.3f", func(u Usage) float64 { return u.CPU.Seconds() }},
	{"peak MiB", "%.0f", func(u Usage) float64 { return float64(u.RSS) / (1 << 20) }},
}

func (t *Table) head() {
	if t.begun {
		return
	}
	t.begun = true
	fmt.Fprintf(t.Out, "%-34s", fmt.Sprintf("median of %d (95 %% interval)", t.Runs))
	for _, c := range columns {
		if t.Base != "" {
			fmt.Fprintf(t.Out, " %9s %9s %22s", "base", c.name, "ratio")
		} else {
			fmt.Fprintf(t.Out, " %28s", c.name)
		}
	}
	fmt.Fprintln(t.Out)
}

// Add measures a figure and prints its line.
func (t *Table) Add(f Figure) error {
	t.head()
	var base, now []Usage // of each round, the mean of its runs
	for range max(t.Runs, 1) {
		b, n, err := t.round(f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		base, now = append(base, b), append(now, n)
	}
	fmt.Fprintf(t.Out, "%-34s", f.Name)
	for i, c := range columns {
		if f.NoRSS && i == 2 {
			continue
		}
		var was, is, ratio []float64
		for k := range now {
			was, is = append(was, c.of(base[k])), append(is, c.of(now[k]))
			ratio = append(ratio, is[k]/was[k])
		}
		if t.Base == "" {
			fmt.Fprintf(t.Out, " %28s", spread(c.format, is))
			continue
		}
		fmt.Fprintf(t.Out, " %9s %9s %22s", fmt.Sprintf(c.format, bootstrap.Median(was)),
			fmt.Sprintf(c.format, bootstrap.Median(is)), spread("%.3f", ratio))
	}
	fmt.Fprintln(t.Out)
	return nil
}

// round runs a figure once; with another build as other, this, this, other, so that what becomes slower or
// faster meanwhile does so for both.
func (t *Table) round(f Figure) (base, now Usage, err error) {
	order := []string{t.New}
	if t.Base != "" {
		order = []string{t.Base, t.New, t.New, t.Base}
	}
	var off Usage
	before := func() error {
		t.Noise.Sample()
		if f.Before == nil {
			return nil
		}
		u, err := f.Before()
		off.Wall += u.Wall / 2
		off.CPU += u.CPU / 2
		return err
	}
	if err := before(); err != nil {
		return base, now, err
	}
	n := time.Duration(max(len(order)/2, 1))
	for _, program := range order {
		u, err := f.Run(program)
		if err != nil {
			return base, now, err
		}
		to := &now
		if program == t.Base {
			to = &base
		}
		to.Wall += u.Wall / n
		to.CPU += u.CPU / n
		to.RSS = max(to.RSS, u.RSS)
	}
	err = before()
	for _, u := range []*Usage{&base, &now} {
		u.Wall -= off.Wall
		u.CPU -= off.CPU
	}
	return base, now, err
}

// spread is a median with its interval.
func spread(format string, x []float64) string {
	m := bootstrap.Median(x)
	if math.IsNaN(m) || math.IsInf(m, 0) {
		return "-"
	}
	lo, hi := bootstrap.Interval(x)
	return fmt.Sprintf(format+" ("+format+"..."+format+")", m, lo, hi)
}

// Build builds the program of the tree in the working directory.
func Build(to string) error {
	if out, err := exec.Command("go", "build", "-o", to, "./cmd/profinfer").CombinedOutput(); err != nil {
		return fmt.Errorf("building profinfer: %w\n%s", err, out)
	}
	return nil
}
