// SPDX-License-Identifier: Apache-2.0

// Requests and speculative decoding as `stat --json` has them (profile/requests/sequences.go, speculative.go), and what plots need besides
// (profile/requests/series.go, in the section "series"): times in ns, null what is not known.
import type { Dist } from '../stat/types'

export interface Spread {
  n: number
  mean_ns: number
  p50_ns: number
  p95_ns: number
  p99_ns: number
  max_ns: number
}

export interface Request {
  /** 0: a warm-up. */
  id: number
  pid: number
  ctx: number
  seq: number
  model: number | null
  step: number
  last_step: number
  steps: number
  start_ns: number
  end_ns: number
  prompt: number | null
  cached: number | null
  ttft_ns: number | null
  generated: number | null
  at_least: boolean
  tpot_ns: number | null
  tpot_p95_ns: number | null
  tokens: number
  in_steps_ns: number
  in_steps_share: number | null
  rounds: number | null
  drafted: number | null
  accepted: number | null
  unseen: number | null
  warmup: boolean
}

export interface Speculation {
  pid: number
  ctx: number
  model: number | null
  draft_ctx: number | null
  draft_model: number | null
  steps: number
  steps_again: number
  rounds: number
  drafted: number
  rounds_seen: number
  seen_drafted: number
  accepted: number
  accepted_share: number | null
  tokens_per_round: number | null
  by_accepted: number[]
  verify_ns: number
  draft_ns: number | null
  draft_steps: number
}

export interface Sequences {
  requests: Request[]
  every: number
  seen: number
  warmups: number
  sequences: number
  at_once: number
  ttft: Spread | null
  tpot: Spread | null
  token_gap: Spread | null
  speculation: Speculation[]
  quantile_max_error: number
}

export interface RequestSeries {
  tpot: Dist | null
  token_gap: Dist | null
  speculation: { pid: number; ctx: number; steps_per_point: number; points: SpeculationPoint[] }[]
}

export interface SpeculationPoint {
  step: number
  last_step: number
  start_ns: number
  end_ns: number
  steps: number
  rounds: number
  rounds_seen: number
  seen_drafted: number
  accepted: number
  accepted_share: number | null
  tokens_per_round: number | null
  accepted_share_near: number | null
  verify_ns: number
  draft_ns: number | null
}
