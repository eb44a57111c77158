// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/summary"
)

// backendTitle names the backend whose graphs are seen without their operators; empty if there is none.
func backendTitle(s *summary.Stat) string {
	title := ""
	for i := range s.Phases {
		for _, b := range s.Phases[i].Backends {
			switch title {
			case "", b.Backend:
				title = b.Backend
			default:
				return "backends"
			}
		}
	}
	return title
}

// backends adds a row for each backend whose graphs are seen without their operators.
func (p *page) backends(s *summary.Stat, f *summary.Phase, t *rowTable) {
	if s.By == facts.ByThread || s.By == facts.ByStep {
		return
	}
	for i := range f.Backends {
		if b := &f.Backends[i]; b.Share != nil {
			t.foot("(graphs on "+p.o.clean(b.Backend)+")", float64(b.Dur)/float64(f.Steps), *b.Share)
		}
	}
}
