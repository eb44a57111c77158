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

// returnsKill reports whether return probes would kill a process; tests override it.
var returnsKill = func(pid int) bool {
	if !probe.ReturnsKill() {
		return false
	}
	filtered, err := target.Seccomp(pid)
	return filtered || err != nil
}

// survivable drops calls whose ends only return probes can observe, if those would kill the process. It drops
// begins and ends, as a call without an end would seem to be still running.
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
