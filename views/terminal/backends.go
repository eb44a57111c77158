// SPDX-License-Identifier: Apache-2.0

package terminal

import "github.com/profinfer/profinfer/profile/summary"

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
