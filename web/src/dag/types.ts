// SPDX-License-Identifier: Apache-2.0

// The operator graphs as section "dag" has them (profile/dag/dag.go, schema_version 1): times in ns, sizes in
// bytes, shares 0 to 1, null what is not known.
import type { Metric } from '../counters'
import type { StatCount, StatCounter } from '../stat-types'

export interface DAGs {
  schema_version: number
  dags: DAG[]
  rest: { phase: string; model: number | null; runs: number; structures: number; operators: number; operators_ns: number; probe_ns: number }[]
  outside_operators: number
  p95_max_error: number
  outlier_rule: string
  outlier_min_calls: number
  counters?: StatCounter[]
}

export interface DAG {
  phase: string
  model: number | null
  pid: number
  rank: number
  only_partial: boolean
  traced_steps: number
  traced_ns: number
  steps: number
  runs: number
  operators: number
  operators_ns: number
  probe_ns: number
  share: number | null
  unplaced_ns: number
  parts: Part[]
  nodes: DagNode[]
  edges: DagEdge[]
  kinds: Kind[]
  /** What counters tell of its nodes; made when the section is read. */
  counted?: Metric[]
}

export interface Part {
  backend: string
  first: number
  count: number
  graphs: number
  dur_ns: number
  shapes: number
  seen: boolean
  incomplete: string
}

export type NodeKind = 'op' | 'view' | 'idle' | 'weight' | 'cache' | 'input'

export interface DagNode {
  name: string
  op: string
  type: string
  kind: NodeKind
  ne: number[]
  ne_max?: number[]
  tensor_bytes: number | null
  layer: number | null
  block: string
  section: string
  part: number
  fused?: number[]
  fused_into: number
  weight: number
  stat_key?: string
  run: DagRun | null
}

export interface DagRun {
  calls: number
  dur_ns: number
  probe_ns: number
  per_step_ns: number | null
  share: number | null
  mean_ns: number
  std_ns: number | null
  min_ns: number
  max_ns: number
  median_ns: number
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
  counts?: StatCount[]
}

export interface DagEdge {
  from: number
  to: number
  kind: 'data' | 'view' | 'weight' | 'cache' | 'input' | 'write' | 'copy'
  bytes: number | null
}

export interface Kind {
  layers: number[]
  roles: { name: string; nodes: number[]; spread: Spread | null }[]
  layer_ns: (number | null)[]
  layer_median_ns: (number | null)[]
  spread: Spread | null
}

/** Over layers; but for mean_ns of their medians over calls. */
export interface Spread {
  mean_ns: number
  calls: number
  median_ns: number
  min_ns: number
  min_layer: number
  max_ns: number
  max_layer: number
  outliers: Outlier[]
}

export interface Outlier {
  layer: number
  /** That its median is of. */
  calls: number
  over: number
  z: number | null
}
