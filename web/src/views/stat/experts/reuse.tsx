// SPDX-License-Identifier: Apache-2.0

// Reuse: experts that the batch before used as well, what a cache of experts would hold, what new ones cost,
// and what a step reads.
import { useMemo } from 'preact/hooks'
import type { ExpertsLayer, ExpertsStep } from '../../../api/types'
import { bytes, clean, dur, num, plural, share } from '../../../lib/format'
import { runColors, seriesColor } from '../../../lib/palette'
import { axisFmt, unitOf } from '../../../lib/units'
import { Plot, type Layer } from '../../../ui/plot'
import { useTheme } from '../../../ui/theme'
import { stepLink, type TabContext } from '../context'
import type { Chosen } from './data'
import { layerName } from './load'

const plain = axisFmt({ name: '', div: 1, digits: 0 })
const percent = axisFmt({ name: '', div: 0.01, digits: 0 })
const of = (c: Chosen, text: string): string => (c.name ? `${c.name}: ${text}` : text)

/** By layer: how many of a batch's experts the one before chose, and how many that were by chance. */
export function AgainByLayer({ list }: { list: Chosen[] }) {
  const theme = useTheme()
  const { layers, at } = useMemo(() => {
    const colors = runColors(theme)
    const layers: Layer[] = []
    const at: ((i: number) => string)[] = []
    for (const c of list) {
      const rows = c.stat.layers.map((l, i) => ({
        l,
        x: l.layer ?? i,
        again: l.reused_share,
        chance: c.map?.layers[i]?.reused_by_chance ?? null,
      }))
      const known = rows.filter((r) => r.again != null).sort((a, b) => a.x - b.x)
      if (known.length === 0) continue
      const chance = known.filter((r) => r.chance != null)
      layers.push({
        name: of(c, 'used again'),
        color: colors[c.index],
        kind: 'points',
        shape: c.index ? 'triangle' : 'circle',
        size: 3.5,
        xs: known.map((r) => r.x),
        ys: known.map((r) => r.again),
        hover: true,
      })
      at.push((i) =>
        of(
          c,
          `${layerName(known[i].l)}: ${share(known[i].again)} of a batch’s experts, random baseline ${share(known[i].chance)}`,
        ),
      )
      layers.push({
        name: of(c, 'random baseline'),
        color: colors[c.index],
        kind: 'line',
        dash: [5, 4],
        width: 1.2,
        xs: chance.map((r) => r.x),
        ys: chance.map((r) => r.chance),
      })
      at.push(() => '')
    }
    return { layers, at }
  }, [...list, theme])
  if (layers.length === 0)
    return <p class="dim">No batch follows another of this phase: the reuse of experts is unknown.</p>
  return (
    <Plot
      id="experts-again"
      title="Experts reused from the previous token (batch), by layer"
      about="Share of the distinct experts of a batch. Random baseline: if tokens chose at random."
      x={{ label: 'layer', fmt: plain, whole: true }}
      y={{ label: 'share (%)', fmt: percent, zero: true }}
      layers={layers}
      height={230}
      readout={(l, i) => at[l]?.(i) ?? ''}
    />
  )
}

/** What a cache would have held by how many experts it keeps. */
export function CacheCurve({
  list,
  layer,
}: {
  list: { c: Chosen; l: ExpertsLayer | undefined }[]
  layer: string
}) {
  const theme = useTheme()
  const { layers, at } = useMemo(() => {
    const colors = runColors(theme)
    const layers: Layer[] = []
    const at: ((i: number) => string)[] = []
    for (const { c, l } of list) {
      const curve = (name: string, hits: number[], experts: number, dash?: number[]) => {
        if (hits.length === 0) return
        // It stays at its last value: no use has a larger distance.
        const xs = Array.from({ length: experts + 1 }, (_, i) => i)
        const ys = xs.map((n) => (n === 0 ? 0 : hits[Math.min(n, hits.length) - 1]))
        layers.push({
          name: of(c, name),
          color: colors[c.index],
          kind: 'line',
          dash,
          width: 1.8,
          xs,
          ys,
          hover: true,
        })
        at.push((i) =>
          of(c, `${name}, a cache of ${plural(i, 'expert')} of ${experts}: ${share(ys[i])} of the uses held`),
        )
      }
      if (!c.map) continue
      curve('all layers', c.map.cache, Math.max(...c.stat.layers.map((x) => x.experts)))
      const m = l && c.map.layers[c.stat.layers.indexOf(l)]
      if (l && m && c.stat.layers.length > 1) curve(`${layer} (dashed)`, m.cache, l.experts, [5, 4])
    }
    return { layers, at }
  }, [...list.flatMap((x) => [x.c, x.l]), layer, theme])
  if (layers.length === 0) return <p class="dim">No expert was used twice, so a cache cannot be simulated.</p>
  return (
    <Plot
      id="experts-cache"
      title="Simulated LRU expert cache: hit rate by capacity"
      about="Hit rate of a simulated LRU cache over the uses of each batch. First uses count as misses."
      x={{ label: 'capacity (experts per layer)', fmt: plain, zero: true, whole: true }}
      y={{ label: 'hit rate (%)', fmt: percent, zero: true }}
      layers={layers}
      height={230}
      readout={(l, i) => at[l]?.(i) ?? ''}
    />
  )
}

/** The time of a product with one token's experts against how many of these are new, by weight. */
export function NewCost({ list }: { list: Chosen[] }) {
  const theme = useTheme()
  const { layers, at, unit, facts } = useMemo(() => {
    const layers: Layer[] = []
    const at: ((i: number) => string)[] = []
    const facts: string[] = []
    const all = list.flatMap((c) => (c.map?.products ?? []).slice(0, 8).map((p) => ({ c, p })))
    const unit = unitOf(
      'time',
      all.flatMap(({ p }) => p.new.map((n) => n.p95_ns)),
    )
    const fg = theme === 'dark' ? '#e4e7eb' : '#1b1f24'
    all.forEach(({ c, p }, k) => {
      const color = seriesColor(theme, k)
      const name = of(c, clean(p.weight))
      const off = all.length > 1 ? (k / (all.length - 1) - 0.5) * Math.min(0.6, 0.18 * (all.length - 1)) : 0
      const xs = p.new.map((n) => n.new + off)
      const bar = (
        lo: (n: (typeof p.new)[0]) => number,
        hi: (n: (typeof p.new)[0]) => number,
        width: number,
        alpha: number,
        legend: boolean,
      ) => {
        layers.push({
          name: legend ? `${name}: box` : `${name}: whisker`,
          color,
          kind: 'bars',
          width,
          alpha,
          xs,
          ys: p.new.map(hi),
          base: p.new.map(lo),
          legend: false,
        })
        at.push(() => '')
      }
      bar(
        (n) => n.p5_ns,
        (n) => n.p95_ns,
        1,
        0.9,
        false,
      )
      bar(
        (n) => n.p25_ns,
        (n) => n.p75_ns,
        Math.max(5, Math.min(14, 300 / (all.length * 5))),
        0.45,
        true,
      )
      layers.push({
        name,
        color,
        kind: 'points',
        shape: (['circle', 'square', 'triangle', 'diamond'] as const)[k % 4],
        size: 3.5,
        xs,
        ys: p.new.map((n) => n.p50_ns),
        hover: true,
      })
      at.push((i) => {
        const n = p.new[i]
        return `${name}, ${n.new} new: median ${dur(n.p50_ns)}, P25 to P75 ${dur(n.p25_ns)} to ${dur(n.p75_ns)}, P5 to P95 ${dur(n.p5_ns)} to ${dur(n.p95_ns)}; ${plural(n.calls, 'product')}`
      })
      if (p.base_ns != null && p.per_new_ns != null) {
        const ends = [p.new[0].new, p.new[p.new.length - 1].new]
        layers.push({
          name: `${name}: line`,
          color: k < 7 ? color : fg,
          kind: 'line',
          dash: [5, 4],
          width: 1.1,
          xs: ends.map((x) => x + off),
          ys: ends.map((x) => p.base_ns! + p.per_new_ns! * x),
          legend: false,
        })
        at.push(() => '')
        facts.push(`${name} ${p.per_new_ns < 0 ? 'nothing' : dur(p.per_new_ns)}`)
      }
    })
    return { layers, at, unit, facts }
  }, [...list, theme])
  if (layers.length === 0)
    return (
      <p class="dim">
        No product of a single token followed another: times against new experts are not known (in prefill a
        product is of many tokens).
      </p>
    )
  return (
    <Plot
      id="experts-new"
      title="Time of a product with one token’s experts against how many of them are new"
      about={`New: not used by the previous batch. Points: medians; boxes: P25 to P75; lines: P5 to P95.${facts.length ? ` Cost per newly activated expert, by the dashed least-squares lines through the medians: ${facts.join(', ')}.` : ''}`}
      x={{ label: 'new experts of the token', fmt: plain, whole: true }}
      y={{ label: `time of a product (${unit.name})`, fmt: axisFmt(unit), zero: true }}
      layers={layers}
      height={280}
      readout={(l, i) => at[l]?.(i) ?? ''}
    />
  )
}

/** Step by step: bytes of the experts' weights, and how many are new. */
export function BySteps({ list, ctx, what }: { list: Chosen[]; ctx: TabContext; what: 'bytes' | 'new' }) {
  const theme = useTheme()
  const value = (p: ExpertsStep): number | null =>
    what === 'bytes' ? (p.bytes == null ? null : p.bytes / p.n) : p.known > 0 ? p.new / p.n : null
  const {
    layers,
    at,
    of: owners,
    unit,
  } = useMemo(() => {
    const colors = runColors(theme)
    const layers: Layer[] = []
    const at: ExpertsStep[][] = []
    const owners: Chosen[] = []
    const unit =
      what === 'bytes'
        ? unitOf(
            'bytes',
            list.flatMap((c) => (c.map?.steps ?? []).map(value)),
          )
        : { name: '', div: 1, digits: 0 }
    for (const c of list) {
      const steps = (c.map?.steps ?? []).filter((p) => value(p) != null)
      if (steps.length === 0) continue
      const xs = steps.map((p) => p.id)
      const ys = steps.map((p) => value(p)! / unit.div)
      layers.push({
        name: c.name || (what === 'bytes' ? 'bytes per step' : 'new experts per step'),
        color: colors[c.index],
        kind: steps.length > 600 ? 'line' : 'points',
        size: steps.length > 200 ? 2 : 3,
        width: 1.2,
        shape: c.index ? 'triangle' : 'circle',
        xs,
        ys,
        hover: true,
      })
      at.push(steps)
      owners.push(c)
    }
    return { layers, at, of: owners, unit }
  }, [...list, what, theme])
  if (layers.length === 0)
    return (
      <p class="dim">
        {what === 'bytes'
          ? 'How many bytes of experts a step reads is not known.'
          : 'No step follows another of this phase: how many of its experts are new is not known.'}
      </p>
    )
  const per = Math.max(...list.map((c) => c.map?.steps_per_point ?? 1))
  const many = per > 1 ? ` A point is the mean of up to ${per} steps in succession.` : ''
  const all = list.map((c) => c.stat.bytes_of_all_experts).find((v) => v != null)
  return (
    <Plot
      id={`experts-${what}`}
      title={what === 'bytes' ? 'Bytes of experts’ weights, step by step' : 'New experts, step by step'}
      about={
        what === 'bytes'
          ? `Each expert counted once a product, however many tokens chose it, over all layers.${all == null ? '' : ` All experts’ are ${bytes(all)}.`}${many}`
          : `Over all layers: experts that the batch before did not use.${many}`
      }
      x={{ label: 'step (number in the recording)', fmt: plain, whole: true }}
      y={{
        label: what === 'bytes' ? `bytes per step (${unit.name})` : 'new experts per step',
        fmt: plain,
        zero: true,
      }}
      layers={layers}
      height={210}
      readout={(l, i) => {
        const p = at[l]?.[i]
        if (!p) return ''
        const name = p.n > 1 ? `steps ${p.id} and ${p.n - 1} more, on average` : `step ${p.id}`
        const read =
          p.bytes == null || !p.all ? '' : `${bytes(p.bytes / p.n)}, ${share(p.bytes / p.all)} of all`
        return [
          of(owners[l], name),
          `${num(p.experts / p.n)} experts`,
          p.known > 0 ? `${num(p.new / p.n)} of ${num(p.known / p.n)} new` : '',
          read,
        ]
          .filter(Boolean)
          .join(' · ')
      }}
      pick="to the step in ProfTime"
      onPick={(l, i) => at[l] && (location.hash = stepLink(ctx, owners[l].index, at[l][i].id))}
    />
  )
}
