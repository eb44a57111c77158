// SPDX-License-Identifier: Apache-2.0

package trace

// TypeCPU is a block of what the kernel told of the machine's CPUs.
const TypeCPU Type = 19

// CPUState is what the kernel told of the machine's CPUs at a time.
type CPUState struct {
	Time int64     `json:"time_ns"`
	CPUs []CPUTime `json:"cpus"`
}

// CPUTime is one CPU's.
type CPUTime struct {
	CPU int `json:"cpu"`
	// Steal is the time since the machine's start that the hypervisor ran something else although this CPU
	// had work, ns, in steps of the kernel's tick count (10 ms). nil: this kernel does not tell.
	Steal *int64 `json:"steal_ns,omitempty"`
	// KHz is its frequency just then. nil: not told.
	KHz *int64 `json:"khz,omitempty"`
}

// CPU takes the state of the machine's CPUs.
func (w *Writer) CPU(s CPUState) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state(); err != nil {
		return err
	}
	return w.json(TypeCPU, s, 1, s.Time, s.Time)
}
