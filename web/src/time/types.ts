// SPDX-License-Identifier: Apache-2.0

// The timeline as package profile gives it (profile/timeline/timeline.go, schema_version 1): times in ns from the run's start, sizes in
// bytes, null what is not known.

import type { StatCounter } from '../stat-types'

export interface TimeIndex {
  schema_version: number
  start_ns: string
  dur_ns: number
  level: string
  processes: { pid: number; comm: string; engine: string }[] | null
  threads: TimeThread[] | null
  cpus: number[] | null
  runners: Runner[] | null
  ops: OpDef[] | null
  strings: string[] | null
  chunks: ChunkInfo[] | null
  losses: Loss[] | null
  has_sched: boolean
  spans: number
  operators: number
  spans_left_out: number
  sched_left_out: number
  losses_left_out: number
  copies_left_out?: number
  device_spans_left_out?: number
  counters?: StatCounter[]
  overview: { bin_ns: number; tracks: { track: 'thread' | 'cpu'; index: number; start_ns: number; bins: number }[] | null }
}

export interface TimeThread {
  pid: number
  tid: number
  comm: string
  role: string
  operators: number
  busy_ns: number
  wait_ns: number
  off_cpu_ns: number
}

/** Who ran on a CPU. thread is the index of an engine's thread, -1 of others; runner 0 is what was not seen. */
export interface Runner {
  tid: number
  comm: string
  thread: number
}

export interface OpDef {
  name: string
  op: string
  /** The key of its row in the statistics by weight. */
  label: string
  kind: number
  type: string
  ne: number[]
  layer: number | null
  block: string
  weight: string
  weight_type: string
  bytes: number | null
  bytes_at_most: boolean
  flops: number | null
  node: number
  calls: number
  first_ns: number
  first_op: number
}

export interface ChunkInfo {
  kind: 'ops' | 'sched'
  start_ns: number
  dur_ns: number
  base_ns: number
  spans: number
  first_op?: number
  last_op?: number
  kept: boolean
}

export interface Loss {
  start_ns: number
  dur_ns: number
  why: string
  what: string
  events: number
  cpu: number
}

/** Kinds of operators by number (profile.TimelineKinds). */
export const kinds = ['matmul', 'attention', 'moe', 'norm', 'elementwise', 'copy', 'other'] as const
export const phases = ['', 'prefill', 'decode', 'encode'] as const

/** Channels of a thread's bins: the kinds, then these. */
export const chanWait = kinds.length
export const chanOff = kinds.length + 1
export const threadChannels = kinds.length + 2
/** Of a CPU's: the engine's threads, others, not seen. */
export const cpuChannels = 3

/** What a thread does that is on no CPU (profile.StatePreempted and following). */
export const states = ['', 'preempted: it could run', 'woken, waits for a CPU', 'sleeps', 'blocked (disk, mostly)'] as const
