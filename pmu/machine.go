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
	// What follows bounds what is read; the largest machines known stay far below.
	maxCPU     = 1 << 14
	maxSources = 1 << 10
	maxEvents  = 1 << 12
	maxFile    = 1 << 14
	maxCPUInfo = 1 << 24
)

// Machine is what this package knows of a computer before it opens anything.
type Machine struct {
	// PMUs holds the units that count for a CPU, in the order of their first CPU. A machine with
	// CPUs of several kinds has several, a virtual machine often none.
	PMUs []*PMU
	// Elsewhere names event sources that count for no CPU: memory controllers, interconnects, the
	// kernel itself.
	Elsewhere []string
	CPUs      []CPU // those online, by number
	Hidden    bool  // this process may not look at the event sources
	Guest     bool  // x86 says that a hypervisor runs it; Arm does not tell
	// Paranoid is kernel.perf_event_paranoid; nil where the kernel does not tell.
	Paranoid *int
	// NMIWatchdog says that the kernel watches its CPUs by interrupts; on x86 that takes one counter
	// of each.
	NMIWatchdog bool
}

// CPU is one processor as the kernel numbers them.
type CPU struct {
	N   int
	ID  CPUID
	PMU *PMU // nil: none counts for it
}

// CPUID says what a CPU is.
type CPUID struct {
	MIDR                    uint64 // Arm's main ID register; 0: no Arm CPU, or not told
	Vendor                  string // x86: GenuineIntel, AuthenticAMD
	Family, Model, Stepping int    // x86
}

// PMU is a unit of the kernel that counts hardware events for some CPUs.
type PMU struct {
	Name string
	Type uint32
	CPUs []int // online ones
	ID   CPUID // of its first CPU
	Kind *Kind // of its CPUs; nil: in no table
	// Format says where the terms of an event stand (event=0x11); Events holds the events that the
	// kernel lists, as terms.
	Format map[string]Field
	Events map[string]string
	// Genuine is false where Arm's unit lacks most of what every CPU of its kind counts: an emulator, or
	// a host that filters. The kind's table says nothing there.
	Genuine bool
	// Interval is after how many milliseconds the kernel gives another group its turn on the
	// counters.
	Interval int
}

// Arm says that this is Arm's architectural unit (PMUv3).
func (p *PMU) Arm() bool {
	return strings.HasPrefix(p.Name, "armv8") || strings.HasPrefix(p.Name, "armv9")
}

// String names the kind of CPU where it is known, else the unit.
func (p *PMU) String() string {
	if p.Kind != nil {
		return p.Kind.Name
	}
	return p.Name
}

// Describe says what counts where: Cortex-A76 (armv8_cortex_a76), CPUs 4-7.
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

// formatCPUs writes a list as parseCPUs reads it.
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

// ReadMachineFS reads them below root (sys/bus/event_source/devices and so on). What is missing there is
// taken for not being there; an error is one of reading.
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

// readPMU reads one event source; nil if it does not count for CPUs. The kernel gives those a file
// cpus, except x86's only one, which is called cpu; what counts for a socket or the machine has a
// cpumask instead (tools/perf/util/pmu.c and pmus.c tell them apart the same way).
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
		// mem-loads.unit, topdown-slots.scale: about an event, not one
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

// genuine compares what the unit says it counts with the list of its kind: a CPU of that kind counts
// it all, so one that lacks the half of it is another one behind a borrowed name.
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

// list is the names in a folder, none where there is no such folder.
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

// readFile reads a small file without its trailing space. ok is false where there is none, or one
// that this process may not read.
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
		// sysfs: what a device does not want to tell (EINVAL, ENODEV) is not there
		return "", false, nil
	}
	return strings.TrimSpace(string(b)), true, nil
}

// readCPUs reads a list as "0-3,8"; nil where there is no such file.
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

// parseCPUs reads the kernel's lists of CPUs: "0-3,8". They come in order, without one twice.
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
