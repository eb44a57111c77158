// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/pmu"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/trace"
)

// counters is what is counted at operators' hits.
type counters struct {
	set     *pmu.Set // nil: nothing is open
	probe   probe.Counters
	columns []trace.Counter
	of      []int // columns of events: index in set.Counters
	notes   []string
}

// RefusedCounters reports that counters requested by name are not available.
type RefusedCounters struct{ Missing []pmu.Missing }

func (e *RefusedCounters) Error() string {
	var lines []string
	for _, m := range e.Missing {
		lines = append(lines, m.Error())
	}
	return strings.Join(lines, "\n  ")
}

// openCounters opens what was requested. Errors: a *RefusedCounters, a *probe.Missing, or a write error.
func openCounters(opt *Options) (*counters, error) {
	c := &counters{}
	if opt.Events == "" && (opt.Question == "" || opt.Question == pmu.Off) {
		return c, nil
	}
	m, err := pmu.ReadMachine()
	if err != nil {
		return nil, err
	}
	// Presets count user mode only: what the probes themselves do in the kernel does not belong to an
	// operator.
	plan, err := pmu.NewPlan(m, pmu.Request{Events: opt.Events, Question: opt.Question, Software: true,
		OnlyUser: true})
	if err != nil {
		return nil, err
	}
	if refused := plan.Refused(); len(refused) > 0 {
		return nil, &RefusedCounters{refused}
	}
	answered := opt.Question != pmu.Software && len(m.PMUs) > 0 // by the CPU
	plan.Counters = slices.DeleteFunc(plan.Counters, func(k *pmu.Counter) bool {
		task := ofTask(k)
		c.probe.Task = c.probe.Task || task
		// Each event read makes a hit more expensive, and this one equals an operator's busy time.
		return task || k.Role == pmu.TaskClock && !k.Asked && answered
	})
	if c.set, err = plan.Open(pmu.Options{}); err != nil {
		var missing pmu.Missing
		if errors.As(err, &missing) {
			return nil, &RefusedCounters{[]pmu.Missing{missing}}
		}
		return nil, err
	}
	for _, m := range c.set.Missing {
		c.notes = append(c.notes, "counters: "+m.Error())
	}
	for _, n := range c.set.Notes {
		c.notes = append(c.notes, "counters: "+n)
	}
	c.probe.Scaled = len(c.set.Turns) > 0
	for _, t := range c.set.Turns {
		c.notes = append(c.notes, fmt.Sprintf("counters: %s is counted %.0f %% of the time, in turns with others, and scaled: more events were asked for than this CPU has counters", t.Counter, 100*t.Share))
	}
	for i, k := range c.set.Counters {
		fds := map[int]int{}
		unit := "kernel"
		for _, h := range c.set.Handles() {
			if h.Counter == i {
				fds[h.CPU] = h.FD
				if h.Event.PMU != nil {
					unit = h.Event.PMU.Name
				}
			}
		}
		var codes []string
		of, slots := "", 0
		if k.Role == pmu.TaskClock || k.Role == pmu.CPUClock {
			of = "ns"
		}
		user := of == "" // clocks keep running in the kernel whatever is requested
		for _, e := range k.Events {
			codes = append(codes, e.Code())
			user = user && e.OnlyUser
			if n := width(k.Role, e); e == k.Events[0] || n == slots {
				slots = n
			} else {
				slots = 0 // cores of different widths
			}
		}
		c.probe.Events = append(c.probe.Events, fds)
		c.of = append(c.of, i)
		c.columns = append(c.columns, trace.Counter{Name: k.Name, Role: string(k.Role), PMU: unit,
			Scaled: c.probe.Scaled,
			Code:   strings.Join(codes, ", "), User: user, Unit: of, Slots: slots})
	}
	if c.probe.Task {
		for _, name := range probe.TaskFields {
			c.columns = append(c.columns, trace.Counter{Name: name, Role: name})
		}
	}
	return c, c.set.Enable()
}

// width is the number of slots per cycle on the CPUs of an event that counts slots; 0: unknown, or it counts
// something else.
func width(r pmu.Role, e *pmu.Event) int {
	if e.PMU == nil || e.PMU.Kind == nil || !slices.Contains(ofSlots, r) {
		return 0
	}
	return e.PMU.Kind.Slots
}

// ofSlots are the roles of counters that count slots, not cycles.
var ofSlots = []pmu.Role{pmu.Slots, pmu.Retiring, pmu.BadSpec, pmu.FrontendBound, pmu.BackendBound,
	pmu.MemBound}

// ofTask reports whether the kernel keeps a counter per thread and it is read there: exact, and nothing to
// open.
func ofTask(k *pmu.Counter) bool {
	e := k.Events[0]
	return k.Software() && slices.Contains(probe.TaskFields, string(k.Role)) && !e.OnlyUser && !e.OnlyKernel
}

// doubt marks counters that counted nothing although profinfer itself has just worked on the counted CPUs: an
// event that a CPU lacks can be opened and reads 0.
func (c *counters) doubt() {
	for i, at := range c.of {
		why := c.set.Counters[at].Doubtful()
		if why == "" {
			continue
		}
		if r, err := c.set.Total(at); err == nil && r.Value == 0 {
			c.columns[i].Void = why
			c.notes = append(c.notes, fmt.Sprintf("counters: %s is left out: %s", c.columns[i].Name, why))
		}
	}
}

func (c *counters) close() {
	if c.set != nil {
		c.set.Close()
	}
}
