// SPDX-License-Identifier: Apache-2.0

// Package oncpu follows the scheduler's events: what each thread does, and who has each CPU. Events can be
// missing; this is the one place that decides what is known then.
package oncpu

// State is what a thread does.
type State uint8

const (
	Unknown   State = iota
	Preempted       // runnable, after it was taken off its CPU
	Woken           // runnable, after it was woken
	Sleeps          // it waits for something (a lock, work)
	Blocked         // uninterruptible sleep: mostly disk
	Runs
)

// uninterruptible is the kernel's TASK_UNINTERRUPTIBLE (include/linux/sched.h).
const uninterruptible = 2

// Runnable reports whether the thread lacks nothing but a CPU.
func (s State) Runnable() bool { return s == Preempted || s == Woken }

// Off reports whether the thread is known to be on no CPU.
func (s State) Off() bool { return s != Unknown && s != Runs }

// Thread is what is known of one thread. The zero value is a thread of which nothing was seen.
type Thread struct {
	State State
	Since int64  // when the state began, ns
	CPU   uint16 // that it has or left; of a woken thread, the CPU of the wake-up
	Left  int64  // when it left its CPU, ns; 0: it has one, or that was not seen
}

// Leave handles that the thread is switched away from, in a task state of the kernel. It returns what was known
// of the thread; a state in which it had no CPU means that the switch to it was not seen.
func (t *Thread) Leave(at int64, cpu uint16, state uint32) (was Thread) {
	was = *t
	*t = Thread{State: Sleeps, Since: at, CPU: cpu, Left: at}
	switch {
	case state == 0:
		t.State = Preempted
	case state&uninterruptible != 0:
		t.State = Blocked
	}
	return was
}

// Wake handles the thread's wake-up. It returns what was known of the thread; ok is false where that does not
// change: it runs, or is runnable already.
func (t *Thread) Wake(at int64, cpu uint16) (was Thread, ok bool) {
	if was = *t; was.State == Runs || was.State.Runnable() {
		return was, false
	}
	t.State, t.Since, t.CPU = Woken, at, cpu
	return was, true
}

// Enter handles that the thread is switched to. It returns what was known of the thread.
func (t *Thread) Enter(at int64, cpu uint16) (was Thread) {
	was = *t
	*t = Thread{State: Runs, Since: at, CPU: cpu}
	return was
}

// KnownUntil returns until when a state that Leave returned is known, ns, if the switch to the thread was not
// seen: up to the last switch of the CPU that it left and was next seen on, otherwise not at all.
func (t *Thread) KnownUntil(cpu uint16, lastSwitch int64) int64 {
	if !t.State.Off() || t.CPU != cpu {
		return t.Since
	}
	return max(t.Since, lastSwitch)
}
