// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/target"
)

// returnsKill tells whether return probes would end a process; tests force it.
var returnsKill = func(pid int) bool {
	if !probe.ReturnsKill() {
		return false
	}
	filtered, err := target.Seccomp(pid)
	return filtered || err != nil
}

// survivable leaves out calls whose ends are to be had by return probes only, where those would end the
// process: begins and ends, as a call that never ends would be taken for one under way.
func (r *recorder) survivable(p *process, sites []engine.Site) []engine.Site {
	isReturn := func(s engine.Site) bool { return s.Return }
	if !slices.ContainsFunc(sites, isReturn) || !returnsKill(p.pid) {
		return sites
	}
	type call struct {
		file  int
		entry string
	}
	gone := map[call]bool{}
	var names []string
	for _, s := range sites {
		if s.Return {
			gone[call{s.File, s.Entry}] = true
			if !slices.Contains(names, s.Entry) {
				names = append(names, s.Entry)
			}
		}
	}
	w := engine.Warning{Level: engine.LevelGraph,
		Text: fmt.Sprintf("%s cannot be seen: this kernel's return probes end a process that runs under a seccomp filter (fixed in Linux 6.12.14, 6.13.3 and 6.14)", strings.Join(names, ", "))}
	if !slices.Contains(p.lacks, w) {
		p.lacks = append(p.lacks, w)
	}
	return slices.DeleteFunc(slices.Clone(sites), func(s engine.Site) bool {
		return gone[call{s.File, s.Entry}]
	})
}
