// SPDX-License-Identifier: Apache-2.0

// Roofline: operators by intensity and rate, beside what the machine can do.
import { useMemo } from 'preact/hooks'
import type { SeriesRoofline as Data, SeriesRooflinePoint, RoofUsedRoof } from '../../api/types'
import type { Theme } from '../../lib/color'
import { clean, count, dur, gbps, gflops, intensity, named, num, plural, share } from '../../lib/format'
import { seriesColor } from '../../lib/palette'
import { sortOrder } from '../../lib/sort'
import { inUnit, unitOf } from '../../lib/units'
import { Meter, Name } from '../../ui/charts'
import { Fig } from '../../ui/figure'
import { Plot, type Layer } from '../../ui/plot'
import type { Shape } from '../../ui/plot-legend'
import { href } from '../../ui/route'
import { Table, type Column } from '../../ui/table'
import { cssVar, useTheme } from '../../ui/theme'
import { useSections } from '../../ui/use-section'
import { runNames, type TabContext } from './context'
import { edgesOf, roofLayers, unitName } from './roofline-data'

interface Item extends SeriesRooflinePoint {
  id: string
  phase: string
  threads: number
  run: number
  steps: number
}

const phaseOrder = ['decode', 'prefill', 'encode', 'unknown']
const closed: Shape[] = ['circle', 'square', 'triangle', 'diamond']

export function Roofline(ctx: TabContext) {
  const { data, error } = useSections('roofline', ctx.b ? [ctx.a, ctx.b] : [ctx.a])
  if (error) return <p class="dim">The roofline cannot be shown: {error}.</p>
  if (!data) return <p class="dim">Loading …</p>
  return <Drawn ctx={ctx} data={data} />
}

function Drawn({ ctx, data }: { ctx: TabContext; data: Data[] }) {
  const theme = useTheme()
  const names = runNames(ctx)
  const two = data.length > 1
  const by = ctx.params.by === 'op' ? 'op' : 'weight'
  const scope = ctx.params.scope === 'phase' ? 'phase' : 'all'
  const color = ctx.params.color === 'type' ? 'type' : 'phase'
  const groups = data.map((d) =>
    d.groups.filter((g) => g.model === ctx.model && (scope === 'all' || g.phase === ctx.phase)),
  )
  const items = useMemo(
    () =>
      groups.flatMap((list, run) =>
        list.flatMap((g) =>
          g[by].map((p): Item => ({
            ...p,
            phase: g.phase,
            threads: g.threads,
            run,
            steps: g.steps,
            id: `${run ? 'b ' : ''}${g.phase} ${g.threads} ${p.key}${p.type ? ' ' + p.type : ''}`,
          })),
        ),
      ),
    [data, ctx.model, ctx.phase, scope, by],
  )
  const shown = items.filter(
    (p) =>
      !ctx.params.filter ||
      `${p.key} ${p.type} ${p.phase} ${p.block}`.toLowerCase().includes(ctx.params.filter.toLowerCase()),
  )
  const teams = [...new Set(items.map((p) => p.threads))].sort((x, y) => x - y)
  const drawn = useMemo(
    () => plotOf(shown, data, teams, color, theme, two ? names : null),
    [items, ctx.params.filter, color, theme],
  )
  const cols = useMemo(
    () => columnsOf(shown, two ? names : null, teams.length > 1),
    [items, ctx.params.filter],
  )
  if (items.length === 0) {
    return (
      <p class="dim">
        No operator can be placed{scope === 'phase' ? ` in phase ${ctx.phase}` : ''}: operators were not
        recorded, or ran on a backend whose operators cannot be seen.
      </p>
    )
  }
  const at = spotOf(drawn.of, ctx.params.sel)
  const selected = shown.find((p) => p.id === ctx.params.sel)
  const sort = sortOrder(ctx.params.sort) ?? { key: 'dur_per_step_ns', up: false }
  const unplaced = shown.filter((p) => !placed(p))
  const off = groups.flat().reduce((n, g) => n + g.dropped, 0)
  const choice = (key: string, label: string, values: [string | undefined, string][], now: string) => (
    <span class="choice" role="group" aria-label={label}>
      {values.map(([v, name]) => (
        <button
          key={name}
          aria-pressed={(v ?? values[0][1]) === now || (v === undefined && now === values[0][1])}
          onClick={() => ctx.set({ [key]: v, sel: undefined }, true)}
        >
          {name}
        </button>
      ))}
    </span>
  )
  return (
    <>
      <div class="tools">
        {choice(
          'scope',
          'phases drawn',
          [
            [undefined, 'all phases'],
            ['phase', `${ctx.phase} only`],
          ],
          scope === 'all' ? 'all phases' : 'phase',
        )}
        {choice(
          'by',
          'points',
          [
            [undefined, 'by weight'],
            ['op', 'by operator'],
          ],
          by === 'op' ? 'op' : 'by weight',
        )}
        {choice(
          'color',
          'colours',
          [
            [undefined, 'coloured by phase'],
            ['type', 'by type'],
          ],
          color === 'type' ? 'type' : 'coloured by phase',
        )}
        <input
          type="search"
          placeholder="filter points"
          aria-label="filter points"
          value={ctx.params.filter ?? ''}
          onInput={(e) => ctx.set({ filter: e.currentTarget.value }, true)}
        />
      </div>
      {data.map((d, i) => (
        <Peaks key={i} d={d} name={two ? names[i] : ''} />
      ))}
      {groups.map(
        (list, i) =>
          list.some((g) => g.only_partial) && (
            <p class="note" key={i}>
              {two && `${names[i]}: `}No step of{' '}
              {[...new Set(list.filter((g) => g.only_partial).map((g) => g.phase))].join(' and ')} is
              complete: figures can be too low.
            </p>
          ),
      )}
      {off > 0 && (
        <p class="note">{count(off)} operators are of kinds beyond the limit, and have no point.</p>
      )}
      <div class="pair roofline">
        <Plot
          id="roofline"
          title="Roofline"
          about={`A point is a ${by === 'op' ? 'kind of operator' : 'weight, or an operator without one'}, of one phase and number of threads; the larger, the more of its phase’s time it takes. ${drawn.roofs ? 'Lines are the ceilings: memory bandwidth (slanted), compute (level). Bytes are the algorithmic minimum, not measured DRAM traffic.' : 'No ceiling is drawn.'} ${two ? `Filled: ${names[0]}; open: ${names[1]}.` : ''}`}
          x={{ label: 'Arithmetic intensity (FLOP/byte)', fmt: tick, log: true }}
          y={{ label: 'Performance (GFLOP/s)', fmt: tick, log: true }}
          layers={drawn.layers}
          notes={drawn.notes}
          height={460}
          readout={(l, i) => say(drawn.of[l]?.[i], two ? names : null)}
          pick="select"
          onPick={(l, i) => ctx.set({ sel: drawn.of[l]?.[i]?.id }, true)}
          marked={at}
        />
        <RoofTable data={data} names={two ? names : null} />
      </div>
      {selected && <Links ctx={ctx} p={selected} by={by} />}
      {shown.length > 0 ? (
        <Table
          key={by}
          rows={shown}
          columns={cols}
          id={(p) => p.id}
          label="roofline"
          sort={sort.key}
          up={sort.up}
          selected={ctx.params.sel}
          limit={60}
          onSort={(key, up) => ctx.set({ sort: (up ? 'up:' : '') + key }, true)}
          onSelect={(p) => ctx.set({ sel: p.id === ctx.params.sel ? undefined : p.id }, true)}
        />
      ) : (
        <p class="dim">No point has “{clean(ctx.params.filter ?? '')}” in its name, type, phase or block.</p>
      )}
      {unplaced.length > 0 && (
        <p class="dim">
          {plural(unplaced.length, 'row has', 'rows have')} no point: they compute nothing that is counted, or
          their bytes are not known.
        </p>
      )}
    </>
  )
}

const tick = (v: number): string =>
  v >= 1e4 || v < 1e-3 ? v.toExponential(0).replace('e+', 'e') : String(Number(v.toPrecision(3)))

/** A point has a place on both axes. */
const placed = (p: Item): boolean => (p.flop_per_byte ?? 0) > 0 && (p.gflop_per_s ?? 0) > 0

/** Where the roofs come from, or how to get them. */
function Peaks({ d, name }: { d: Data; name: string }) {
  const p = d.peaks
  const who = name ? `${name}: ` : ''
  if (p.rooflines.length === 0) {
    return (
      <p class="note">
        {who}No roofline for this machine: its peaks are not known{p.missing ? `: ${clean(p.missing)}` : ''}.
        Peaks come from <code>profinfer peaks</code>, or from <code>--peak-bandwidth</code> and{' '}
        <code>--peak-flops</code> when the page is written.
      </p>
    )
  }
  return (
    <p class="dim">
      {who}Peaks: {clean(p.source) || 'source not known'}.
      {p.doubtful && (
        <span class="warn"> Other work disturbed the measurement: the machine may give more.</span>
      )}{' '}
      They are the most that memory and CPUs give; what lies in a cache can be read faster.
    </p>
  )
}

/** The radius of a point, by its share of the phase's time. */
const size = (p: Item): number => 3 + 13 * Math.sqrt(Math.min(1, Math.max(0, p.share ?? 0)))

function plotOf(
  shown: Item[],
  data: Data[],
  teams: number[],
  color: 'phase' | 'type',
  theme: Theme,
  names: [string, string] | null,
) {
  const points = shown.filter(placed)
  const types = [...new Set(points.map((p) => p.type))].sort()
  const phases = phaseOrder.filter((x) => points.some((p) => p.phase === x))
  const classes = color === 'type' ? types : phases
  const roofs = data.map((d) =>
    d.peaks.rooflines.filter((r) => points.some((p) => p.threads === r.threads && p.type === r.weight)),
  )
  const edges = edgesOf(roofs)
  const xs = points.map((p) => p.flop_per_byte!)
  const memory = edges.filter((e) => e.slanted && !e.ceiling)
  const ridges = edges
    .filter((e) => !e.slanted)
    .flatMap((e) =>
      memory.filter((m) => m.threads === e.threads && m.run === e.run).map((m) => e.rate / m.rate),
    )
  const lo = Math.min(...xs, ...ridges) / 2
  const hi = Math.max(...xs, ...ridges.map((r) => r * 3)) * 1.3
  const roof =
    points.length > 0 ? roofLayers(edges, lo, hi, cssVar('--dim'), names) : { layers: [], notes: [] }
  const groups = new Map<string, Item[]>()
  for (const p of points) {
    const k = [classes.indexOf(color === 'type' ? p.type : p.phase), teams.indexOf(p.threads), p.run]
      .map((v) => String(v).padStart(3, '0'))
      .join()
    groups.set(k, [...(groups.get(k) ?? []), p])
  }
  const layers: Layer[] = [...roof.layers]
  const of: Item[][] = layers.map(() => [])
  for (const [k, list] of [...groups].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const [c, t] = k.split(',').map(Number)
    const p = list[0]
    const base = closed[t % closed.length]
    list.sort((a, b) => (b.share ?? 0) - (a.share ?? 0))
    const what = color === 'type' ? clean(p.type) || 'no weight' : p.phase
    layers.push({
      name:
        what +
        (teams.length > 1 ? `, ${plural(p.threads, 'thread')}` : '') +
        (names ? `, ${names[p.run]}` : ''),
      color: seriesColor(theme, c),
      kind: 'points',
      shape: p.run ? (`open-${base}` as Shape) : base,
      alpha: 0.85,
      xs: list.map((q) => q.flop_per_byte!),
      ys: list.map((q) => q.gflop_per_s!),
      sizes: list.map(size),
      names: list.map((q) => clean(q.key)),
      hover: true,
    })
    of.push(list)
  }
  return { layers, of, notes: roof.notes, roofs: roof.layers.length > 0 }
}

function spotOf(of: Item[][], id: string | undefined) {
  for (let layer = 0; id && layer < of.length; layer++) {
    const i = of[layer].findIndex((p) => p.id === id)
    if (i >= 0) return { layer, i }
  }
  return undefined
}

function say(p: Item | undefined, names: [string, string] | null): string {
  if (!p) return ''
  const most = p.bytes_at_most ? '≤ ' : ''
  const roof = p.of_peak == null ? '' : `, ${share(p.of_peak)} of peak (${p.limit})`
  return `${named(p.key)}${p.type ? ' ' + named(p.type) : ''}, ${p.phase}, ${plural(p.threads, 'thread')}${names ? ', ' + names[p.run] : ''}: ${p.bytes_at_most ? '≥ ' : ''}${intensity(p.flop_per_byte)}, ${gflops(p.gflop_per_s)}, ${most}${gbps(p.gb_per_s)}${roof}; ${dur(p.steps > 0 ? p.dur_ns / p.steps : null)} per step, ${share(p.share)} of its time`
}

/** The way from a point to what else is known of it. */
function Links({ ctx, p, by }: { ctx: TabContext; p: Item; by: 'weight' | 'op' }) {
  const keep = { run: ctx.params.run, with: ctx.params.with }
  return (
    <p class="links" data-selected={p.id}>
      <b class="clip">{clean(p.key)}</b>
      <span class="dim">{say(p, null)}</span>
      <a
        href={href('stat', {
          ...keep,
          model: ctx.params.model,
          tab: 'tables',
          by,
          phase: p.phase,
          filter: p.key,
          sel: p.key,
        })}
      >
        its row in the tables
      </a>
      <a href={href('dag', { ...keep, phase: p.phase, q: p.key })}>show in ProfDAG</a>
      <a href={href('time', { ...keep, q: p.key })}>find in ProfTime</a>
    </p>
  )
}

/** The roofs as figures. */
function RoofTable({ data, names }: { data: Data[]; names: [string, string] | null }) {
  const rows = data.flatMap((d, run) => d.peaks.rooflines.map((r) => ({ ...r, run })))
  if (rows.length === 0) return null
  const matrix = rows.some((r) => r.matrix_gflop_s != null)
  const stream = rows.some((r) => r.stream_gb_s != null)
  const ridge = (r: RoofUsedRoof) => (r.gb_s && r.gflop_s ? r.gflop_s / r.gb_s : null)
  return (
    <div class="table-scroll">
      <table class="plain roofs" aria-label="ceilings">
        <thead>
          <tr>
            {names && <th class="text">run</th>}
            <th>threads</th>
            <th class="text">weights</th>
            <th title="bytes from memory">GB/s</th>
            {stream && <th title="each thread reads one place after the other">one stream</th>}
            <th>peak</th>
            <th class="text">of</th>
            {matrix && (
              <th title="instructions for small matrices: code that has none stops at the rate">matrix</th>
            )}
            <th title="arithmetic intensity at which both ceilings meet">ridge point FLOP/byte</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((r) => (
            <tr
              key={`${r.run} ${r.threads} ${r.weight}`}
              data-id={`${r.run ? 'b ' : ''}${r.threads} ${r.weight}`}
            >
              {names && <td class="text">{names[r.run]}</td>}
              <td>{r.threads}</td>
              <td class="text">{clean(r.weight) || 'none'}</td>
              <td data-col="gb_s">
                <Fig v={r.gb_s} f={num} />
              </td>
              {stream && (
                <td data-col="stream_gb_s">
                  <Fig v={r.stream_gb_s} f={num} />
                </td>
              )}
              <td data-col="gflop_s">
                <Fig v={r.gflop_s} f={num} />
              </td>
              <td class="text dim">
                {unitName(r.units)}
                {r.units && r.units !== 'int8' ? ' ' + clean(r.units) : r.units ? ' int8' : ''}
              </td>
              {matrix && (
                <td data-col="matrix_gflop_s">
                  <Fig v={r.matrix_gflop_s} f={num} />
                </td>
              )}
              <td data-col="ridge">
                <Fig v={ridge(r)} f={num} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function columnsOf(ps: Item[], names: [string, string] | null, threads: boolean): Column<Item>[] {
  const step = (p: Item) => (p.steps > 0 ? p.dur_ns / p.steps : null)
  const u = unitOf('time', ps.map(step))
  const top = Math.max(...ps.map((p) => p.share ?? 0), 1e-12)
  const n = (
    key: 'flop_per_byte' | 'gflop_per_s' | 'gb_per_s',
    head: string,
    help: string,
    sign: string,
  ): Column<Item> => ({
    key,
    head,
    help,
    value: (p) => p[key],
    cell: (p) => (
      <>
        {p.bytes_at_most && sign && p[key] != null && (
          <span class="dim" title="an estimate: how many tokens chose the same experts is not known">
            {sign}
          </span>
        )}
        <Fig v={p[key]} f={num} />
      </>
    ),
  })
  const cols: Column<Item>[] = [
    {
      key: 'key',
      head: 'weight or operator',
      text: true,
      value: (p) => p.key,
      cell: (p) => <Name text={p.key} />,
    },
    {
      key: 'type',
      head: 'type',
      text: true,
      value: (p) => p.type,
      cell: (p) => <span class="dim">{clean(p.type)}</span>,
    },
    { key: 'phase', head: 'phase', text: true, value: (p) => p.phase, cell: (p) => p.phase },
    {
      key: 'dur_per_step_ns',
      head: <span class="unit">{u.name}/step</span>,
      help: 'sum of the operators’ durations, without what the probes took, divided by the steps of as many threads',
      value: step,
      cell: (p) => <Fig v={step(p)} f={inUnit(u)} />,
    },
    {
      key: 'share',
      head: 'share',
      help: 'of these steps’ time',
      value: (p) => p.share,
      cell: (p) => (
        <>
          <Meter part={(p.share ?? 0) / top} />
          <Fig v={p.share} f={share} />
        </>
      ),
    },
    n('flop_per_byte', 'FLOP/byte', 'arithmetic intensity: operations per byte', '≥'),
    n(
      'gflop_per_s',
      'GFLOP/s',
      'operations divided by the duration, of operators whose bytes are known too',
      '',
    ),
    n('gb_per_s', 'GB/s', 'bytes moved (min) / duration', '≤'),
    {
      key: 'limit',
      head: 'nearer ceiling',
      text: true,
      help: 'the ceiling that is lower at this arithmetic intensity',
      value: (p) => p.limit,
      cell: (p) => p.limit || <span class="dim">–</span>,
    },
    {
      key: 'of_peak',
      head: '% of peak',
      help: 'rate / nearer ceiling; above 100 %: data stayed in a cache',
      value: (p) => p.of_peak,
      cell: (p) => <Fig v={p.of_peak} f={share} />,
    },
  ]
  if (threads)
    cols.splice(3, 0, {
      key: 'threads',
      head: 'threads',
      value: (p) => p.threads,
      cell: (p) => <Fig v={p.threads} f={count} />,
    })
  if (names)
    cols.unshift({ key: 'run', head: 'run', text: true, value: (p) => p.run, cell: (p) => names[p.run] })
  return cols
}
