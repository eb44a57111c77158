// SPDX-License-Identifier: Apache-2.0

// Words and columns that the parts of the tab share.
import type { OffloadBackendOp, OffloadLayerSet } from '../../../api/types'
import { backendColor } from '../../../lib/backend-color'
import { ink } from '../../../lib/color'
import { clean, count, num } from '../../../lib/format'
import { useTheme } from '../../../ui/theme'

/** "3 to 7", "3", with how many where some between are another's; a dash where there is none. */
export function layersText(l: OffloadLayerSet | null | undefined): string {
  if (!l) return '–'
  const s = l.first === l.last ? String(l.first) : `${l.first} to ${l.last}`
  return l.count < l.last - l.first + 1 ? `${s} (${l.count})` : s
}

/** A backend's name in its colour. */
export function BackendName({ name }: { name: string }) {
  const color = backendColor(name, useTheme())
  const text = clean(name) || 'not known'
  return (
    <bdi class="offload-backend clip" style={{ background: color, color: ink(color) }} title={text}>
      {text}
    </bdi>
  )
}

/** Of a product m × n × k, else the result's. */
export function dimsText(o: { ne: number[]; k?: number | null }): string {
  let n = o.ne.length
  while (n > 1 && o.ne[n - 1] === 1) n--
  const v = o.ne.slice(0, o.k != null ? Math.max(2, n) : n)
  return (o.k != null ? [...v, o.k] : v).join(' × ')
}

export const timedWords: Record<string, string> = {
  '': 'its time is not known: it ran in a graph with others',
  operators: 'each operator was timed',
  call: 'by the call that computes its graph',
  busy: 'while the device’s queue had work of its graph: at least what the device took',
  span: 'until the host synchronised with its graph: at least what the device took',
}

/** Whether a time is more than what the device took, if not the same. */
export const isUpperBound = (by: string): boolean => by === 'span' || by === 'busy'

/** A sign before a time or ratio that can be more than the truth. */
export const upperBoundSign = (by: string): string => (isUpperBound(by) ? '≤ ' : '')

/** What an operator is, wherever it runs. */
export const opKey = (o: OffloadBackendOp): string => [o.key, o.op, o.type, ...o.ne, o.k ?? ''].join('\n')

/** The same without its type: what two runs of other types have in common. */
export const looseKey = (o: OffloadBackendOp): string => [o.key, o.op, ...o.ne, o.k ?? ''].join('\n')

export const wholeNumber = (v: number | null | undefined): string =>
  v != null && Math.abs(v - Math.round(v)) < 1e-9 ? count(v) : num(v)
