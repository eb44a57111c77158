// SPDX-License-Identifier: Apache-2.0

import type { Stat } from '../stat-types'

/** What a model is to speculative decoding; empty: nothing, or both. */
export function role(s: Stat, model: number | null): '' | 'draft' | 'target' {
  const list = model == null ? [] : (s.sequences?.speculation ?? [])
  const draft = list.some((x) => x.draft_model === model)
  const target = list.some((x) => x.model === model)
  return draft === target ? '' : draft ? 'draft' : 'target'
}
