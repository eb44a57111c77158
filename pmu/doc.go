// SPDX-License-Identifier: Apache-2.0

// Package pmu knows counters: which events the CPUs of a machine have, which of them answer a question, how
// they are opened, who has to take turns, and what is missing and why. It reads /sys and /proc and opens perf
// events; it knows no probes, no recordings and no engine.
//
// # The way of a counter, from its name to a number
//
//  1. ReadMachine reads the units that count (PMU), which CPUs each counts for, and what those CPUs are
//     (Kind). A machine with cores of several kinds has several units. The root of /sys and /proc can be
//     another one (ReadMachineFS).
//  2. ParseEvents reads what a person wrote (-e cycles,r003c,{l1d_cache,l1d_cache_refill}:u) into Specs. A
//     Question stands for groups of names instead, by the kind of CPU.
//  3. NewPlan looks each name up on each unit: perf's own names, what the kernel lists in sysfs, Arm's names, the
//     table of the kind. It yields Counters (a column each, whatever the CPU), each with an Event for
//     every unit that has it, and Missing for what is nowhere or not everywhere. Nothing is opened yet.
//  4. Plan.Open opens the events on every CPU, or for one thread. The kernel refuses a group that cannot be
//     counted at once: it is taken apart. A trial of some 20 ms shows who got a counter for which share of
//     the time (Turns), and finds a counter that somebody else holds.
//  5. Whoever counts reads: Set.Read here, or a probe by Set.Handles. A Reading is a count and two
//     times. Readings are subtracted (Sub), the spans of what belongs together added (Add), and the sum
//     made a Count: exact, scaled, or unknown.
//  6. A total of 0 over a whole recording is shown only where Counter.Doubtful says nothing against it.
//
// # Does the CPU have the event?
//
// A code that a CPU does not have opens and reads 0. So it is decided before (Proof):
//
//   - On Arm, codes below 0x40 and from 0x4000 to 0x403f: the CPU says in a register which it has, and the kernel
//     lists those in sysfs. What is not listed is refused. (A kernel older than an event does not list
//     it either; it is refused as well.)
//   - On Arm, other codes: the list of the kind decides, by part number. But a unit that lacks the half of the
//     first sort that its kind has is an emulator's, or filtered by a host: there the list says nothing, and such
//     codes are refused (PMU.Genuine). Where a kind has no list they are opened, as Unproved.
//   - On x86, names: perf's are mapped by the kernel, which knows the CPU; others come from sysfs or from the table of
//     the model. Codes that stand in neither are opened, as Unproved: no list of Intel's or AMD's that
//     is here is complete.
//
// # Where to count
//
// On all CPUs (Options.CPUs), a descriptor for each event and CPU: what a probe reads is the counter of the
// CPU on which it runs, with the right kind's event behind it. bpf_perf_event_read_value reads only the
// current CPU's, and no inherited counts, so nothing is inherited. The counter runs on while other threads
// run: a span that was interrupted must be cut at the switches, and one whose end is on another CPU has no
// difference of two readings. Or one thread (Options.Thread), wherever it runs: its counts are its own, but
// only the thread itself can read them in a probe, and each needs a descriptor of its own.
//
// Counted on a CPU, the kernel's own events are the CPU's as well: task-clock is elapsed time, a context
// switch is counted after the scheduler's tracepoint, a migration when its thread arrives. What belongs to a
// thread the kernel also keeps with the thread (task_struct: min_flt, maj_flt, nvcsw, nivcsw,
// se.nr_migrations, se.sum_exec_runtime).
//
// # Turns
//
// Events asked for one by one take turns one by one, those in braces and those of a question together. More
// groups than fit take turns of PMU.Interval (4 ms). Auto leaves out what does not fit, so that nothing is
// scaled. How many counters there are nobody tells a program portably: it is tried. On x86 the NMI watchdog
// holds one of each CPU, which the kernel does not take into account when it accepts a group.
//
// # Tables
//
// armkinds.go, armevents.go, x86kinds.go, zen.go. The names and codes are facts of the CPUs, as Linux
// 6.12.117 states them; testdata/sources has the lines with their files, and tests compare every name, code,
// part and model with them, and with sysfs on the machine that runs the tests. testdata/machines has trees of
// /sys and /proc: those of emulators and virtual machines are recorded, the others are composed from the
// kernel's sources, as each says at its head. No real CPU's counters have been read with these tables so far:
// what an event means is its vendor's word.
package pmu
