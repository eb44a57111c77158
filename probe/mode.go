// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf/link"

	"github.com/profinfer/profinfer/engine"
)

// Mode is which of the operators' sites are probed.
type Mode uint8

const (
	// ModeBoth: begins of operators and arrivals at their barrier.
	ModeBoth Mode = iota
	// ModeArrivals: arrivals only, half of the hits.
	ModeArrivals
	// ModeOff: none. A probe that returns early would still cost its trap.
	ModeOff
)

func (m Mode) String() string { return [...]string{"both", "arrivals", "off"}[min(m, ModeOff)] }

func (m Mode) wants(r engine.Role) bool {
	switch m {
	case ModeBoth:
		return true
	case ModeArrivals:
		return r == engine.RoleOpEnd
	}
	return false
}

// opGroup are the operator sites of one role in one file, which come and go together.
type opGroup struct {
	file    engine.File
	held    *os.File // the file, which the process can have unloaded when the sites are probed again
	key     batchKey
	sites   []engine.Site
	addrs   []uint64
	cookies []uint64
	links   []link.Link
}

// close takes the group's probes away. It waits for grace periods of the kernel, some tens of
// milliseconds, however many links there are.
func (g *opGroup) close() error {
	errs := make([]error, len(g.links))
	var wg sync.WaitGroup
	for i, l := range g.links {
		wg.Go(func() { errs[i] = l.Close() })
	}
	wg.Wait()
	g.links = nil
	return errors.Join(errs...)
}

// Mode returns which operator sites are probed.
func (a *Attachment) Mode() Mode { return a.mode }

// SetMode changes which operator sites are probed. It returns the time from which the new mode
// can be relied on: what it adds was probed from then on, what it takes away was probed until then.
// Taking away lasts some tens of milliseconds. On an error the mode is what it was, or off.
func (a *Attachment) SetMode(m Mode) (int64, error) {
	before := Now()
	if m == a.mode || a.stopped {
		return before, nil
	}
	var drop []*opGroup
	added := false
	for _, ends := range []bool{true, false} { // a begin whose end is not seen would be no observation
		for _, g := range a.ops {
			if (g.key.role == engine.RoleOpEnd) != ends {
				continue
			}
			switch want := m.wants(g.key.role); {
			case want && len(g.links) == 0:
				if err := a.open(g); err != nil {
					for _, g := range a.ops {
						g.close()
					}
					a.mode = ModeOff
					return before, err
				}
				added = true
			case !want && len(g.links) > 0:
				drop = append(drop, g)
			}
		}
	}
	a.mode = m
	since := before
	if added {
		since = Now()
	}
	errs := make([]error, len(drop))
	var wg sync.WaitGroup
	for i, g := range drop {
		wg.Go(func() { errs[i] = g.close() })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return since, fmt.Errorf("process %d: taking probes away: %w", a.pid, err)
	}
	return since, nil
}
