// SPDX-License-Identifier: Apache-2.0

// Rows of a table: one run's, or two runs' matched by what they are grouped by.
import type { SummaryRow } from '../../api/types'

export interface RowPair {
  /** Its key; where several rows share it, with the type. */
  id: string
  a: SummaryRow | null
  b: SummaryRow | null
  /** Of whichever run has it. */
  row: SummaryRow
}

const full = (r: SummaryRow): string => r.key + (r.weight ? ' ' + r.type : '')

export function pairRows(a: SummaryRow[], b: SummaryRow[] | null): RowPair[] {
  const keys = new Map<string, Set<string>>()
  for (const r of [...a, ...(b ?? [])]) {
    const s = keys.get(r.key) ?? new Set()
    keys.set(r.key, s.add(full(r)))
  }
  // Weights can have other types in the other run (q4_0 against q8_0): they are one row, unless one run has
  // two of that key.
  const several = (rows: SummaryRow[], key: string) => rows.filter((r) => r.key === key).length > 1
  const split = new Set([...keys.keys()].filter((k) => several(a, k) || (b != null && several(b, k))))
  const id = (r: SummaryRow) => (split.has(r.key) ? full(r) : r.key)
  const out = new Map<string, RowPair>()
  for (const r of a) out.set(id(r), { id: id(r), a: r, b: null, row: r })
  for (const r of b ?? []) {
    const p = out.get(id(r))
    if (p) p.b = r
    else out.set(id(r), { id: id(r), a: null, b: r, row: r })
  }
  return [...out.values()]
}

/** Rows whose key, type, operator or block holds all words of a filter. */
export function filterRows(rows: RowPair[], text: string): RowPair[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) return rows
  return rows.filter((p) => {
    const s = `${p.row.key} ${p.row.type} ${p.row.op} ${p.row.block} ${p.b?.type ?? ''}`.toLowerCase()
    return words.every((w) => s.includes(w))
  })
}
