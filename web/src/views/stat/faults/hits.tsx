// SPDX-License-Identifier: Apache-2.0

// What page faults hit: kinds of memory, weights over layers, experts.
import { useMemo } from 'preact/hooks'
import type {
  MemoryFaultExperts,
  MemoryFaultRow,
  MemorySeries,
  MemoryStat,
  MemoryFaultSum,
} from '../../../api/types'
import type { Theme } from '../../../lib/color'
import { memoryClassName, faultValue, values, type FaultFigure } from '../../../lib/faults'
import { bytes, clean, count, dur, plural, share } from '../../../lib/format'
import { inUnit, unitOf } from '../../../lib/units'
import { Meter, Name } from '../../../ui/charts'
import { Fig } from '../../../ui/figure'
import { Table, type Column } from '../../../ui/table'
import { cssVar, useTheme } from '../../../ui/theme'
import type { TabContext } from '../context'
import { Cells, fill, room, type CellRow } from './cells'
import { strength } from './colors'

const maxRows = 40

/** What maps show: of the address, as far as it is known. */
export function valueFor(ctx: TabContext, timed: boolean): FaultFigure {
  const v = ctx.params.of
  if (v === 'major' || v === 'read') return v
  return timed ? 'time' : 'major'
}

const text = (v: number | null, of: FaultFigure): string =>
  of === 'time' ? dur(v) : of === 'read' ? bytes(v) : count(v)

/** Which value a map shows; extra: further ones. */
export function Values({
  ctx,
  timed,
  now,
  extra,
}: {
  ctx: TabContext
  timed: boolean
  now: string
  extra?: [string, string][]
}) {
  return (
    <span class="choice" role="group" aria-label="value of the map">
      {[...values, ...(extra ?? [])].map(([k, name]) => (
        <button
          key={k}
          aria-pressed={k === now}
          disabled={k === 'time' && !timed}
          title={k === 'time' && !timed ? 'that kernel does not tell how long faults took' : undefined}
          onClick={() => ctx.set({ of: k }, true)}
        >
          {name}
        </button>
      ))}
    </span>
  )
}

/** What colours of a map stand for. */
export function Ramp({ theme, most }: { theme: Theme; most: string }) {
  return (
    <span class="key">
      <span>
        <i style={{ background: 'var(--grid)' }} />
        none
      </span>
      <span>
        <span class="ramp">
          {[0, 0.2, 0.4, 0.6, 0.8, 1].map((v) => (
            <i key={v} style={{ background: strength(theme, v) }} />
          ))}
        </span>{' '}
        to {most}
      </span>
    </span>
  )
}

/** Columns of sums. path says where they stand in stat --json. */
function sumColumns(
  rows: MemoryFaultSum[],
  which: string,
  name: Column<MemoryFaultSum>,
  path?: (r: MemoryFaultSum) => string,
): Column<MemoryFaultSum>[] {
  const time = unitOf(
    'time',
    rows.map((r) => r.wait_ns),
  )
  const size = unitOf(
    'bytes',
    rows.map((r) => r.read_bytes),
  )
  const most = Math.max(1, ...rows.map((r) => r.wait_ns ?? r.major))
  const fig = (r: MemoryFaultSum, k: string) => path && `${path(r)}.${k}`
  return [
    name,
    {
      key: 'major',
      head: 'major',
      value: (r) => r.major,
      cell: (r) => <Fig v={r.major} f={count} name={fig(r, 'major')} />,
    },
    {
      key: 'minor',
      head: which === 'all' ? 'minor' : 'minor (slow)',
      help: which === 'all' ? undefined : 'only those that had something read or took 100 µs are recorded',
      value: (r) => r.minor,
      cell: (r) => <Fig v={r.minor} f={count} name={fig(r, 'minor')} />,
    },
    {
      key: 'wait_ns',
      head: (
        <>
          thread time <span class="unit">{time.name}</span>
        </>
      ),
      help: 'sum of their durations over threads',
      value: (r) => r.wait_ns,
      cell: (r) => (
        <>
          <Meter part={(r.wait_ns ?? r.major) / most} />{' '}
          <Fig v={r.wait_ns} f={inUnit(time)} name={fig(r, 'wait_ns')} />
        </>
      ),
    },
    {
      key: 'read_bytes',
      head: (
        <>
          read <span class="unit">{size.name}</span>
        </>
      ),
      help: 'what they had read from disk, read-ahead included',
      value: (r) => r.read_bytes,
      cell: (r) => <Fig v={r.read_bytes} f={inUnit(size)} name={fig(r, 'read_bytes')} />,
    },
  ]
}

export function Classes({ s }: { s: MemoryStat }) {
  if (s.classes.length === 0) return <p class="dim">No page fault took time: nothing waited for the disk.</p>
  const cols = sumColumns(
    s.classes,
    s.which,
    {
      key: 'class',
      head: 'page faults hit',
      text: true,
      value: (r) => memoryClassName(r.class),
      cell: (r) => memoryClassName(r.class),
    },
    (r) => `faults.classes.${s.classes.indexOf(r)}`,
  )
  return <Table rows={s.classes} columns={cols} id={(r) => r.class} label="what page faults hit" />
}

const rowName = (r: MemoryFaultSum): string => r.name || `(${memoryClassName(r.class)})`
const rowId = (r: MemoryFaultSum): string => `${r.class} ${r.name ?? ''} ${r.type ?? ''}`

export function Names({ d, s }: { d: MemorySeries; s: MemoryStat }) {
  if (d.names.length === 0) return null
  const known = new Map(s.names.map((r, i) => [rowId(r), i]))
  const path = (r: MemoryFaultSum) => {
    const i = known.get(rowId(r))
    return i === undefined ? 'further' : `faults.names.${i}`
  }
  const cols = sumColumns(
    d.names,
    s.which,
    {
      key: 'name',
      head: 'by what they hit, over layers',
      text: true,
      value: (r) => rowName(r),
      cell: (r) => (
        <>
          <Name text={rowName(r)} /> {r.type && <span class="dim">{clean(r.type)}</span>}
        </>
      ),
    },
    path,
  )
  return (
    <>
      <Table
        rows={d.names as MemoryFaultSum[]}
        columns={cols}
        id={rowId}
        label="page faults by name"
        limit={12}
      />
      {d.names_left_out > 0 && (
        <p class="note">{count(d.names_left_out)} further names are left out: there are too many.</p>
      )}
    </>
  )
}

/** Names over layers. */
export function LayerMap({ ctx, d, at }: { ctx: TabContext; d: MemorySeries; at: number }) {
  const theme = useTheme()
  const of = valueFor(ctx, d.timed)
  const made = useMemo(() => {
    const list = d.names.filter((r) => r.layers.length > 0)
    const top = Math.max(0, ...list.flatMap((r) => r.layers.map((l) => l.layer)))
    const rows: { r: MemoryFaultRow; by: Map<number, MemoryFaultRow['layers'][number]> }[] = list.map(
      (r) => ({ r, by: new Map(r.layers.map((l) => [l.layer, l])) }),
    )
    rows.sort((a, b) => (faultValue(b.r, of) ?? 0) - (faultValue(a.r, of) ?? 0))
    const shown = rows.slice(0, maxRows)
    const most = Math.max(0, ...shown.flatMap((x) => x.r.layers.map((l) => faultValue(l, of) ?? 0)))
    const cells: CellRow[] = shown.map((x) => ({
      key: rowId(x.r),
      label: clean(rowName(x.r)),
      title: clean(`${rowName(x.r)} ${x.r.type ?? ''}`),
      n: top + 1,
      end: text(faultValue(x.r, of), of),
    }))
    return { rows: shown, all: rows.length, cols: top + 1, most, cells }
  }, [d, of])
  if (made.rows.length === 0) return null
  const cell = Math.max(3, Math.min(34, Math.floor(room() / made.cols)))
  return (
    <section data-map={`layers${at}`}>
      <h3>Where they hit: names over layers</h3>
      <div class="tools">
        <Values ctx={ctx} timed={d.timed} now={of} />
        <Ramp theme={theme} most={text(made.most, of)} />
        {made.all > made.rows.length && (
          <span class="dim">
            the first {made.rows.length} of {made.all} rows
          </span>
        )}
      </div>
      <Cells
        id={`layers${at}`}
        label={`page faults by ${made.rows.length} names and ${made.cols} layers, ${values.find(([k]) => k === of)![1]}`}
        rows={made.cells}
        cols={made.cols}
        cell={cell}
        state={of}
        paint={(c, r, l, x, y, w, h) => {
          const v = faultValue(made.rows[r].by.get(l) ?? none, of)
          fill(c, v && made.most > 0 ? strength(theme, v / made.most) : cssVar('--grid'), x, y, w, h)
        }}
        readout={(r, l) => {
          const x = made.rows[r]
          const v = x.by.get(l)
          return (
            `${clean(rowName(x.r))}, layer ${l}: ` +
            (v
              ? `${plural(v.major, 'major fault')}, ${count(v.minor)} minor${v.wait_ns != null ? `, ${dur(v.wait_ns)}` : ''}, ${bytes(v.read_bytes)} read`
              : 'no fault recorded')
          )
        }}
        foot={{ text: String, what: 'layer' }}
      />
    </section>
  )
}

const none: MemoryFaultSum = { class: '', major: 0, minor: 0, wait_ns: 0, read_bytes: 0 }

/** Experts over layers: what faults on them took, or what of them is in memory. */
export function ExpertMap({ ctx, d, at }: { ctx: TabContext; d: MemorySeries; at: number }) {
  return (
    <>
      {d.experts.map(
        (e) =>
          e.experts > 1 && (
            <OneExpertMap
              key={e.pid}
              ctx={ctx}
              e={e}
              timed={d.timed}
              at={at}
              several={d.experts.length > 1}
            />
          ),
      )}
    </>
  )
}

function OneExpertMap({
  ctx,
  e,
  timed,
  at,
  several,
}: {
  ctx: TabContext
  e: MemoryFaultExperts
  timed: boolean
  at: number
  several: boolean
}) {
  const theme = useTheme()
  const memory = e.layers.some((l) => l.resident_end_bytes != null)
  const of: FaultFigure | 'memory' = ctx.params.of === 'memory' && memory ? 'memory' : valueFor(ctx, timed)
  const get = (l: MemoryFaultExperts['layers'][number], i: number): number | null =>
    of === 'memory'
      ? l.resident_end_bytes && l.bytes > 0
        ? l.resident_end_bytes[i] / l.bytes
        : null
      : of === 'major'
        ? l.major[i]
        : of === 'read'
          ? l.read_bytes[i]
          : (l.wait_ns?.[i] ?? null)
  const made = useMemo(() => {
    const all = e.layers.flatMap((l) => l.major.map((_, i) => get(l, i)))
    const most = of === 'memory' ? 1 : Math.max(0, ...all.map((v) => v ?? 0))
    const sum = (l: MemoryFaultExperts['layers'][number]) =>
      l.major.reduce((n, _, i) => n + (get(l, i) ?? 0), 0)
    const rows: CellRow[] = e.layers.map((l) => ({
      key: String(l.layer),
      label: l.layer < 0 ? 'in no layer' : `layer ${l.layer}`,
      n: l.major.length,
      end:
        of === 'memory'
          ? l.resident_end_bytes
            ? share(sum(l) / l.major.length)
            : 'not known'
          : text(of === 'time' && !l.wait_ns ? null : sum(l), of),
    }))
    return { most, rows }
  }, [e, of])
  const cell = Math.max(3, Math.min(34, Math.floor(room() / e.experts)))
  return (
    <section data-map={`experts${at}`}>
      <h3>
        Experts{several ? ` of process ${e.pid}` : ''}:{' '}
        {of === 'memory' ? 'what of them was in memory at the end' : 'where faults hit'}
      </h3>
      <div class="tools">
        <Values ctx={ctx} timed={timed} now={of} extra={memory ? [['memory', 'in memory at the end']] : []} />
        <Ramp theme={theme} most={of === 'memory' ? 'all of it' : text(made.most, of)} />
        <span class="dim">
          all weights of an expert together
          {e.layers_left_out > 0
            ? `; ${count(e.layers_left_out)} layers are left out: they have too many experts`
            : ''}
        </span>
      </div>
      <Cells
        id={`experts${at}`}
        label={`experts of ${e.layers.length} layers, up to ${e.experts} each`}
        rows={made.rows}
        cols={e.experts}
        cell={cell}
        state={of}
        paint={(c, r, i, x, y, w, h) => {
          const v = get(e.layers[r], i)
          fill(c, v && made.most > 0 ? strength(theme, v / made.most) : cssVar('--grid'), x, y, w, h)
        }}
        readout={(r, i) => {
          const l = e.layers[r]
          const parts = [
            `layer ${l.layer < 0 ? 'not told' : l.layer}, expert ${i}: ${plural(l.major[i], 'major fault')}`,
          ]
          if (l.wait_ns) parts.push(dur(l.wait_ns[i]))
          parts.push(`${bytes(l.read_bytes[i])} read`)
          if (l.bytes > 0)
            parts.push(
              l.resident_end_bytes
                ? `${share(l.resident_end_bytes[i] / l.bytes)} of ${bytes(l.bytes)} in memory at the end`
                : `${bytes(l.bytes)}, in memory at the end: not known`,
            )
          return parts.join(', ')
        }}
        foot={{ text: String, what: 'expert' }}
      />
    </section>
  )
}
