// SPDX-License-Identifier: Apache-2.0

// A sortable table: click or Enter on a head sorts, again turns around. Long ones show a part at first.
import type { ComponentChildren } from 'preact'
import { useMemo, useState } from 'preact/hooks'

export interface Column<R> {
  key: string
  head: ComponentChildren
  /** What the column is, for whoever points at its head. */
  help?: string
  /** The value to sort by; null sorts last, whichever way. */
  value: (r: R) => number | string | null | undefined
  cell: (r: R) => ComponentChildren
  /** Text is set left, figures right. */
  text?: boolean
}

interface Props<R> {
  rows: R[]
  columns: Column<R>[]
  id: (r: R) => string
  sort?: string
  /** Sorted upwards at first. */
  up?: boolean
  /** Told when the reader sorts. */
  onSort?: (key: string, up: boolean) => void
  selected?: string
  onSelect?: (r: R) => void
  limit?: number
  label: string
}

export function Table<R>({
  rows,
  columns,
  id,
  sort,
  up,
  onSort,
  selected,
  onSelect,
  limit = 100,
  label,
}: Props<R>) {
  const [by, setBy] = useState({ key: sort ?? '', up: up ?? false })
  const [all, setAll] = useState(false)
  const col = columns.find((c) => c.key === by.key)
  const sorted = useMemo(() => {
    if (!col) return rows
    return [...rows].sort((x, y) => {
      const a = col.value(x)
      const b = col.value(y)
      if (a == null || b == null) return a == null ? (b == null ? 0 : 1) : -1
      const d =
        typeof a === 'string' ? a.localeCompare(String(b), 'en', { numeric: true }) : a - (b as number)
      return by.up ? d : -d
    })
  }, [rows, col, by])
  const shown = all ? sorted : sorted.slice(0, limit)
  const click = (c: Column<R>) => {
    const next = { key: c.key, up: by.key === c.key ? !by.up : !!c.text }
    setBy(next)
    onSort?.(next.key, next.up)
  }
  const key = (e: KeyboardEvent, f: () => void) => {
    if (e.key === 'Enter' || e.key === ' ') {
      e.preventDefault()
      f()
    }
  }
  return (
    <div class="table-scroll">
      <table class="grid" aria-label={label}>
        <thead>
          <tr>
            {columns.map((c) => (
              <th
                key={c.key}
                class={c.text ? 'text' : ''}
                title={c.help}
                tabIndex={0}
                aria-sort={by.key === c.key ? (by.up ? 'ascending' : 'descending') : 'none'}
                onClick={() => click(c)}
                onKeyDown={(e) => key(e, () => click(c))}
              >
                {c.head}
                <span class="arrow">{by.key === c.key ? (by.up ? '▲' : '▼') : ''}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((r) => (
            <tr
              key={id(r)}
              data-id={id(r)}
              class={(onSelect ? 'can ' : '') + (selected === id(r) ? 'selected' : '')}
              tabIndex={onSelect ? 0 : undefined}
              aria-selected={onSelect ? selected === id(r) : undefined}
              onClick={onSelect && (() => onSelect(r))}
              onKeyDown={onSelect && ((e) => key(e, () => onSelect(r)))}
            >
              {columns.map((c) => (
                <td key={c.key} class={c.text ? 'text' : ''} data-col={c.key}>
                  {c.cell(r)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {shown.length < sorted.length && (
        <button class="more" onClick={() => setAll(true)}>
          show all {sorted.length} rows
        </button>
      )}
    </div>
  )
}
