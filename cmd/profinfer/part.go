// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// partFlags choose a part of a recording.
type partFlags struct{ from, to, steps, phase string }

// add adds the flags, but for --phase, which some commands have already.
func (p *partFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&p.from, "from", "",
		"show only what happened from this time on, as the timeline counts it: 1.5s, 200ms, 2m; without a unit seconds")
	f.StringVar(&p.to, "to", "", "show only what happened up to this time")
	f.StringVar(&p.steps, "steps", "", "show only these steps: A-B, or one, as stat --slow and the timeline number them")
}

// part reads the flags.
func (p *partFlags) part() (a profile.Part, err error) {
	if a.From, err = moment("--from", p.from); err != nil {
		return a, err
	}
	if a.To, err = moment("--to", p.to); err != nil {
		return a, err
	}
	if p.to != "" && a.To <= a.From {
		return a, usage("--to %s is not later than --from %s", p.to, orBegin(p.from))
	}
	if p.steps != "" {
		if a.First, a.Last, err = stepRange(p.steps); err != nil {
			return a, err
		}
	}
	if p.phase != "" {
		ph, err := profile.ParsePhase(p.phase)
		if err != nil {
			return a, &statusError{statusUsage, err}
		}
		a.Phases = []profile.Phase{ph}
	}
	return a, nil
}

func orBegin(from string) string {
	if from == "" {
		return "0"
	}
	return from
}

// moment reads a time since the recording's begin, ns.
func moment(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if v, e := strconv.ParseFloat(text, 64); e == nil && math.Abs(v) < 1e9 {
		d, err = time.Duration(math.Round(v*1e9)), nil
	}
	switch {
	case err != nil:
		return 0, usage("%s %q is no time: 1.5s, 200ms, 2m30s, or seconds as 1.5", flag, text)
	case d < 0:
		return 0, usage("%s %s is before the recording", flag, text)
	}
	return int64(d), nil
}

// stepRange reads A-B.
func stepRange(text string) (first, last int64, err error) {
	a, b, several := strings.Cut(text, "-")
	if !several {
		b = a
	}
	first, e1 := strconv.ParseInt(a, 10, 64)
	last, e2 := strconv.ParseInt(b, 10, 64)
	switch {
	case e1 != nil || e2 != nil || first < 1:
		return 0, 0, usage("--steps %q is no range of steps: A-B, as 100-120, or one number; the first is 1", text)
	case last < first:
		return 0, 0, usage("--steps %s: %d is after %d", text, first, last)
	}
	return first, last, nil
}

// find looks a part up in a recording; nil: all of it is wanted. It tells what will be left out.
func find(name string, a profile.Part) (*profile.Chosen, error) {
	if a.All() {
		return nil, nil
	}
	r, err := trace.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	c, err := profile.FindPart(r, a)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	say("profinfer: of %s only %s", name, c)
	return c, nil
}
