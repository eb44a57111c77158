// SPDX-License-Identifier: Apache-2.0

// The section "offload" (profile/offload/detail.go, schema_version 1): times in ns, sizes in bytes, null what is not known. What a phase has
// beside its typical step is what `stat --json` has as "offload".

export interface OffloadDetail {
  schema_version: number
  phases: OffloadPhase[]
}

export interface OffloadPhase {
  phase: string
  steps: number
  backends: Backend[] | null
  copies: CopySum[]
  /** Mean time from a step's begin to when its devices were known to be done, of it the step's own call; tokens a second by that. */
  step_until_done_ns: number | null
  step_call_ns: number | null
  tokens_per_s: number | null
  products_by_backend: Products[]
  operators_by_backend: BackendOp[]
  graphs_by_backend: BackendGraph[]
  operators_left_out: number
  split: boolean
  tensors: TensorSum[]
  tensors_left_out: number
  step: SplitStep | null
}

export interface LayerSet {
  first: number
  last: number
  count: number
}

export interface Backend {
  backend: string
  graphs_per_step: number
  nodes_per_step: number
  weights_per_step: number
  flops_per_step: number
  host_ns_per_step: number
  layers: LayerSet | null
  ops: { op: string; per_step: number }[]
  device_spans: number
  unwaited: number
  device_ns_per_step: number | null
  waited_ns_per_step: number | null
  idle_ns_per_step: number | null
  queue_spans: number
  busy_ns_per_step: number | null
}

export interface CopySum {
  kind: string
  from: string
  to: string
  per_step: number
  bytes_per_step: number | null
  dur_ns_per_step: number | null
  largest: string
}

export interface TensorSum {
  kind: string
  from: string
  to: string
  tensor: string
  type: string
  per_step: number
  bytes_per_step: number | null
  dur_ns_per_step: number | null
}

/** How a time is known. */
export type TimedBy = '' | 'operators' | 'call' | 'span' | 'busy'

export interface Products {
  backend: string
  products_per_step: number
  flops_per_step: number | null
  bytes_per_step: number | null
  timed_ns_per_step: number | null
  timed_by: TimedBy
  timed_share: number | null
  other_operators_per_step: number
  gflop_per_s: number | null
  gb_per_s: number | null
}

export interface BackendOp {
  key: string
  weight: boolean
  op: string
  type: string
  ne: number[]
  k: number | null
  flops: number | null
  bytes: number | null
  bytes_at_most: boolean
  backends: OpTime[]
}

export interface OpTime {
  backend: string
  calls_per_step: number
  layers: LayerSet | null
  timed_calls: number
  mean_ns: number | null
  timed_by: TimedBy
  gflop_per_s: number | null
  gb_per_s: number | null
}

export interface BackendGraph {
  backend: string
  operators: { operator: number; count: number }[]
  nodes: number
  layers: LayerSet | null
  calls_per_step: number
  timed_calls: number
  mean_ns: number | null
  timed_by: TimedBy
  flops: number | null
  others: { backend: string; ns: number; operators: number; ratio: number | null; flops_share: number | null }[]
}

export interface SplitStep {
  step: number
  pid: number
  start_ns: number
  dur_ns: number
  of_steps: number
  splits: StepSplit[]
  copies: StepCopy[]
  lists: SplitNode[][]
  splits_left_out: number
  copies_left_out: number
  nodes_left_out: number
}

export interface StepSplit {
  split: number
  graph: number
  backend: string
  start_ns: number
  dur_ns: number
  done_ns: number | null
  waited_ns: number | null
  begin_ns: number | null
  busy_ns: number | null
  before: number
  idle_ns: number | null
  nodes: number
  layers: LayerSet | null
  weights: number
  flops: number
  operators_ns: number | null
  list: number
}

export interface StepCopy {
  at: number
  kind: string
  from: string
  to: string
  tensor: string
  type: string
  bytes: number | null
  start_ns: number
  dur_ns: number | null
  async: boolean
}

export interface SplitNode {
  node: number
  name: string
  op: string
  type: string
  ne: number[]
  layer: number | null
  block: string
  weight: string
  weight_type: string
  flops: number | null
  bytes: number | null
  dur_ns: number | null
  into: number
}
