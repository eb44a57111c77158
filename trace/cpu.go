// SPDX-License-Identifier: Apache-2.0

package trace

// TypeCPU is a block with what the kernel reported about the machine's CPUs.
const TypeCPU Type = 19

// CPUState is what the kernel reported about the machine's CPUs at some time.
type CPUState struct {
	Time int64     `json:"time_ns"`
	CPUs []CPUTime `json:"cpus"`
}

// CPUTime is the state of one CPU.
type CPUTime struct {
	CPU int `json:"cpu"`
	// Steal is the steal time since boot, ns: the hypervisor ran something else although this CPU had work.
	// It has the resolution of the kernel's tick (10 ms). nil: this kernel does not report it.
	Steal *int64 `json:"steal_ns,omitempty"`
	// KHz is its frequency at that moment. nil: unknown.
	KHz *int64 `json:"khz,omitempty"`
}

// CPU writes the state of the machine's CPUs.
func (w *Writer) CPU(s CPUState) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state(); err != nil {
		return err
	}
	return w.json(TypeCPU, s, 1, s.Time, s.Time)
}
