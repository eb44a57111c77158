// SPDX-License-Identifier: Apache-2.0

// Matmuls: time against work and against bytes, by the type of the weights.
import { useMemo } from 'preact/hooks'
import type { SeriesProduct, Series } from '../../api/types'
import type { Theme } from '../../lib/color'
import { bytes, clean, count, dur, gbps, gflops, named, num } from '../../lib/format'
import { seriesColor } from '../../lib/palette'
import { sortOrder } from '../../lib/sort'
import { axisFmt, inUnit, unitOf } from '../../lib/units'
import { Name } from '../../ui/charts'
import { Fig } from '../../ui/figure'
import { Plot, type Guide, type Layer } from '../../ui/plot'
import type { Shape } from '../../ui/plot-legend'
import { Table, type Column } from '../../ui/table'
import { useTheme } from '../../ui/theme'
import { runNames, type TabContext } from './context'

interface Item extends SeriesProduct {
  id: string
  phase: string
  run: number
}

const closed: Shape[] = ['circle', 'square', 'triangle', 'diamond']

export function Products(ctx: TabContext) {
  const theme = useTheme()
  const names = runNames(ctx)
  const scope = ctx.params.scope === 'phase' ? 'phase' : 'all'
  const items = useMemo(() => {
    const out: Item[] = []
    const take = (s: Series | null, run: number) =>
      s?.phases.forEach((p) => {
        if (p.model !== ctx.model || (scope === 'phase' && p.phase !== ctx.phase)) return
        p.products.forEach((x) =>
          out.push({
            ...x,
            phase: p.phase,
            run,
            id: `${run ? 'b ' : ''}${p.phase} ${x.key} ${x.type} ${x.m}x${x.n}x${x.k}`,
          }),
        )
      })
    take(ctx.sa, 0)
    take(ctx.sb, 1)
    return out
  }, [ctx.sa, ctx.sb, ctx.model, ctx.phase, scope])
  const shown = items.filter(
    (p) =>
      !ctx.params.filter ||
      `${p.key} ${p.type} ${p.phase}`.toLowerCase().includes(ctx.params.filter.toLowerCase()),
  )
  const dropped = [ctx.sa, ctx.sb].reduce(
    (n, s) => n + (s?.phases.reduce((m, p) => m + p.products_dropped, 0) ?? 0),
    0,
  )
  const work = useMemo(
    () => layersOf(shown, (p) => p.work, theme, !!ctx.b, names),
    [items, ctx.params.filter, theme],
  )
  const mem = useMemo(
    () => layersOf(shown, (p) => p.bytes, theme, !!ctx.b, names),
    [items, ctx.params.filter, theme],
  )
  const marked = (l: { of: Item[][] }) => {
    for (let layer = 0; layer < l.of.length; layer++) {
      const i = l.of[layer].findIndex((p) => p.id === ctx.params.sel)
      if (i >= 0) return { layer, i }
    }
    return undefined
  }
  const cols = useMemo(() => columnsOf(shown, ctx.b ? names : null), [items, ctx.params.filter])
  if (items.length === 0) {
    return (
      <p class="dim">
        No matmul was seen{scope === 'phase' ? ` in phase ${ctx.phase}` : ''}: operators were not recorded, or
        run on a backend whose operators cannot be seen.
      </p>
    )
  }
  const tu = unitOf(
    'time',
    shown.map((p) => p.mean_ns),
  )
  const y = { label: `mean time of a matmul (${tu.name})`, fmt: axisFmt(tu), log: true }
  const pick = (of: Item[][]) => (l: number, i: number) => ctx.set({ sel: of[l]?.[i]?.id }, true)
  const sort = sortOrder(ctx.params.sort) ?? { key: 'sum_ns', up: false }
  return (
    <>
      <div class="tools">
        <span class="choice" role="group" aria-label="phases drawn">
          <button aria-pressed={scope === 'all'} onClick={() => ctx.set({ scope: undefined }, true)}>
            all phases
          </button>
          <button aria-pressed={scope === 'phase'} onClick={() => ctx.set({ scope: 'phase' }, true)}>
            {ctx.phase} only
          </button>
        </span>
        <input
          type="search"
          placeholder="filter matmuls"
          aria-label="filter matmuls"
          value={ctx.params.filter ?? ''}
          onInput={(e) => ctx.set({ filter: e.currentTarget.value }, true)}
        />
      </div>
      {dropped > 0 && (
        <p class="note">
          {count(dropped)} matmuls are of kinds beyond the limit of 4,096, and are not shown.
        </p>
      )}
      <div class="pair">
        <Plot
          id="work"
          title="Time of a matmul against its work"
          about={`m · n · k multiplications and additions. A point is a matmul of one weight, type and size (mean of its calls, bar from p5 to p95). ${rates(shown, 'gflop_per_s')} Dashed: equal GFLOP/s.`}
          x={{ label: 'work: m · n · k (multiply-adds)', fmt: power, log: true }}
          y={y}
          layers={work.layers}
          guides={flopGuides(shown)}
          height={360}
          readout={(l, i) => say(work.of[l]?.[i])}
          pick="select"
          onPick={pick(work.of)}
          marked={marked(work)}
        />
        <Plot
          id="bytes"
          title="Time of a matmul against its bytes"
          about={`Bytes moved (min). ${rates(shown, 'gb_per_s')} Dashed: equal GB/s; along such a line time goes with bytes.`}
          x={{
            label: 'bytes moved (min)',
            fmt: (v) => bytes(v).replace('.00', '').replace('.0 ', ' '),
            log: true,
            binary: true,
          }}
          y={y}
          layers={mem.layers}
          guides={byteGuides(shown)}
          height={360}
          readout={(l, i) => say(mem.of[l]?.[i])}
          pick="select"
          onPick={pick(mem.of)}
          marked={marked(mem)}
        />
      </div>
      {shown.length > 0 && (
        <Table
          rows={shown}
          columns={cols}
          id={(p) => p.id}
          label="matmuls"
          sort={sort.key}
          up={sort.up}
          selected={ctx.params.sel}
          onSort={(key, up) => ctx.set({ sort: (up ? 'up:' : '') + key }, true)}
          onSelect={(p) => ctx.set({ sel: p.id === ctx.params.sel ? undefined : p.id }, true)}
        />
      )}
      {shown.length === 0 && (
        <p class="dim">No product has “{clean(ctx.params.filter ?? '')}” in its name, type or phase.</p>
      )}
    </>
  )
}

const raised = (e: number): string => [...String(e)].map((c) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[Number(c)] ?? '⁻').join('')

/** 2.15·10⁹ */
function scientific(v: number): string {
  if (v < 1e4) return count(v)
  const e = Math.floor(Math.log10(v))
  return `${(v / 10 ** e).toFixed(2)}·10${raised(e)}`
}

const power = (v: number): string => {
  const e = Math.floor(Math.log10(v) + 1e-9)
  const m = Math.round(v / 10 ** e)
  return `${m === 1 ? '' : m + '·'}10${raised(e)}`
}

/** What the products reached, in words. */
function rates(ps: Item[], k: 'gflop_per_s' | 'gb_per_s'): string {
  const best = ps.filter((p) => p[k] != null && p.weight).sort((a, b) => b[k]! - a[k]!)
  if (best.length === 0) return ''
  const f = k === 'gb_per_s' ? gbps : gflops
  const lo = best[best.length - 1]
  return `From ${f(lo[k])} (${named(lo.key)}, ${lo.phase}) to ${f(best[0][k])} (${named(best[0].key)}, ${best[0].phase}).`
}

/**
 * One layer by type of weights, phase and run: the type has the colour and shape, decode is filled, prefill
 * open.
 */
function layersOf(
  ps: Item[],
  x: (p: Item) => number | null,
  theme: Theme,
  two: boolean,
  names: [string, string],
): { layers: Layer[]; of: Item[][] } {
  const types = [...new Set(ps.map((p) => p.type))].sort()
  const groups = new Map<string, Item[]>()
  for (const p of ps) {
    if (!(x(p)! > 0) || p.mean_ns <= 0) continue
    const k = `${types.indexOf(p.type)}/${p.phase === 'decode' ? 1 : 0}/${p.run}`
    groups.set(k, [...(groups.get(k) ?? []), p])
  }
  const layers: Layer[] = []
  const of: Item[][] = []
  for (const list of [...groups.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, l]) => l)) {
    const p = list[0]
    const at = types.indexOf(p.type)
    const i = two ? at * 2 + p.run : at
    const base = closed[i % closed.length]
    const color = seriesColor(theme, i)
    list.sort((a, b) => x(a)! - x(b)!)
    layers.push({
      name: 'p5 to p95',
      legend: false,
      color,
      kind: 'bars',
      xs: list.map((q) => x(q)!),
      ys: list.map((q) => Math.max(q.p95_ns, 1)),
      base: list.map((q) => Math.max(q.p5_ns, 1)),
      alpha: 0.55,
    })
    of.push([])
    layers.push({
      name: `${clean(p.type)}${list.every((q) => !q.weight) ? ' (no weight)' : ''}, ${p.phase === 'decode' ? 'decode' : list.some((q) => q.phase !== p.phase) ? 'other phases' : p.phase}${two ? ', ' + names[p.run] : ''}`,
      color,
      kind: 'points',
      shape: p.phase === 'decode' ? base : (`open-${base}` as Shape),
      size: 4.5,
      xs: list.map((q) => x(q)!),
      ys: list.map((q) => q.mean_ns),
      names: list.map((q) => clean(q.key)),
      hover: true,
    })
    of.push(list)
  }
  return { layers, of }
}

function say(p: Item | undefined): string {
  if (!p) return ''
  return `${named(p.key)} ${named(p.type)}, ${p.phase}: ${p.m} × ${p.n} × ${p.k}; ${count(p.calls)} calls, mean ${dur(p.mean_ns)} (p5 ${dur(p.p5_ns)}, p95 ${dur(p.p95_ns)}); ${p.bytes_at_most ? '≤ ' : ''}${gbps(p.gb_per_s)}, ${gflops(p.gflop_per_s)}`
}

/** Lines of equal rates that lie among the points: 1, 2, 5 in each decade. */
function levels(v: number[]): number[] {
  if (v.length === 0) return []
  const lo = Math.min(...v) / 1.5
  const hi = Math.max(...v) * 1.5
  const out: number[] = []
  const wide = hi / lo > 60 ? [1] : hi / lo > 10 ? [1, 3] : [1, 2, 5]
  for (let d = 10 ** Math.floor(Math.log10(lo)); d <= hi; d *= 10)
    for (const m of wide) if (d * m >= lo && d * m <= hi) out.push(d * m)
  return out.slice(0, 8)
}

const flopGuides = (ps: Item[]): Guide[] =>
  levels(ps.flatMap((p) => (p.gflop_per_s ? [p.gflop_per_s] : []))).map((r) => ({
    label: `${num(r).replace(/\.0+$/, '')} GFLOP/s`,
    f: (x) => (2 * x) / r,
  }))
const byteGuides = (ps: Item[]): Guide[] =>
  levels(ps.flatMap((p) => (p.gb_per_s ? [p.gb_per_s] : []))).map((r) => ({
    label: `${num(r).replace(/\.0+$/, '')} GB/s`,
    f: (x) => x / r,
  }))

function columnsOf(ps: Item[], names: [string, string] | null): Column<Item>[] {
  const time = (key: 'sum_ns' | 'mean_ns' | 'p5_ns' | 'p95_ns', head: string): Column<Item> => {
    const u = unitOf(
      'time',
      ps.map((p) => p[key]),
    )
    return {
      key,
      head: (
        <>
          {head} <span class="unit">{u.name}</span>
        </>
      ),
      value: (p) => p[key],
      cell: (p) => <Fig v={p[key]} f={inUnit(u)} />,
    }
  }
  const n = (
    key: keyof SeriesProduct,
    head: string,
    help: string,
    f: (v: number | null | undefined) => string,
  ): Column<Item> => ({
    key,
    head,
    help,
    value: (p) => p[key] as number | null,
    cell: (p) => <Fig v={p[key] as number | null} f={f} />,
  })
  const cols: Column<Item>[] = [
    {
      key: 'key',
      head: 'weight or product',
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
    n('m', 'm', 'rows of the weight', count),
    n('n', 'n', 'tokens; with chosen experts tokens times experts', count),
    n('k', 'k', 'columns of the weight', count),
    n('calls', 'calls', 'matmuls of this kind', count),
    time('sum_ns', 'all'),
    time('mean_ns', 'mean'),
    time('p5_ns', 'p5'),
    time('p95_ns', 'p95'),
    n('work', 'm·n·k', 'multiply-adds', (v) => (v == null ? '–' : scientific(v))),
    n('bytes', 'bytes', 'read and written at least, per call', bytes),
    n('gb_per_s', 'GB/s', 'bytes / time', num),
    n('gflop_per_s', 'GFLOP/s', 'floating point operations / time', num),
  ]
  if (names)
    cols.unshift({ key: 'run', head: 'run', text: true, value: (p) => p.run, cell: (p) => names[p.run] })
  return cols
}
