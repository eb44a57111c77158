// SPDX-License-Identifier: Apache-2.0

import type { SummaryStat } from '../api/types'

/** What a model is to speculative decoding; empty: nothing, or both. */
export function speculationRole(s: SummaryStat, model: number | null): '' | 'draft' | 'target' {
  const list = model == null ? [] : (s.sequences?.speculation ?? [])
  const draft = list.some((x) => x.draft_model === model)
  const target = list.some((x) => x.model === model)
  return draft === target ? '' : draft ? 'draft' : 'target'
}

/**
 * What a context, by its address in hexadecimal, is to speculative decoding; several targets or drafts are
 * numbered.
 */
export function contextRole(s: SummaryStat, pid: number, hex: string): string {
  const list = (s.sequences?.speculation ?? []).filter((x) => x.pid === pid)
  const is = (ctx: number | null) => ctx != null && ctx === Number('0x' + hex.replace(/^0x/, ''))
  const [target, draft] = [list.findIndex((x) => is(x.ctx)), list.findIndex((x) => is(x.draft_ctx))]
  const n = Math.max(target, draft)
  return n < 0 || (target >= 0 && draft >= 0)
    ? ''
    : (target >= 0 ? 'target' : 'draft') + (list.length > 1 ? ` ${n + 1}` : '')
}
