// SPDX-License-Identifier: Apache-2.0

package terminal

import "github.com/profinfer/profinfer/profile"

// backendTitle names the backend whose graphs are seen without operators; empty if there is none.
func backendTitle(s *profile.Stat) string {
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

// backends adds a row for each backend whose graphs are seen without operators.
func (p *page) backends(s *profile.Stat, f *profile.PhaseStat, t *rowTable) {
	if s.By == profile.ByThread || s.By == profile.ByStep {
		return
	}
	for i := range f.Backends {
		if b := &f.Backends[i]; b.Share != nil {
			t.foot("(graphs on "+p.o.clean(b.Backend)+")", float64(b.Dur)/float64(f.Steps), *b.Share)
		}
	}
}
