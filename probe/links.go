// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// programName is the maximum length of a program's name in the kernel (BPF_OBJ_NAME_LEN).
const programName = 15

// uprobePrograms returns the names of all programs that are attached to sites: complete, as the kernel
// reports them with BTF, and cut.
func uprobePrograms() (map[string]bool, error) {
	spec, err := loadKernel()
	if err != nil {
		return nil, fmt.Errorf("reading the BPF object: %w", err)
	}
	names := map[string]bool{}
	for name, p := range spec.Programs {
		if p.Type == ebpf.Kprobe {
			names[name], names[name[:min(len(name), programName)]] = true, true
		}
	}
	return names, nil
}

// Links lists the kernel's uprobe links that run profinfer's programs in the processes given, in any if none
// is, whichever process holds them: none once every recording of theirs has ended.
func Links(pids ...int) ([]string, error) {
	names, err := uprobePrograms()
	if err != nil {
		return nil, err
	}
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
			if names[info.Name] {
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
		if m := info.UprobeMulti(); m != nil && len(pids) > 0 {
			if pid, ok := m.Pid(); ok && !slices.Contains(pids, int(pid)) {
				continue
			}
		}
		if name, ok := ours[info.Program]; ok {
			out = append(out, fmt.Sprintf("link %d (%s)", info.ID, name))
		}
	}
	return out, it.Err()
}
