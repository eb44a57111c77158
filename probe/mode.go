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

// Mode selects which operator sites are probed.
type Mode uint8

const (
	// ModeBoth: begins of operators and arrivals at their barriers.
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

// opGroup is the operator sites of one role in one file, which are attached and detached together.
type opGroup struct {
	file    engine.File
	held    *os.File // the file, which the process may have unloaded by the time the sites are probed again
	key     batchKey
	sites   []engine.Site
	addrs   []uint64
	cookies []uint64
	links   []link.Link
}

// close removes the group's probes. It waits for kernel grace periods, some tens of milliseconds, however
// many links there are.
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

// SetMode changes which operator sites are probed. It returns the time at which the new mode takes effect:
// what it adds is probed from then on, what it removes was probed until then. Removing takes some tens of
// milliseconds. On an error the mode is unchanged, or off.
func (a *Attachment) SetMode(m Mode) (int64, error) {
	before := Now()
	if m == a.mode || a.stopped {
		return before, nil
	}
	var drop []*opGroup
	added := false
	for _, ends := range []bool{true, false} { // a begin without its end would be useless
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
