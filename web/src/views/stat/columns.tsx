// SPDX-License-Identifier: Apache-2.0

// The columns of the tables. A column's key is the name of the figure in `stat --json`; of the second run it
// ends in .b, of the difference in .d.
import type { SummaryRow } from '../../api/types'
import { clean, num, share, unknown } from '../../lib/format'
import { inUnit, unitOf } from '../../lib/units'
import { Meter, Name } from '../../ui/charts'
import { Fig } from '../../ui/figure'
import type { Column } from '../../ui/table'
import { boundColumns } from './bound'
import { counterColumns, ipcColumns } from './counter-columns'
import { differenceColumn, type CountersOf } from './difference'
import type { RowPair } from './rows'

interface Figure {
  key: keyof SummaryRow
  head: string
  kind: 'time' | 'count' | 'share' | 'rate'
  help: string
  /** Only where the run has it at all. */
  optional?: boolean
  /** More of it is better: the colour of a difference is turned around. */
  good?: boolean
  set: 'time' | 'rates' | 'threads'
}

const figures: Figure[] = [
  { key: 'calls_per_step', head: 'calls/step', kind: 'count', set: 'time', help: 'operators per step' },
  {
    key: 'dur_per_step_ns',
    head: 'per step',
    kind: 'time',
    set: 'time',
    help: 'sum of the operators’ durations, without what the probes took, divided by the steps',
  },
  {
    key: 'share',
    head: 'share',
    kind: 'share',
    set: 'time',
    help: 'of the phase’s time in steps whose operators were recorded',
  },
  { key: 'mean_ns', head: 'mean', kind: 'time', set: 'time', help: 'one call’s duration, on average' },
  {
    key: 'p95_ns',
    head: 'p95',
    kind: 'time',
    set: 'time',
    help: '95th percentile of a call’s duration, within 1 %',
  },
  {
    key: 'gb_per_s',
    head: 'GB/s',
    kind: 'rate',
    good: true,
    set: 'rates',
    optional: true,
    help: 'bytes that must be read and written at least, divided by the duration; 1 GB is 10⁹ bytes. More than the memory gives: data stayed in a cache',
  },
  {
    key: 'gflop_per_s',
    head: 'GFLOP/s',
    kind: 'rate',
    good: true,
    set: 'rates',
    optional: true,
    help: 'floating point operations divided by the duration',
  },
  {
    key: 'flop_per_byte',
    head: 'FLOP/byte',
    kind: 'rate',
    good: true,
    set: 'rates',
    optional: true,
    help: 'arithmetic intensity: operations per byte',
  },
  {
    key: 'wait_share',
    head: 'barrier wait',
    kind: 'share',
    set: 'threads',
    optional: true,
    help: 'share of the threads’ time in these operators that they waited for the last one',
  },
  {
    key: 'off_cpu_share',
    head: 'off-CPU',
    kind: 'share',
    set: 'threads',
    optional: true,
    help: 'share of the threads’ time in these operators that they were descheduled',
  },
  {
    key: 'imbalance',
    head: 'load imbalance',
    kind: 'share',
    set: 'threads',
    optional: true,
    help: 'max busy / mean busy − 1 over an operator’s threads, weighted by time: 0 % if all had the same work',
  },
]

export const sets: Record<string, string> = { time: 'time', rates: 'rates', threads: 'threads' }

/**
 * The choices of columns: of one run's table all figures at once, of two runs' a set; counters where there
 * are any.
 */
export function columnSetsOf(two: boolean, counted: boolean): Record<string, string> {
  if (two) return counted ? { ...sets, counters: 'counters' } : sets
  return counted ? { figures: 'figures', counters: 'counters' } : {}
}

const get = (r: SummaryRow | null, k: keyof SummaryRow): number | null => {
  const v = r?.[k]
  return typeof v === 'number' ? v : null
}

/** The text columns of a grouping. */
function text(by: string, two: boolean, names: [string, string], few: boolean): Column<RowPair>[] {
  const head: Record<string, string> = {
    weight: 'weight or operator',
    op: 'operator',
    layer: 'layer',
    block: 'block',
    thread: 'thread',
  }
  const cols: Column<RowPair>[] = [
    {
      key: 'key',
      head: head[by] ?? by,
      text: true,
      value: (p) => p.row.key,
      cell: (p) => <Key p={p} two={two} names={names} />,
    },
  ]
  if (by === 'weight') {
    cols.push({
      key: 'type',
      head: 'type',
      text: true,
      help: 'how the weights are stored',
      value: (p) => p.row.type,
      cell: (p) => <span class="dim">{types(p)}</span>,
    })
  }
  if (!few && (by === 'weight' || by === 'op'))
    cols.push({
      key: 'block',
      head: 'block',
      text: true,
      help: 'part of the model; empty if the row’s operators differ',
      value: (p) => p.row.block,
      cell: (p) => <span class="dim">{p.row.block}</span>,
    })
  return cols
}

function types(p: RowPair): string {
  const [x, y] = [p.a?.weight ? p.a.type : '', p.b?.weight ? p.b.type : '']
  return clean(p.a && p.b && x !== y ? `${x || unknown} | ${y || unknown}` : x || y)
}

function Key({ p, two, names }: { p: RowPair; two: boolean; names: [string, string] }) {
  const only = two && !(p.a && p.b) ? `only in ${p.a ? names[0] : names[1]}` : ''
  return (
    <>
      <Name text={p.row.key === 'none' ? 'no layer' : p.row.key} />
      {only && <span class="only">{only}</span>}
    </>
  )
}

/** The columns of one run; without the dispensable ones where there is little room. */
export function columns(
  rows: RowPair[],
  by: string,
  few: boolean,
  set: string,
  counters: CountersOf,
): Column<RowPair>[] {
  const figure = (f: Figure) => figureColumn(f, rows, (p) => p.a, '', f.key === 'share' && !few)
  const heads = text(by, false, ['', ''], few)
  if (set === 'counters') {
    const keep = ['calls_per_step', 'dur_per_step_ns', 'share']
    return [
      ...heads,
      ...used(rows, by)
        .filter((f) => keep.includes(f.key))
        .map(figure),
      ...counterColumns(rows, counters, null),
    ]
  }
  return [
    ...heads,
    ...used(rows, by).map(figure),
    ...ipcColumns(rows, counters),
    ...boundColumns(rows, false),
  ]
}

/** The columns of two runs: of each figure a, b and the difference. */
export function comparedColumns(
  rows: RowPair[],
  by: string,
  set: string,
  names: [string, string],
  counters: CountersOf,
): Column<RowPair>[] {
  const out = text(by, true, names, true)
  if (set === 'counters') return [...out, ...counterColumns(rows, counters, names)]
  for (const f of used(rows, by)) {
    if (f.set !== set) continue
    out.push(figureColumn(f, rows, (p) => p.a, '', false, names[0]))
    out.push(figureColumn(f, rows, (p) => p.b, '.b', false, names[1]))
    if (f.kind !== 'count') out.push(diffColumn(f, names))
  }
  return set === 'rates' ? [...out, ...boundColumns(rows, true)] : out
}

function used(rows: RowPair[], by: string): Figure[] {
  return figures.filter((f) => {
    if (by === 'thread' && f.set === 'rates') return false
    return !f.optional || rows.some((p) => get(p.a, f.key) != null || get(p.b, f.key) != null)
  })
}

function figureColumn(
  f: Figure,
  rows: RowPair[],
  of: (p: RowPair) => SummaryRow | null,
  suffix: string,
  bar: boolean,
  name?: string,
): Column<RowPair> {
  const values = rows.flatMap((p) => [get(p.a, f.key), get(p.b, f.key)])
  const unit = unitOf(f.kind === 'time' ? 'time' : 'plain', values)
  const fmt =
    f.kind === 'share'
      ? share
      : f.kind === 'count'
        ? num
        : inUnit(f.kind === 'rate' ? { ...unit, digits: 1 } : unit)
  const top = Math.max(...values.map((v) => v ?? 0), 1e-12)
  const sub =
    f.kind === 'time'
      ? unit.name + (f.key === 'dur_per_step_ns' ? '/step' : '')
      : f.kind === 'share'
        ? '%'
        : ''
  return {
    key: f.key + suffix,
    head: (
      <>
        {f.key === 'dur_per_step_ns' || f.kind === 'time' ? (
          <>
            {f.key === 'dur_per_step_ns' ? '' : f.head + ' '}
            <span class="unit">{sub}</span>
          </>
        ) : (
          f.head
        )}
        {name && <span class="of">{name}</span>}
      </>
    ),
    help: f.help,
    value: (p) => get(of(p), f.key),
    cell: (p) => {
      const r = of(p)
      const v = get(r, f.key)
      const sign = f.key === 'gb_per_s' ? '≤' : f.key === 'flop_per_byte' ? '≥' : ''
      const most = sign !== '' && r?.bytes_at_most
      return (
        <>
          {bar && <Meter part={(v ?? 0) / top} />}
          {most && v != null && (
            <span class="dim" title="an estimate: how many tokens chose the same experts is not known">
              {sign}
            </span>
          )}
          <Fig v={v} f={fmt} />
        </>
      )
    },
  }
}

/** The difference of a figure: of shares in points, of the others in parts of the first run's. */
function diffColumn(f: Figure, names: [string, string]): Column<RowPair> {
  return differenceColumn(
    {
      key: f.key,
      head: f.head,
      points: f.kind === 'share',
      good: f.good,
      of: (p) => [get(p.a, f.key), get(p.b, f.key)],
    },
    names,
  )
}
