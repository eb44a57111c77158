// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Links lists the kernel's uprobe links that run profinfer's programs, whoever holds
// them: none once every recording has ended.
func Links() ([]string, error) {
	ours := map[ebpf.ProgramID]string{}
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if err != nil {
			break
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // gone meanwhile
		}
		if info, err := p.Info(); err == nil {
			switch info.Name {
			case "op_begin", "op_fused", "op_end", "mark_begin", "mark_end":
				ours[id] = info.Name
			}
		}
		p.Close()
	}
	var out []string
	it := new(link.Iterator)
	defer it.Close()
	for it.Next() {
		info, err := it.Link.Info()
		if err != nil {
			continue
		}
		if name, ok := ours[info.Program]; ok {
			out = append(out, fmt.Sprintf("link %d (%s)", info.ID, name))
		}
	}
	return out, it.Err()
}
