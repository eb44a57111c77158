// SPDX-License-Identifier: Apache-2.0

// The section "series" (profile/series/series.go): times in ns, sizes in bytes, null what is not known.

import type { RequestSeries } from '../requests/types'

export interface Series {
  schema_version: number
  phases: PhaseSeries[]
  ttft: Dist | null
  requests: RequestSeries
  quantile_max_error: number
}

export interface PhaseSeries {
  phase: string
  model: number | null
  steps: StepPoint[]
  partial: StepPoint[]
  only_partial: boolean
  slowest: StepPoint[]
  steps_per_point: number
  weight: RowSeries[]
  op: RowSeries[]
  layer: RowSeries[]
  block: RowSeries[]
  rows_dropped: number
  threads: ThreadPart[]
  products: Product[]
  products_dropped: number
  per_token: Dist | null
}

export interface StepPoint {
  id: number
  n: number
  slowest: number
  pid: number
  start_ns: number
  dur_ns: number
  min_ns: number
  max_ns: number
  /** From their calls' ends, which the durations are of, until their results were there; null: not seen. */
  late_ns: number | null
  tokens: number | null
  seqs: number
  pos: number | null
  cells: number | null
  traced: number
  traced_ns: number
  operators: number
  matmul_ns: number | null
  attn_ns: number | null
  other_ns: number | null
  backends_ns: number | null
  gap_ns: number | null
  probe_ns: number | null
  overlap_ns: number | null
  busy_ns: number | null
  wait_ns: number | null
  off_cpu_ns: number | null
  bytes: number | null
  bytes_dur_ns: number
  untraced?: string
  incomplete?: string
}

export interface Dist {
  n: number
  min_ns: number
  max_ns: number
  mean_ns: number
  p5_ns: number
  p25_ns: number
  p50_ns: number
  p75_ns: number
  p95_ns: number
  lo_ns: number
  ratio: number
  counts: number[]
  zeros: number
}

export interface RowSeries {
  key: string
  weight: boolean
  type: string
  time: Dist
  layers?: { layer: number; calls: number; dur_ns: number; max_ns: number }[]
  no_layer?: number
  threads?: ThreadPart[]
}

export interface ThreadPart {
  pid: number
  tid: number
  operators: number
  busy_ns: number
  wait_ns: number
  off_cpu_ns: number
  steps_ns?: number
}

export interface Product {
  key: string
  weight: boolean
  attention: boolean
  type: string
  m: number
  n: number
  k: number
  calls: number
  sum_ns: number
  mean_ns: number
  p5_ns: number
  p95_ns: number
  work: number | null
  flops: number | null
  bytes: number | null
  bytes_at_most: boolean
  gb_per_s: number | null
  gflop_per_s: number | null
  threads: number
  layers?: number
}
