// SPDX-License-Identifier: Apache-2.0

// The statistics as `profinfer stat --json` gives them (profile/summary/stat.go, schema_version 1): times in ns,
// sizes in bytes, shares 0 to 1, null what is not known.

import type { ExpertStat } from './experts/types'
import type { Sequences } from './requests/types'

export interface Stats {
  weight: Stat
  op: Stat
  layer: Stat
  block: Stat
  thread: Stat
}

export type By = keyof Stats

export interface Stat {
  schema_version: number
  by: By
  run: StatRun
  models: Model[] | null
  phases: PhaseStat[] | null
  outside_steps: { operators: number; operators_ns: number; rows: StatRow[] } | null
  ttft: { sequences: number; unknown: number; pending: number; mean_ns: number | null; p95_ns: number | null; max_ns: number | null }
  threads: ThreadStat[] | null
  lost: StatLost
  has_sched: boolean
  has_off_cpu: boolean
  p95_max_error: number
  verdicts: Verdict[] | null
  run_verdict: Verdict | null
  sequences: Sequences | null
  findings: Finding[] | null
  /** Counters that were read at operators, in the order of every row's counts; absent where there were none. */
  counters?: StatCounter[]
}

/** profile/summary/counts.go. void: why it has no values; empty: it has. */
export interface StatCounter {
  name: string
  role: string
  pmu: string
  unit: string
  user: boolean
  scaled: boolean
  void: string
  /** Of a counter of slots: how many a cycle has; 0: not told. */
  slots?: number
}

/** calls: operators that it is the sum of, those of which it is known. */
export interface StatCount {
  sum: number | null
  calls: number
}

/** What bounds a row's operators, with how near they are to the machine's peaks. */
export interface RowBound {
  bound: Bound
  /** Parts of a mixed bound, or those between which an unknown one could not be told. */
  among: Bound[] | null
  sure: string
  of_peak_gbps: number | null
  of_peak_flops: number | null
  why: string
}

export type Bound = 'memory' | 'compute' | 'wait' | 'disk' | 'interference' | 'outside' | 'mixed' | 'unknown' | ''

/** What bounds one phase: profile/summary/verdict.go. */
export interface Verdict {
  phase: string
  model: number | null
  bound: Bound
  among: Bound[]
  sure: '' | 'high' | 'medium' | 'low'
  text: string
  why: string
  names: string[]
  causes: { bound: Bound; what: string; share: number; per_step_ns: number }[]
  evidence: Evidence[]
}

export interface Evidence {
  name: string
  value: number | null
  unit: string
  text: string
}

/** Something worth looking at: profile/verdict/findings.go. */
export interface Finding {
  kind: string
  phase: string
  model: number | null
  text: string
  names: string[]
  gain_ns_per_step: number | null
  gain_share: number | null
  gain_ns: number | null
  figures: Evidence[]
  target: { view: string; params: Record<string, string> }
}

export interface StatRun {
  tool: string
  command: string[] | null
  host: string
  kernel: string
  arch: string
  cpu: string
  cores: number
  level: string
  recorded_ns: number | null
  processes: {
    pid: number
    comm: string
    engine: string
    engine_version: string
    ggml_version: string
    cpu_variant: string
    threads: number
    steps: number
    command: string[] | null
    warnings: string[] | null
  }[] | null
  dur_ns: number
  steps: number
  operators: number
  probe_share: number | null
  notes: string[] | null
  filter: string
  overhead_budget: string
  min_tps: string
}

export interface Model {
  pid: number
  contexts: number
  family: string
  layers: number
  width: number | null
  vocab: number | null
  heads: number | null
  heads_kv: number | null
  head_dim: number | null
  experts: number | null
  experts_used: number | null
  parameters: number
  bytes: number | null
  types: { type: string; tensors: number; parameters: number; bytes: number | null }[]
}

export interface PhaseStat {
  phase: string
  model: number | null
  steps: number
  partial_steps: number
  only_partial: boolean
  tokens: number | null
  dur_ns: number
  tokens_per_s: number | null
  per_token_ns: number | null
  per_token_p95_ns: number | null
  step_max_ns: number
  /** Only where steps handed work to a device, or to another process: tokens_per_s, per_token_ns and step_max_ns are until their results were there. */
  async_steps?: number
  unseen_results?: number
  end_to_end_ns?: number | null
  /** The same by the steps' calls alone. */
  call_tokens_per_s?: number | null
  call_per_token_ns?: number | null
  call_per_token_p95_ns?: number | null
  step_max: number
  step_max_ran_instead: Culprit[] | null
  traced_steps: number
  traced_ns: number
  operators: number
  operators_ns: number | null
  probe_ns: number | null
  overlap_ns: number | null
  gap_ns: number | null
  backends_ns: number | null
  backends: { backend: string; graphs: number; dur_ns: number; share: number | null }[] | null
  matmul_share: number | null
  attn_share: number | null
  other_share: number | null
  gap_share: number | null
  probe_share: number | null
  backends_share: number | null
  wait_share: number | null
  off_cpu_share: number | null
  gb_per_s: number | null
  matmul_gb_per_s: number | null
  rows: StatRow[] | null
  rest: StatRow | null
  rest_rows: number
  /** What tokens chose of a mixture of experts. */
  experts?: ExpertStat | null
}

export interface StatRow {
  key: string
  weight: boolean
  type: string
  op: string
  block: string
  step?: number
  tokens?: number | null
  tid?: number
  calls: number
  calls_per_step: number
  dur_ns: number
  probe_ns: number
  dur_per_step_ns: number
  share: number | null
  mean_ns: number
  p95_ns: number
  bytes: number | null
  bytes_at_most: boolean
  flops: number | null
  gb_per_s: number | null
  gflop_per_s: number | null
  flop_per_byte: number | null
  busy_ns: number
  wait_ns: number
  off_cpu_ns: number
  wait_share: number | null
  off_cpu_share: number | null
  imbalance: number | null
  incomplete: number
  counts?: StatCount[]
  bound?: RowBound | null
}

export interface Culprit {
  comm: string
  own: boolean
  dur_ns?: number
  count: number
}

export interface ThreadStat {
  pid: number
  tid: number
  comm: string
  role: string
  operators: number
  busy_ns: number
  wait_ns: number
  off_cpu_ns: number
  idle_ns: number
  steps_ns: number
  utilisation: number | null
  imbalance: number | null
  preempted: number | null
  slept: number | null
  runnable_ns: number | null
  ran_instead: Culprit[] | null
  woken_by: Culprit[] | null
}

export interface StatLost {
  events: number
  throttled_ns: number
  spans: number
  by_why: { why: string; what: string; spans: number; events: number; dur_ns: number }[] | null
  untraced_steps: { why: string; steps: number }[] | null
  partial_steps: number
  incomplete_operators: number
  unknown_shapes: number
  part_shapes: number
  aborted_graphs: number
  torn: string
  cut: boolean
  step_rows_dropped: number
}
