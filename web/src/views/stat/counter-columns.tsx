// SPDX-License-Identifier: Apache-2.0

// Columns of counters. A counter's key is count.N, N its place in `stat --json`; what follows from two of
// them has a name.
import type { SummaryRow } from '../../api/types'
import { formatOf, metricsOf, scaledHelp, valueOf, type Metric } from '../../lib/counters'
import { Fig } from '../../ui/figure'
import type { Column } from '../../ui/table'
import { differenceColumn, type CountersOf } from './difference'
import type { RowPair } from './rows'

/** A count per step or per call, or what follows from counts. */
function value(m: Metric, r: SummaryRow | null, per: CountersOf['per']): number | null {
  const v = valueOf(m, r?.counts)
  return v == null || m.kind !== 'count' || per === 'call' ? v : v * r!.calls_per_step
}

const keyOf = (m: Metric): string => (m.kind === 'count' ? `count.${m.over[0]}` : m.id)

function column(
  m: Metric,
  of: (p: RowPair) => SummaryRow | null,
  per: CountersOf['per'],
  suffix: string,
  name?: string,
): Column<RowPair> {
  const each = m.kind === 'count' ? (per === 'call' ? '/call' : '/step') : ''
  const help =
    m.kind === 'count'
      ? `${m.help}: mean per call${per === 'step' ? ' times the calls per step' : ''}, over operators of which it is known`
      : `${m.help}, over operators of which it is known`
  return {
    key: keyOf(m) + suffix,
    head: (
      <>
        {m.head}
        <span class="unit">
          {' '}
          {m.unit}
          {each}
        </span>
        {m.scaled && (
          <span class="of" title={scaledHelp}>
            scaled
          </span>
        )}
        {name && <span class="of">{name}</span>}
      </>
    ),
    help: help + (m.scaled ? '. ' + scaledHelp : ''),
    value: (p) => value(m, of(p), per),
    cell: (p) => <Fig v={value(m, of(p), per)} f={formatOf(m)} />,
  }
}

const rowsOf = (rows: RowPair[], i: number) => rows.map((p) => (i ? p.b : p.a))

/** All counters; of two runs each with the difference. */
export function counterColumns(
  rows: RowPair[],
  c: CountersOf,
  names: [string, string] | null,
): Column<RowPair>[] {
  const a = metricsOf(c.a, rowsOf(rows, 0))
  if (!names) return a.map((m) => column(m, (p) => p.a, c.per, ''))
  const b = metricsOf(c.b, rowsOf(rows, 1))
  const all = [...a.map((m) => m.id), ...b.map((m) => m.id)].filter((id, i, l) => l.indexOf(id) === i)
  return all.flatMap((id) => {
    const [x, y] = [a.find((m) => m.id === id), b.find((m) => m.id === id)]
    const out: Column<RowPair>[] = []
    if (x) out.push(column(x, (p) => p.a, c.per, '', names[0]))
    if (y) out.push(column(y, (p) => p.b, c.per, '.b', names[1]))
    if (x && y)
      out.push(
        differenceColumn(
          {
            key: keyOf(x),
            head: x.head,
            points: x.kind === 'share',
            good: x.good,
            of: (p) => [value(x, p.a, c.per), value(y, p.b, c.per)],
          },
          names,
        ),
      )
    return out
  })
}

/** IPC alone, for the table of all figures. */
export function ipcColumns(rows: RowPair[], c: CountersOf): Column<RowPair>[] {
  return metricsOf(c.a, rowsOf(rows, 0))
    .filter((m) => m.id === 'ipc')
    .map((m) => column(m, (p) => p.a, c.per, ''))
}
