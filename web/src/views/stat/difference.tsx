// SPDX-License-Identifier: Apache-2.0

// The column of a difference, which tables of figures and of counters share.
import type { SummaryCounter } from '../../api/types'
import { diverge, ink } from '../../lib/color'
import { delta, unknown } from '../../lib/format'
import { relative } from '../../lib/units'
import { Fig } from '../../ui/figure'
import type { Column } from '../../ui/table'
import type { RowPair } from './rows'

/** What was counted, of one or both runs. */
export interface CountersOf {
  a: SummaryCounter[] | undefined
  b: SummaryCounter[] | undefined
  per: 'step' | 'call'
}

export interface Difference {
  key: string
  head: string
  /** Of shares: in percentage points. */
  points: boolean
  good?: boolean
  of: (p: RowPair) => [number | null, number | null]
}

export function differenceColumn(f: Difference, names: [string, string]): Column<RowPair> {
  const d = (p: RowPair): number | null => {
    const [x, y] = f.of(p)
    return f.points ? (x == null || y == null ? null : y - x) : relative(x, y)
  }
  return {
    key: f.key + '.d',
    head: (
      <>
        Δ<span class="of">{f.points ? 'points' : '%'}</span>
      </>
    ),
    help: `${f.head}: ${names[1]} against ${names[0]}${f.points ? ', difference in percentage points' : ', in percent of the first'}`,
    value: d,
    cell: (p) => {
      const v = d(p)
      if (v == null) return <span class="dim">{unknown}</span>
      // Full colour at a quarter more or less; of shares at five points.
      const c = diverge(Math.max(-1, Math.min(1, (f.good ? -v : v) / (f.points ? 0.05 : 0.25))))
      return (
        <span
          class="diff"
          style={Math.abs(v) < (f.points ? 0.002 : 0.01) ? undefined : { background: c, color: ink(c) }}
        >
          <Fig
            v={v}
            f={(x) =>
              f.points ? `${x! >= 0 ? '+' : '−'}${Math.abs(x! * 100).toFixed(1)}` : delta(1, 1 + x!)
            }
          />
        </span>
      )
    },
  }
}
