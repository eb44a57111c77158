// SPDX-License-Identifier: Apache-2.0

// Counters by number of threads: IPC, stalled cycles and misses of each phase, over all recordings of the
// page.
import { useMemo } from 'preact/hooks'
import type { Run } from '../../api/load'
import type { SeriesRoofline, SeriesRooflineGroup, SummaryCount } from '../../api/types'
import { formatOf, metricsOf, scaledHelp, countersWithValues, valueOf, type Metric } from '../../lib/counters'
import { clean, count, num, plural } from '../../lib/format'
import { seriesColor } from '../../lib/palette'
import { sortOrder } from '../../lib/sort'
import { Fig } from '../../ui/figure'
import { Plot, type Layer } from '../../ui/plot'
import type { Shape } from '../../ui/plot-legend'
import { Table, type Column } from '../../ui/table'
import { useTheme } from '../../ui/theme'
import { useSections } from '../../ui/use-section'
import type { TabContext } from './context'

/** Whether a recording has counters that say something. */
export const hasCounters = (r: Run): boolean =>
  countersWithValues(
    r.stats.weight.counters,
    (r.stats.weight.phases ?? []).flatMap((p) => p.rows ?? []),
  ).length > 0

interface Item {
  id: string
  run: Run
  phase: string
  model: string
  threads: number
  steps: number
  counts: SummaryCount[] | undefined
  calls: number
  metrics: Metric[]
}

const shapes: Shape[] = ['circle', 'square', 'triangle', 'diamond']

export function Counted(ctx: TabContext) {
  const { report } = ctx
  const theme = useTheme()
  const runs = useMemo(() => report.runs.filter(hasCounters), [report])
  const { data, error } = useSections('roofline', runs)
  const of = ctx.params.of ?? ''
  const items = useMemo(() => (data ? runs.flatMap((r, i) => itemsOf(r, data[i], of)) : []), [data, of])
  const keys = useMemo(
    () =>
      data
        ? [...new Set(data.flatMap((d) => d.groups.flatMap((g) => g.weight.map((p) => p.key))))].sort()
        : [],
    [data],
  )
  const metrics = useMemo(
    () => items.flatMap((x) => x.metrics).filter((m, i, l) => l.findIndex((o) => o.id === m.id) === i),
    [items],
  )
  const ratios = metrics.filter((m) => m.kind !== 'count')
  const drawn = useMemo(() => ratios.map((m) => plotOf(m, items, theme)), [items, theme])
  if (error) return <p class="dim">The counters cannot be shown: {error}.</p>
  if (!data) return <p class="dim">Loading …</p>
  const teams = [...new Set(items.map((x) => x.threads))]
  const sort = sortOrder(ctx.params.sort) ?? { key: 'threads', up: true }
  return (
    <>
      <div class="tools">
        <label>
          of{' '}
          <select
            aria-label="operators counted"
            value={keys.includes(of) ? of : ''}
            onChange={(e) => ctx.set({ of: e.currentTarget.value || undefined }, true)}
          >
            <option value="">all operators</option>
            {keys.map((k) => (
              <option key={k} value={k}>
                {clean(k)}
              </option>
            ))}
          </select>
        </label>
        <span class="dim">
          Ratios of what was counted in these operators, by the number of threads that computed a step.
          {runs.length > 1 && ` Of ${plural(runs.length, 'recording')}.`}
        </span>
      </div>
      {ratios.length === 0 && (
        <p class="dim">
          No ratio follows from these counters: IPC needs cycles and instructions, a stall share cycles,
          misses instructions.
        </p>
      )}
      {ratios.length > 0 && teams.length < 2 && (
        <p class="dim">
          All steps were computed by {plural(teams[0] ?? 0, 'thread')}: there is nothing to draw over threads.
          A run of several (<code>llama-bench -t 1,2,4</code>), or recordings with different numbers in one
          page, have it.
        </p>
      )}
      {teams.length > 1 && (
        <div class="pair">
          {ratios.map((m, k) => (
            <Plot
              key={m.id}
              id={`threads-${m.id}`}
              title={`${m.head} by threads`}
              about={`${m.help}.${m.scaled ? ' ' + scaledHelp : ''}`}
              height={240}
              x={{ label: 'threads', fmt: (v) => String(v), whole: true }}
              y={{
                label: m.head + (m.unit ? ` (${m.kind === 'share' ? '% ' : ''}${m.unit})` : ''),
                fmt: (v) => (m.kind === 'share' ? num(v * 100) : String(Number(v.toPrecision(3)))),
                zero: true,
                max: drawn[k].top || undefined,
              }}
              layers={drawn[k].layers}
              readout={(l, i) => say(drawn[k].of[l]?.[i], m)}
            />
          ))}
        </div>
      )}
      <Table
        rows={items}
        columns={columnsOf(items, metrics, report.runs.length > 1)}
        id={(x) => x.id}
        label="counters by threads"
        sort={sort.key}
        up={sort.up}
        onSort={(key, up) => ctx.set({ sort: (up ? 'up:' : '') + key }, true)}
      />
    </>
  )
}

/** Phases of a run by threads, of all operators or of a key. */
function itemsOf(run: Run, d: SeriesRoofline, of: string): Item[] {
  const metrics = metricsOf(
    d.counters,
    d.groups.flatMap((g) => g.weight),
  )
  const one = (g: SeriesRooflineGroup): { counts: SummaryCount[] | undefined; calls: number } => {
    if (!of) return { counts: g.counts, calls: g.weight.reduce((n, p) => n + p.calls, 0) }
    const points = g.weight.filter((p) => p.key === of)
    return { counts: added(points.map((p) => p.counts)), calls: points.reduce((n, p) => n + p.calls, 0) }
  }
  return d.groups.flatMap((g) => {
    const x = one(g)
    if (x.calls === 0) return []
    const m = g.model == null ? null : run.stats.weight.models?.[g.model]
    const model = m ? `${m.family || 'model'} ${m.parameters} ${m.types[0]?.type ?? ''}` : ''
    return [
      {
        id: `${run.index} ${g.phase} ${g.model} ${g.threads}`,
        run,
        phase: g.phase,
        model,
        threads: g.threads,
        steps: g.steps,
        metrics,
        ...x,
      },
    ]
  })
}

/** Rows of one key and several types together. */
function added(list: (SummaryCount[] | undefined)[]): SummaryCount[] | undefined {
  const some = list.filter((c): c is SummaryCount[] => c != null)
  if (some.length < 2) return some[0]
  return some[0].map((_, i) => {
    const known = some.filter((c) => c[i]?.sum != null)
    return {
      sum: known.length ? known.reduce((n, c) => n + c[i].sum!, 0) : null,
      calls: known.reduce((n, c) => n + c[i].calls, 0),
    }
  })
}

const value = (m: Metric, x: Item): number | null => {
  // of its own run: counters stand at other places in another
  const mine = x.metrics.find((o) => o.id === m.id)
  const v = mine ? valueOf(mine, x.counts) : null
  return v == null || m.kind !== 'count' || x.steps === 0 ? v : (v * x.calls) / x.steps
}

/**
 * A series is a phase of a model. A recording of several numbers of threads is a series by itself; those of one number each make
 * one together.
 */
function plotOf(
  m: Metric,
  items: Item[],
  theme: Parameters<typeof seriesColor>[0],
): { layers: Layer[]; of: Item[][]; top: number } {
  const own = (x: Item) =>
    new Set(
      items
        .filter((o) => o.run === x.run && o.phase === x.phase && o.model === x.model)
        .map((o) => o.threads),
    ).size > 1
  const several = new Set(items.map((x) => x.run)).size > 1
  const models = [...new Set(items.map((x) => x.model))]
  const phases = ['prefill', 'decode', 'encode', 'unknown'].filter((p) => items.some((x) => x.phase === p))
  const sets = new Map<string, Item[]>()
  for (const x of items) {
    if (value(m, x) == null) continue
    const k = [phases.indexOf(x.phase), models.indexOf(x.model), own(x) ? x.run.index + 1 : 0]
      .map((v) => String(v).padStart(4, '0'))
      .join()
    sets.set(k, [...(sets.get(k) ?? []), x])
  }
  const layers: Layer[] = []
  const of: Item[][] = []
  let n = 0
  let top = 0
  for (const [, list] of [...sets].sort(([x], [y]) => (x < y ? -1 : 1))) {
    list.sort((x, y) => x.threads - y.threads || x.run.index - y.run.index)
    const x = list[0]
    const color = seriesColor(theme, n)
    const xs = list.map((p) => p.threads)
    const ys = list.map((p) => value(m, p)!)
    const teams = [...new Set(xs)]
    // The line goes through the mean where several recordings have as many threads.
    const mean = teams
      .map((t) => ys.filter((_, i) => xs[i] === t))
      .map((v) => v.reduce((p, q) => p + q, 0) / v.length)
    layers.push({
      name: `line ${n}`,
      legend: false,
      kind: 'line',
      color,
      xs: teams,
      ys: mean,
      dash: n % 2 ? [5, 3] : undefined,
    })
    of.push([])
    // What lies on another point is seen behind it.
    layers.push({
      name:
        x.phase +
        (models.length > 1 ? `, ${clean(x.model)}` : '') +
        (several && own(x) ? `, ${clean(x.run.file)}` : ''),
      color,
      kind: 'points',
      shape: shapes[n % shapes.length],
      size: Math.max(3.5, 6.5 - 1.2 * n),
      xs,
      ys,
      hover: true,
    })
    of.push(list)
    top = Math.max(top, ...ys)
    n++
  }
  return { layers, of, top: top * 1.1 }
}

const say = (x: Item | undefined, m: Metric): string =>
  x
    ? `${x.phase}, ${plural(x.threads, 'thread')}, ${clean(x.run.file)}: ${m.head} ${formatOf(m)(value(m, x))}; ${plural(x.calls, 'operator')} in ${plural(x.steps, 'step')}`
    : ''

function columnsOf(items: Item[], metrics: Metric[], several: boolean): Column<Item>[] {
  const cols: Column<Item>[] = [
    { key: 'phase', head: 'phase', text: true, value: (x) => x.phase, cell: (x) => x.phase },
    {
      key: 'threads',
      head: 'threads',
      value: (x) => x.threads,
      cell: (x) => <Fig v={x.threads} f={count} />,
    },
    { key: 'steps', head: 'steps', value: (x) => x.steps, cell: (x) => <Fig v={x.steps} f={count} /> },
  ]
  if (several)
    cols.unshift({
      key: 'run',
      head: 'run',
      text: true,
      value: (x) => x.run.index,
      cell: (x) => <span class="clip">{clean(x.run.file)}</span>,
    })
  if (new Set(items.map((x) => x.model)).size > 1)
    cols.splice(several ? 2 : 1, 0, {
      key: 'model',
      head: 'model',
      text: true,
      value: (x) => x.model,
      cell: (x) => <span class="dim">{clean(x.model)}</span>,
    })
  for (const m of metrics) {
    cols.push({
      key: m.kind === 'count' ? `count.${m.over[0]}` : m.id,
      help: m.help + (m.scaled ? '. ' + scaledHelp : ''),
      head: (
        <>
          {m.head}
          <span class="unit">
            {' '}
            {m.unit}
            {m.kind === 'count' ? '/step' : ''}
          </span>
          {m.scaled && <span class="of">scaled</span>}
        </>
      ),
      value: (x) => value(m, x),
      cell: (x) => <Fig v={value(m, x)} f={formatOf(m)} />,
    })
  }
  return cols
}
