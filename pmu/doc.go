// SPDX-License-Identifier: Apache-2.0

// Package pmu knows counters: which events the CPUs of a machine have, which of them belong to a preset
// (Question), how to open them, which have to be multiplexed, and what is missing and why. It reads /sys and
// /proc and opens perf events; it knows nothing about probes, recordings or engines.
//
// # From a counter's name to a number
//
//  1. ReadMachine reads the counting units (PMU), the CPUs that each counts for, and what those CPUs are
//     (Kind). A machine with cores of several kinds has several units. Another root of /sys and /proc can be
//     given (ReadMachineFS).
//  2. ParseEvents parses what a person wrote (-e cycles,r003c,{l1d_cache,l1d_cache_refill}:u) into Specs. A
//     Question stands for groups of names instead, depending on the kind of CPU.
//  3. NewPlan looks up each name on each unit: perf's own names, what the kernel lists in sysfs, Arm's names,
//     the table of the kind. It returns Counters (a column each, whatever the CPU), each with an Event for
//     every unit that has it, and Missing for what no unit has, or not every unit. Nothing is opened yet.
//  4. Plan.Open opens the events on every CPU, or for one thread. If the kernel refuses a group that cannot
//     be counted simultaneously, the group is split. A trial of some 20 ms shows which events got a counter
//     for which share of the time (Turns), and detects a counter that something else holds.
//  5. The caller reads: Set.Read here, or a probe through Set.Handles. A Reading is a count and two times.
//     Readings are subtracted (Sub), the spans that belong together are added (Add), and the sum becomes a
//     Count: exact, scaled, or unknown.
//  6. A total of 0 over a whole recording is shown only if Counter.Doubtful has no objection.
//
// # Does the CPU have the event?
//
// A code that a CPU does not have can be opened and reads 0. So it is decided beforehand (Proof):
//
//   - On Arm, codes below 0x40 and from 0x4000 to 0x403f: a CPU register shows which ones exist, and the
//     kernel lists those in sysfs. What is not listed is refused. (A kernel older than an event does not list
//     it either; it is refused as well.)
//   - On Arm, other codes: the list of the kind decides, by part number. But a unit that lacks half of the
//     common codes of its kind is an emulator's, or filtered by a host: there the list is meaningless, and
//     such codes are refused (PMU.Genuine). If a kind has no list they are opened, as Unproved.
//   - On x86, names: perf's are mapped by the kernel, which knows the CPU; others come from sysfs or from the
//     table of the model. Codes found in neither are opened, as Unproved: none of the lists for Intel or AMD
//     here is complete.
//
// # Where to count
//
// On all CPUs (Options.CPUs), with a descriptor per event and CPU: a probe reads the counter of the CPU on
// which it runs, with the right kind's event. bpf_perf_event_read_value reads only the current CPU's counter,
// and no inherited counts, so nothing is inherited. The counter keeps running while other threads run: an
// interrupted span must be split at the switches, and the readings of a span that ends on another CPU cannot
// be subtracted. Or one thread (Options.Thread), wherever it runs: its counts are its own, but only the
// thread itself can read them in a probe, and each needs a descriptor of its own.
//
// On a CPU, the kernel's own events count per CPU as well: task-clock is elapsed time, a context switch is
// counted after the scheduler's tracepoint, a migration when its thread arrives. The counts of a thread are
// also kept by the kernel with the thread (task_struct: min_flt, maj_flt, nvcsw, nivcsw, se.nr_migrations,
// se.sum_exec_runtime).
//
// # Turns
//
// Events requested one by one take turns one by one, those in braces and those of a preset together. If there
// are more groups than fit, they take turns of PMU.Interval (4 ms). Auto omits what does not fit, so that
// nothing is scaled. There is no portable way to query the number of counters: it is found by trying. On x86
// the NMI watchdog holds one on each CPU, which the kernel ignores when it accepts a group.
//
// # Tables
//
// armkinds.go, armevents.go, x86kinds.go, zen.go. The names and codes are facts of the CPUs, as stated by
// Linux 6.12.117. testdata/sources has the lines with their files, and tests compare every name, code, part
// and model with them, and with sysfs on the machine that runs the tests. testdata/machines has trees of /sys
// and /proc: those of emulators and virtual machines are recorded, the others are composed from the kernel's
// sources, as stated at the top of each. No real CPU's counters have been read with these tables so far: the
// meaning of an event is what its vendor says.
package pmu
