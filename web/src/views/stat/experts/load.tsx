// SPDX-License-Identifier: Apache-2.0

// How often tokens chose each expert: layers against experts, the layers as a table, one layer's experts as
// bars.
import { useMemo } from 'preact/hooks'
import type { ExpertsLayer } from '../../../api/types'
import { count, num, plural, share } from '../../../lib/format'
import { runColors } from '../../../lib/palette'
import { axisFmt } from '../../../lib/units'
import { Fig } from '../../../ui/figure'
import { Plot, type Layer } from '../../../ui/plot'
import { Table, type Column } from '../../../ui/table'
import { useTheme } from '../../../ui/theme'
import type { TabContext } from '../context'
import { LoadLegend, loadPixel } from './colors'
import { layerId, type Chosen } from './data'
import { Grid, roomFor, useWidth } from './grid'

/** A load as so many times the mean of its layer. */
export const timesTheMean = (v: number | null | undefined): string => (v == null ? '–' : `${num(v)}×`)
export const layerName = (l: ExpertsLayer): string => (l.layer == null ? 'no layer' : `layer ${l.layer}`)

/** The mean number of tokens that choose an expert of a layer. */
export const meanLoad = (l: ExpertsLayer): number =>
  l.load.reduce((n, x) => n + x, 0) / Math.max(1, l.load.length)

export function LoadMap({ c, ctx, layer }: { c: Chosen; ctx: TabContext; layer: ExpertsLayer | undefined }) {
  const [box, width] = useWidth<HTMLDivElement>()
  const layers = c.stat.layers
  const most = Math.max(...layers.map((l) => l.experts))
  const per = Math.ceil(most / roomFor(width))
  const cols = Math.ceil(most / per)
  const height = layers.length * Math.max(1, Math.min(18, Math.floor(360 / layers.length)))
  const means = useMemo(() => layers.map(meanLoad), [c])
  const paint = useMemo(() => ({}), [c, per])
  const factor = (col: number, row: number): number => {
    const l = layers[row]
    let top = 0
    for (let e = col * per; e < Math.min(l.experts, (col + 1) * per); e++) top = Math.max(top, l.load[e])
    return means[row] > 0 ? top / means[row] : 0
  }
  const expert = (col: number) =>
    per === 1
      ? `expert ${col}`
      : `experts ${col * per} to ${Math.min(most, (col + 1) * per) - 1}, the one with the highest load`
  return (
    <div ref={box}>
      {width > 0 && (
        <Grid
          id={`experts-load-${c.index}`}
          title={`Load by layer and expert${c.name && ', ' + c.name}`}
          about={`How many tokens chose each expert, against the mean of its layer.${per > 1 ? ` A cell is the busiest of ${per} experts.` : ''}`}
          label={`load of ${most} experts in ${plural(layers.length, 'layer')}; the table below has each layer`}
          cols={cols}
          rows={layers.length}
          width={width}
          height={height}
          paint={paint}
          color={(col, row) => (col * per >= layers[row].experts ? 0 : loadPixel(factor(col, row)))}
          colName="expert"
          rowName="layer"
          colLabel={(x) => String(x * per)}
          rowLabel={(y) => (layers[y].layer == null ? 'none' : String(layers[y].layer))}
          legend={<LoadLegend />}
          hint="click or Enter: this layer below; arrow keys read cells"
          marked={{ row: layer ? layers.indexOf(layer) : -1 }}
          read={({ col, row }) => {
            const l = layers[row]
            if (col * per >= l.experts) return `${layerName(l)} has no expert ${col * per}`
            const v = per === 1 ? l.load[col] : factor(col, row) * means[row]
            return (
              <>
                {layerName(l)}, {expert(col)}:{' '}
                <Fig v={v} f={count} name={per === 1 ? `${c.at}.layers.${row}.load.${col}` : undefined} /> of{' '}
                {count(l.tokens)} tokens, {timesTheMean(factor(col, row))} the mean
              </>
            )
          }}
          onPick={({ row }) => ctx.set({ layer: layerId(layers[row], layers) }, true)}
        />
      )}
    </div>
  )
}

/** Whether two runs have the same layers with as many experts. */
export const comparable = (a: Chosen, b: Chosen): boolean =>
  a.stat.layers.length === b.stat.layers.length &&
  a.stat.layers.every((l, i) => l.layer === b.stat.layers[i].layer && l.experts === b.stat.layers[i].experts)

/** The loads of a second run against the first one's, each against the means of its layers. */
export function LoadDifference({
  a,
  b,
  ctx,
  layer,
}: {
  a: Chosen
  b: Chosen
  ctx: TabContext
  layer: ExpertsLayer | undefined
}) {
  const [box, width] = useWidth<HTMLDivElement>()
  const layers = a.stat.layers
  const most = Math.max(...layers.map((l) => l.experts))
  const paint = useMemo(() => ({}), [a, b])
  const factors = useMemo(
    () => [a, b].map((c) => c.stat.layers.map((l) => l.load.map((n) => n / (meanLoad(l) || 1)))),
    [a, b],
  )
  if (most > 1000) return null
  const ratio = (col: number, row: number): number => {
    const [x, y] = factors.map((f) => f[row][col] ?? 0)
    return x === 0 && y === 0 ? 0 : x === 0 ? Infinity : y / x || 1e-9
  }
  return (
    <div ref={box}>
      {width > 0 && (
        <Grid
          id="experts-load-difference"
          title={`Load, ${b.name} against ${a.name}`}
          about="How many times as often an expert was chosen, both against the mean of its layer."
          label={`loads of ${b.name} against ${a.name}; the tables below have each layer`}
          cols={most}
          rows={layers.length}
          width={width}
          height={layers.length * Math.max(1, Math.min(18, Math.floor(360 / layers.length)))}
          paint={paint}
          color={(col, row) => loadPixel(ratio(col, row))}
          colName="expert"
          rowName="layer"
          colLabel={String}
          rowLabel={(y) => (layers[y].layer == null ? 'none' : String(layers[y].layer))}
          legend={<LoadLegend of="as often" />}
          hint="click or Enter: this layer below; arrow keys read cells"
          marked={{ row: layer ? layers.indexOf(layer) : -1 }}
          read={({ col, row }) =>
            col >= layers[row].experts
              ? `${layerName(layers[row])} has no expert ${col}`
              : `${layerName(layers[row])}, expert ${col}: ${timesTheMean(factors[0][row][col])} the mean, then ${timesTheMean(factors[1][row][col])}`
          }
          onPick={({ row }) => ctx.set({ layer: layerId(layers[row], layers) }, true)}
        />
      )}
    </div>
  )
}

interface Row {
  l: ExpertsLayer
  i: number
  chance: number | null
}

export function LayerTable({
  c,
  ctx,
  layer,
}: {
  c: Chosen
  ctx: TabContext
  layer: ExpertsLayer | undefined
}) {
  const layers = c.stat.layers
  const rows: Row[] = useMemo(
    () => layers.map((l, i) => ({ l, i, chance: c.map?.layers[i]?.reused_by_chance ?? null })),
    [c],
  )
  const fig = (
    key: keyof ExpertsLayer,
    head: string,
    help: string,
    f: (v: number | null | undefined) => string,
  ): Column<Row> => ({
    key,
    head,
    help,
    value: (r) => r.l[key] as number | null,
    cell: (r) => <Fig v={r.l[key] as number | null} f={f} name={`${c.at}.layers.${r.i}.${key}`} />,
  })
  const cols: Column<Row>[] = [
    {
      key: 'layer',
      head: c.name || 'layer',
      text: true,
      value: (r) => r.l.layer ?? Infinity,
      cell: (r) => layerName(r.l),
    },
    fig('experts', 'experts', 'experts of the layer', count),
    fig('used', 'used', 'experts that a token uses', count),
    fig('batches', 'batches', 'executions of the layer: steps in decode; in prefill parts of them', count),
    fig('tokens', 'tokens', 'that came to the layer', count),
    fig('distinct_per_batch', 'distinct per batch', 'mean number of distinct experts per batch', num),
    fig(
      'reused_share',
      'reused',
      'reused from the previous token (batch): share of the distinct experts per batch',
      share,
    ),
    {
      key: 'chance',
      head: 'random baseline',
      help: 'reuse if tokens chose experts at random',
      value: (r) => r.chance,
      cell: (r) => <Fig v={r.chance} f={share} />,
    },
    fig('imbalance', 'max/mean load', 'load of the expert that most tokens chose / mean load', (v) =>
      timesTheMean(v == null ? v : v + 1),
    ),
    fig('unused', 'unused', 'experts that no token chose', count),
  ]
  return (
    <Table
      rows={rows}
      columns={cols}
      id={(r) => layerId(r.l, layers)}
      label={`${ctx.phase} experts by layer${c.name && ', ' + c.name}`}
      sort="layer"
      up
      limit={16}
      selected={layer ? layerId(layer, layers) : undefined}
      onSelect={(r) => ctx.set({ layer: layerId(r.l, layers) }, true)}
    />
  )
}

/** The experts of one layer as bars. Two runs stand together: their loads are against their means. */
export function LoadBars({ list, ctx }: { list: { c: Chosen; l: ExpertsLayer }[]; ctx: TabContext }) {
  const theme = useTheme()
  const sorted = ctx.params.order === 'load'
  const { layers, at } = useMemo(
    () => {
      const color = runColors(theme)
      const layers: Layer[] = []
      const at: { expert: number; k: number }[][] = []
      let most = 0
      list.forEach(({ c, l }, k) => {
        const mean = meanLoad(l)
        const order = l.load.map((_, e) => e)
        if (sorted) order.sort((x, y) => l.load[y] - l.load[x] || x - y)
        most = Math.max(most, l.experts)
        layers.push({
          name: c.name || 'load',
          color: color[c.index],
          kind: k === 0 ? 'bars' : 'points',
          shape: 'triangle',
          size: 3,
          width: Math.max(1, Math.min(18, 700 / l.experts)),
          xs: order.map((_, i) => i),
          ys: order.map((e) => (mean > 0 ? l.load[e] / mean : 0)),
          hover: true,
        })
        at.push(order.map((expert) => ({ expert, k })))
      })
      layers.push({
        name: 'the mean',
        color: theme === 'dark' ? '#e4e7eb' : '#1b1f24',
        kind: 'line',
        dash: [5, 4],
        width: 1,
        xs: [-0.5, most - 0.5],
        ys: [1, 1],
      })
      at.push([])
      return { layers, at }
    },
    [list.map((x) => x.l), sorted, theme].flat(),
  )
  const first = list[0]
  return (
    <>
      <div class="tools">
        <span class="choice" role="group" aria-label="order of the bars">
          {(['number', 'load'] as const).map((k) => (
            <button
              key={k}
              aria-pressed={sorted === (k === 'load')}
              onClick={() => ctx.set({ order: k === 'load' ? k : undefined }, true)}
            >
              by {k}
            </button>
          ))}
        </span>
        {list.map(({ c, l }) => (
          <span key={c.index} class="facts">
            {c.name && <span class="of">{c.name}</span>}
            <span>
              max/mean load{' '}
              <Fig
                v={l.imbalance}
                f={(v) => timesTheMean(v == null ? v : v + 1)}
                name={`${c.at}.layers.${c.stat.layers.indexOf(l)}.imbalance`}
              />
            </span>
            <span>
              <Fig v={l.unused} f={count} name={`${c.at}.layers.${c.stat.layers.indexOf(l)}.unused`} /> of{' '}
              <Fig v={l.experts} f={count} name={`${c.at}.layers.${c.stat.layers.indexOf(l)}.experts`} />{' '}
              unused
            </span>
          </span>
        ))}
      </div>
      <Plot
        id="experts-bars"
        title={`Load of each expert, ${layerName(first.l)}`}
        about={sorted ? 'Experts by load, highest first.' : 'Experts by their number.'}
        x={{
          label: sorted ? 'experts, highest load first' : 'expert',
          fmt: axisFmt({ name: '', div: 1, digits: 0 }),
          whole: true,
        }}
        y={{ label: 'load (times the mean)', fmt: axisFmt({ name: '', div: 1, digits: 1 }), zero: true }}
        layers={layers}
        height={200}
        readout={(k, i) => {
          const s = at[k]?.[i]
          if (!s) return ''
          const { c, l } = list[s.k]
          const mean = meanLoad(l)
          return `${c.name ? c.name + ': ' : ''}expert ${s.expert}: ${plural(l.load[s.expert], 'token')} of ${count(l.tokens)}, ${timesTheMean(mean > 0 ? l.load[s.expert] / mean : 0)} the mean`
        }}
      />
    </>
  )
}
