// SPDX-License-Identifier: Apache-2.0

// Experts: what the statistics have of them (profile/experts/stat.go, in every phase of `stat --json`), and the section "experts"
// (profile/experts/map.go). Times in ns, sizes in bytes, shares 0 to 1, null what is not known.

export interface ExpertStat {
  layers: ExpertLayer[]
  bytes_per_step: number | null
  bytes_of_all_experts: number | null
  again_share: number | null
  again_by_chance: number | null
  cache: { experts: number; hits: number }[]
  products: { weight: string; type: string; new: { new: number; calls: number; mean_ns: number; median_ns: number }[]; per_new_ns: number | null }[]
  not_seen: number
  slots: number
  dropped: number
}

export interface ExpertLayer {
  layer: number | null
  experts: number
  used: number
  batches: number
  tokens: number
  load: number[]
  imbalance: number
  unused: number
  distinct_per_batch: number
  again_share: number | null
}

export interface ExpertMap {
  schema_version: number
  phases: MapPhase[]
  quantile_max_error: number
}

export interface MapPhase {
  phase: string
  model: number | null
  layers: MapLayer[]
  axes: Axis[]
  cache: number[]
  steps: MapStep[]
  steps_per_point: number
  products: MapTimes[]
}

export interface MapLayer {
  layer: number | null
  experts: number
  used: number
  columns: number
  tokens_per_column: number
  axis: number
  offset: number
  width: number
  again_by_chance: number | null
  cache: number[]
}

/** Runs of columns of one step, or columns of several tokens. */
export interface Axis {
  step: number[]
  last?: number[]
  n: number[]
  pos?: number[]
}

export interface MapStep {
  id: number
  n: number
  tokens: number
  experts: number
  new: number
  known: number
  bytes: number | null
  all: number | null
}

export interface MapTimes {
  weight: string
  type: string
  new: { new: number; calls: number; mean_ns: number; p5_ns: number; p25_ns: number; p50_ns: number; p75_ns: number; p95_ns: number }[]
  base_ns: number | null
  per_new_ns: number | null
}
