// SPDX-License-Identifier: Apache-2.0

// What steps and what ran on a CPU are called, and how fast steps were.
import { phases } from '../../api/timeline'
import { clean } from '../../lib/format'
import { endToEnd, type TimeData } from './data'
import type { SpanSet } from './spans'

export function stepLabel(d: TimeData, s: number): string {
  const phase = phases[d.steps.phase[s]] || 'step'
  const n = d.steps.tokens[s]
  return n > 1 ? `${phase} ${d.steps.id[s]} · ${n} tokens` : `${phase} ${d.steps.id[s]}`
}

export function runnerName(d: TimeData, i: number): string {
  const r = d.index.runners?.[i]
  if (!r) return ''
  if (r.thread >= 0) {
    const t = d.index.threads![r.thread]
    return `${t.role === 'other' ? 'thread' : t.role} ${r.tid}`
  }
  return i === 0 ? 'not seen' : `${clean(r.comm) || '(no name)'} ${r.tid}`
}

/** Tokens a second of a step until its results were there, null where these or its tokens are not known. */
export function rateOf(d: TimeData, s: number): number | null {
  const t = endToEnd(d, s)
  return d.steps.tokens[s] > 0 && t != null && t > 0 ? (d.steps.tokens[s] * 1e9) / t : null
}

const rates = new WeakMap<SpanSet, number>()

export function maxRate(d: TimeData, set: SpanSet): number {
  let m = rates.get(set)
  if (m === undefined) {
    m = 0
    for (let i = 0; i < set.n; i++) if (set.kind[i] === 2) m = Math.max(m, rateOf(d, set.ref[i]) ?? 0)
    rates.set(set, m)
  }
  return m
}
