// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	sources = "sys/bus/event_source/devices"
	// Bounds on what is read; the largest known machines are far below.
	maxCPU     = 1 << 14
	maxSources = 1 << 10
	maxEvents  = 1 << 12
	maxFile    = 1 << 14
	maxCPUInfo = 1 << 24
)

// Machine is what this package knows about a computer before opening anything.
type Machine struct {
	// PMUs are the units that count for a CPU, in the order of their first CPU. A machine with CPUs of
	// several kinds has several, a virtual machine often none.
	PMUs []*PMU
	// Elsewhere are the names of event sources that do not count for a CPU: memory controllers,
	// interconnects, the kernel itself.
	Elsewhere []string
	CPUs      []CPU // those online, by number
	Hidden    bool  // this process may not read the event sources
	Guest     bool  // x86 reports a hypervisor; Arm does not show it
	// Paranoid is kernel.perf_event_paranoid; nil if the kernel does not have it.
	Paranoid *int
	// NMIWatchdog: the kernel monitors its CPUs by interrupts; on x86 that takes one counter of each.
	NMIWatchdog bool
}

// CPU is one processor, numbered as in the kernel.
type CPU struct {
	N   int
	ID  CPUID
	PMU *PMU // nil: none counts for it
}

// CPUID identifies a CPU model.
type CPUID struct {
	MIDR                    uint64 // Arm's main ID register; 0: not an Arm CPU, or unknown
	Vendor                  string // x86: GenuineIntel, AuthenticAMD
	Family, Model, Stepping int    // x86
}

// PMU is a unit of the kernel that counts hardware events for some CPUs.
type PMU struct {
	Name string
	Type uint32
	CPUs []int // online ones
	ID   CPUID // of its first CPU
	Kind *Kind // of its CPUs; nil: not in a table
	// Format has the bits of the terms of an event (event=0x11); Events has the events that the kernel lists,
	// as terms.
	Format map[string]Field
	Events map[string]string
	// Genuine is false if Arm's unit lacks most of what every CPU of its kind counts: an emulator, or a host
	// that filters. The kind's table is then meaningless.
	Genuine bool
	// Interval is after how many milliseconds the kernel lets another group have the counters.
	Interval int
}

// Arm reports whether this is Arm's architectural unit (PMUv3).
func (p *PMU) Arm() bool {
	return strings.HasPrefix(p.Name, "armv8") || strings.HasPrefix(p.Name, "armv9")
}

// String is the kind of CPU if it is known, otherwise the unit.
func (p *PMU) String() string {
	if p.Kind != nil {
		return p.Kind.Name
	}
	return p.Name
}

// Describe describes what counts where: Cortex-A76 (armv8_cortex_a76), CPUs 4-7.
func (p *PMU) Describe() string {
	kind := "CPUs of an unknown kind"
	if p.Kind != nil {
		kind = p.Kind.Name
	}
	if !p.Genuine {
		kind += " by name only"
	}
	return fmt.Sprintf("%s (%s), CPUs %s", kind, p.Name, formatCPUs(p.CPUs))
}

// formatCPUs formats a list for parseCPUs.
func formatCPUs(cpus []int) string {
	var b strings.Builder
	for i := 0; i < len(cpus); {
		last := i
		for last+1 < len(cpus) && cpus[last+1] == cpus[last]+1 {
			last++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, cpus[i])
		if last > i {
			fmt.Fprintf(&b, "-%d", cpus[last])
		}
		i = last + 1
	}
	return b.String()
}

// ReadMachine reads /sys and /proc of this machine.
func ReadMachine() (*Machine, error) { return ReadMachineFS(os.DirFS("/")) }

// ReadMachineFS reads them below root (sys/bus/event_source/devices and so on). Missing files mean absence;
// an error is a read error.
func ReadMachineFS(root fs.FS) (*Machine, error) {
	m := &Machine{}
	info, err := readCPUInfo(root)
	if err != nil {
		return nil, err
	}
	m.Guest = info.guest
	online, err := readCPUs(root, "sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	if online == nil {
		online = info.numbers()
	}
	for _, n := range online {
		id := info.ids[n]
		if s, ok, err := readFile(root,
			fmt.Sprintf("sys/devices/system/cpu/cpu%d/regs/identification/midr_el1",
				n), maxFile); err != nil {
			return nil, err
		} else if v, err := strconv.ParseUint(s, 0, 64); ok && err == nil {
			id.MIDR = v
		}
		m.CPUs = append(m.CPUs, CPU{N: n, ID: id})
	}
	if s, ok, _ := readFile(root, "proc/sys/kernel/perf_event_paranoid", maxFile); ok {
		if v, err := strconv.Atoi(s); err == nil {
			m.Paranoid = &v
		}
	}
	s, _, _ := readFile(root, "proc/sys/kernel/nmi_watchdog", maxFile)
	m.NMIWatchdog = s == "1"
	if err := m.readSources(root); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Machine) readSources(root fs.FS) error {
	names, err := list(root, sources, maxSources)
	if errors.Is(err, fs.ErrPermission) {
		m.Hidden = true
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		p, err := m.readPMU(root, name)
		if err != nil {
			return err
		}
		if p == nil {
			m.Elsewhere = append(m.Elsewhere, name)
			continue
		}
		if len(p.CPUs) == 0 {
			continue // all of them offline
		}
		for i := range m.CPUs {
			if slices.Contains(p.CPUs, m.CPUs[i].N) {
				m.CPUs[i].PMU = p
			}
		}
		m.PMUs = append(m.PMUs, p)
	}
	slices.SortStableFunc(m.PMUs, func(a, b *PMU) int { return a.CPUs[0] - b.CPUs[0] })
	return nil
}

// readPMU reads one event source; nil if it does not count for CPUs. Those that do have a file cpus, except
// the only one of x86, which is called cpu. Units that count for a socket or the machine have a cpumask
// instead (tools/perf/util/pmu.c and pmus.c distinguish them in the same way).
func (m *Machine) readPMU(root fs.FS, name string) (*PMU, error) {
	dir := path.Join(sources, name)
	cpus, err := readCPUs(root, path.Join(dir, "cpus"))
	if err != nil {
		return nil, err
	}
	if cpus == nil && name != "cpu" {
		return nil, nil
	}
	t, ok, err := readFile(root, path.Join(dir, "type"), maxFile)
	if err != nil || !ok {
		return nil, err
	}
	typ, err := strconv.ParseUint(t, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%s/type: %w", dir, err)
	}
	p := &PMU{Name: name, Type: uint32(typ), Format: map[string]Field{}, Events: map[string]string{},
		Genuine: true, Interval: 4}
	for _, c := range m.CPUs {
		if cpus == nil || slices.Contains(cpus, c.N) {
			p.CPUs = append(p.CPUs, c.N)
		}
	}
	if len(p.CPUs) > 0 {
		i := slices.IndexFunc(m.CPUs, func(c CPU) bool { return c.N == p.CPUs[0] })
		p.ID = m.CPUs[i].ID
	}
	p.Kind = kindOf(p.ID, name)
	if s, ok, _ := readFile(root, path.Join(dir, "perf_event_mux_interval_ms"), maxFile); ok {
		if v, err := strconv.Atoi(s); err == nil && v > 0 && v < 1000 {
			p.Interval = v
		}
	}
	err = eachFile(root, path.Join(dir, "format"), func(k, v string) {
		if f, err := parseField(v); err == nil {
			p.Format[k] = f
		}
	})
	if err != nil {
		return nil, err
	}
	err = eachFile(root, path.Join(dir, "events"), func(k, v string) {
		// mem-loads.unit, topdown-slots.scale: about an event, not an event
		if !strings.HasSuffix(k, ".scale") && !strings.HasSuffix(k, ".unit") &&
			!strings.HasSuffix(k, ".snapshot") && !strings.HasSuffix(k, ".per-pkg") {
			p.Events[k] = v
		}
	})
	if err != nil {
		return nil, err
	}
	if p.Arm() && p.Kind != nil {
		p.Genuine = p.genuine()
	}
	return p, nil
}

// genuine compares what the unit claims to count with the list of its kind: a CPU of that kind counts all of
// it, so one that lacks half is something else under a borrowed name.
func (p *PMU) genuine() bool {
	var has, lacks int
	listed := p.armListed()
	for _, r := range p.Kind.codes {
		for c := r[0]; c <= r[1]; c++ {
			if !armCovered(uint64(c)) {
				continue
			}
			if listed[uint64(c)] {
				has++
			} else {
				lacks++
			}
		}
	}
	return lacks <= has
}

// armListed is the set of codes that the kernel lists.
func (p *PMU) armListed() map[uint64]bool {
	out := map[uint64]bool{}
	for _, v := range p.Events {
		if e, err := p.encode(v); err == nil {
			out[e.config] = true
		}
	}
	return out
}

// eachFile calls fn with the name and the text of each file in dir.
func eachFile(root fs.FS, dir string, fn func(name, text string)) error {
	names, err := list(root, dir, maxEvents)
	if err != nil {
		return err
	}
	for _, n := range names {
		s, ok, err := readFile(root, path.Join(dir, n), maxFile)
		if err != nil {
			return err
		}
		if ok {
			fn(n, s)
		}
	}
	return nil
}

// list returns the names in a directory, none if it does not exist.
func list(root fs.FS, dir string, limit int) ([]string, error) {
	entries, err := fs.ReadDir(root, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("what this machine can count: %w", err)
	}
	if len(entries) > limit {
		return nil, fmt.Errorf("/%s has %d entries, more than %d", dir, len(entries), limit)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, nil
}

// readFile reads a small file without its trailing space. ok is false if it does not exist or this process
// may not read it.
func readFile(root fs.FS, name string, limit int64) (s string, ok bool, err error) {
	f, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("what this machine can count: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		// sysfs: what a device refuses to report (EINVAL, ENODEV) does not exist
		return "", false, nil
	}
	return strings.TrimSpace(string(b)), true, nil
}

// readCPUs reads a list such as "0-3,8"; nil if there is no such file.
func readCPUs(root fs.FS, name string) ([]int, error) {
	s, ok, err := readFile(root, name, maxFile)
	if err != nil || !ok {
		return nil, err
	}
	cpus, err := parseCPUs(s)
	if err != nil {
		return nil, fmt.Errorf("/%s: %w", name, err)
	}
	return cpus, nil
}

// parseCPUs parses the kernel's lists of CPUs: "0-3,8". They are in order, without duplicates.
func parseCPUs(s string) ([]int, error) {
	out := []int{}
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		a, b, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(a)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(b)
		}
		if err != nil || first < 0 || last < first || last >= maxCPU {
			return nil, fmt.Errorf("%q is no list of CPUs", s)
		}
		if n := len(out); n > 0 && out[n-1] >= first {
			return nil, fmt.Errorf("%q is not in order", s)
		}
		for c := first; c <= last; c++ {
			out = append(out, c)
		}
	}
	return out, nil
}
