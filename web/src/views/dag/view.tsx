// SPDX-License-Identifier: Apache-2.0

// ProfDAG: the operator graph of a phase.
import './dag.css'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Run } from '../../api/load'
import type { DagOutlier } from '../../api/types'
import { clean, count, dur, share } from '../../lib/format'
import { Empty } from '../../ui/figure'
import { go } from '../../ui/route'
import { useTheme } from '../../ui/theme'
import { useLoaded } from '../../ui/use-section'
import type { ViewProps } from '../../ui/view-props'
import { withCounters, type CountedDAG, type CountedDAGs } from './data'
import { download, svgText } from './export'
import { neighbours, buildGraph, visibleGraph, type Drawn, type Visible } from './graph'
import { metrics, scaleOf, sumOf, value, type Metric, type ItemSum } from './paint'
import { Legend } from './legend'
import { Pane } from './pane'
import { Panel } from './panel'
import { Check, Pick } from './tools'

interface Side {
  run: Run
  all: CountedDAGs
  d: CountedDAG
  g: Drawn
  v: Visible
  open: Set<string>
  sums: Map<string, ItemSum>
  marked: Map<string, string>
}

/** Other names of colourings, in links from other views. */
const alias: Record<string, Metric> = { gbps: 'bandwidth', flopb: 'intensity', difference: 'diff' }
const phaseNames = ['prefill', 'decode', 'encode', 'unknown']

export function Dag({ a, b, route }: ViewProps) {
  const runs = b ? [a, b] : [a]
  const { data, error } = useLoaded(runs.map((r) => r.index).join(), () =>
    Promise.all(runs.map((r) => (r.has('dag') ? r.json('dag').then(withCounters) : null))),
  )
  if (error)
    return (
      <div data-ready>
        <Empty>The operator graphs cannot be read: {error}</Empty>
      </div>
    )
  if (!data) return <div class="empty">Loading …</div>
  const [da, db = null] = data
  const some = (da?.dags.length ?? 0) + (db?.dags.length ?? 0)
  if (!some)
    return (
      <div data-ready>
        <Nothing run={a} d={da} />
      </div>
    )
  return <Graphs key={a.index + ',' + (b?.index ?? '')} a={a} b={b} da={da} db={db} params={route.params} />
}

function Nothing({ run, d }: { run: Run; d: CountedDAGs | null }) {
  const s = run.stats.weight
  return (
    <Empty>
      No graph was seen in any step of this recording.{' '}
      {s.run.level === 'step'
        ? 'It was made at --level step, which records no graphs.'
        : s.lost.unknown_shapes > 0
          ? `${count(s.lost.unknown_shapes)} graphs ran whose definitions were not recorded.`
          : ''}
      {d && d.outside_operators > 0 ? ` ${count(d.outside_operators)} operators ran outside of steps.` : ''}
    </Empty>
  )
}

interface GraphsProps {
  a: Run
  b: Run | null
  da: CountedDAGs | null
  db: CountedDAGs | null
  params: Record<string, string>
}

function Graphs({ a, b, da, db, params }: GraphsProps) {
  const theme = useTheme()
  const has = (p: string) => [da, db].some((x) => x?.dags.some((d) => d.phase === p))
  const phases = phaseNames.filter(has)
  const phase = phases.includes(params.phase) ? params.phase : has('decode') ? 'decode' : phases[0]
  const of = (x: CountedDAGs | null) => x?.dags.filter((d) => d.phase === phase) ?? []
  const pickA = pick(of(da), params.graph)
  const pickB = pick(of(db), params.graphb)
  const choice = useMemo(
    () => ({
      all: params.all === '1',
      layer: /^\d+$/.test(params.layer ?? '') ? Number(params.layer) : null,
      views: /v/.test(params.show ?? ''),
      weights: /w/.test(params.show ?? ''),
      inputs: /i/.test(params.show ?? ''),
    }),
    [params.all, params.layer, params.show],
  )
  const sideA = useSide(a, da, pickA, choice, params.open, params.sel ?? '')
  const sideB = useSide(b, db, pickB, choice, params.open, params.sel ?? '')
  const sides = [sideA, sideB].filter((s): s is Side => s != null)
  const two = b != null
  let metric = (alias[params.color] ?? params.color ?? 'share') as Metric
  const counters = useMemo(
    () =>
      sides.flatMap((s) => s.d.counted ?? []).filter((m, i, l) => l.findIndex((o) => o.id === m.id) === i),
    [sideA, sideB],
  )
  if (![...metrics, ...counters].some((m) => m.id === metric) && !(metric === 'diff' && two)) metric = 'share'

  const values = useMemo(
    () => sides.map((s) => valuesOf(s, metric, sides.find((o) => o !== s) ?? null, s === sideA)),
    [sideA, sideB, metric],
  )
  const scale = useMemo(() => {
    // One layer's figures are small beside what all layers share: its own operators make the scale then.
    const inLayer = (s: Side, id: string) =>
      neighbours(s.g, id).some((g) => s.g.items.get(g)?.times === 1 && s.g.items.get(g)?.id.startsWith('k'))
    const all = (only: boolean) =>
      values.flatMap((v, i) =>
        sides[i].v.nodes.filter((x) => !only || inLayer(sides[i], x.id)).map((x) => v.get(x.id) ?? null),
      )
    const some = choice.layer != null ? all(true) : []
    return scaleOf(metric, some.some((v) => v != null) ? some : all(false), theme)
  }, [values, theme, metric])

  const [ready, setReady] = useState<{ ms: number[]; omitted: number }>({ ms: [], omitted: 0 })
  const drawn = useRef<Record<number, [number, number]>>({})
  const tell = (i: number) => (ms: number, omitted: number) => {
    drawn.current[i] = [ms, omitted]
    const got = sides.map((_, k) => drawn.current[k]).filter(Boolean)
    if (got.length === sides.length)
      setReady({ ms: got.map((g) => g[0]), omitted: got.reduce((n, g) => n + g[1], 0) })
  }

  const set = (change: Record<string, string | number | undefined>, replace = true) =>
    go('dag', { ...params, ...change }, replace)
  const openNow = sideA?.open ?? sideB?.open ?? new Set<string>()
  const toggle = (id: string) => {
    const next = new Set(openNow)
    if (next.has(id)) next.delete(id)
    else next.add(id)
    set({ open: [...next].join(',') || 'none' })
  }
  const sel = params.sel ?? ''
  const select = (id: string, more: Record<string, number> = {}) => {
    const g = sides.find((s) => s.g.items.has(id))?.g
    const wide = g && id ? neighbours(g, id).filter((o) => !openNow.has(o)) : []
    set({ ...more, sel: id || undefined, ...(wide.length ? { open: [...openNow, ...wide].join(',') } : {}) })
  }

  const query = params.q ?? ''
  const found = useMemo(() => (query ? sides.map((s) => search(s, query)) : []), [query, sideA, sideB])
  const hits = useMemo(() => [...new Set(found.flat())], [found])
  const box = useRef<HTMLInputElement>(null)
  // A link from another view names what to look at: the first that fits is shown.
  useEffect(() => {
    if (!params.q || params.sel || !hits.length) return
    const s = sides.find((o) => o.g.items.has(hits[0]))!
    const x = s.g.items.get(hits[0])!
    const fit = x.ids.filter((i) => namesOf(s, i).includes(params.q.toLowerCase()))
    const layer = x.times > 1 && fit.length === 1 ? s.d.nodes[fit[0]].layer : null
    select(hits[0], layer != null && params.layer === undefined ? { layer } : {})
  }, [])
  const next = () => {
    if (hits.length) select(hits[(hits.indexOf(sel) + 1) % hits.length])
  }
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test((e.target as HTMLElement).tagName)
      if (e.key === '/' && !typing && !e.ctrlKey && !e.metaKey) {
        e.preventDefault()
        box.current?.focus()
        box.current?.select()
      } else if (e.key === 'Escape' && !typing && sel) select('')
    }
    addEventListener('keydown', key)
    return () => removeEventListener('keydown', key)
  })
  const svgs = useRef<(SVGSVGElement | null)[]>([])

  if (!sides.length)
    return (
      <div data-ready>
        <Empty>No operator graph of {phase} in these recordings.</Empty>
      </div>
    )
  const chosen = sides.find((s) => s.g.items.has(sel))
  const other = chosen && sides.find((s) => s !== chosen)
  const refused = [...new Set(sides.flatMap((s) => s.v.refused))]
  const isReady = ready.ms.length > 0
  return (
    <div
      class="dag-view"
      {...(isReady ? { 'data-ready': '', 'data-layout-ms': Math.max(...ready.ms).toFixed(1) } : {})}
    >
      <div class="dag-tools">
        <span class="seg" role="group" aria-label="phase">
          {phases.map((p) => (
            <button
              key={p}
              aria-pressed={p === phase}
              data-phase={p}
              onClick={() =>
                set(
                  { phase: p, sel: undefined, layer: undefined, graph: undefined, graphb: undefined },
                  false,
                )
              }
            >
              {p}
            </button>
          ))}
        </span>
        <Pick
          label="graph"
          list={of(da)}
          at={of(da).indexOf(pickA!)}
          onPick={(n) => set({ graph: n || undefined, sel: undefined })}
          run={a}
        />
        {two && (
          <Pick
            label="graph compared with"
            list={of(db)}
            at={of(db).indexOf(pickB!)}
            onPick={(n) => set({ graphb: n || undefined, sel: undefined })}
            run={b!}
          />
        )}
        <label>
          <span class="dim">colour</span>{' '}
          <select value={metric} data-color onChange={(e) => set({ color: e.currentTarget.value })}>
            {metrics.map((m) => (
              <option key={m.id} value={m.id}>
                {m.name}
              </option>
            ))}
            {two && <option value="diff">difference in time</option>}
            {counters.map((m) => (
              <option key={m.id} value={m.id}>
                {m.kind === 'count' ? `counter: ${m.head}` : m.head}
                {m.scaled ? ' (scaled)' : ''}
              </option>
            ))}
          </select>
        </label>
        <span class="dim">show</span>
        <Check
          on={choice.all}
          name="all layers"
          title="show every layer; off: equal layers are folded into one"
          set={(on) => set({ all: on ? 1 : undefined, open: undefined, sel: undefined, layer: undefined })}
        />
        <Check
          on={choice.weights}
          name="weights"
          title="show weights as nodes"
          set={() => set({ show: flip(params.show, 'w') })}
        />
        <Check
          on={choice.views}
          name="views"
          title="show views (they take no time) and nodes that did not run"
          set={() => set({ show: flip(params.show, 'v') })}
        />
        <Check
          on={choice.inputs}
          name="inputs"
          title="show inputs: positions, masks, token ids"
          set={() => set({ show: flip(params.show, 'i') })}
        />
        <span class="dag-search">
          <input
            ref={box}
            type="search"
            value={query}
            placeholder="search  /"
            aria-label="search"
            data-search
            onInput={(e) => set({ q: e.currentTarget.value || undefined })}
            onKeyDown={(e) => {
              if (e.key === 'Enter') (e.preventDefault(), next())
              if (e.key === 'Escape') (set({ q: undefined }), e.currentTarget.blur())
            }}
          />
          {query && (
            <span class="dim" data-hits={hits.length}>
              {hits.length ? `${hits.indexOf(sel) + 1 || '–'} of ${hits.length}` : 'none'}
            </span>
          )}
        </span>
        <span class="grow" />
        <button
          data-save
          onClick={() =>
            svgs.current.forEach(
              (el, i) =>
                el &&
                download(`${sides[i] ? fileName(sides[i].run.file) : 'graph'}-${phase}.svg`, svgText(el)),
            )
          }
          title="the graph as drawn; for Graphviz: profinfer export --format dot"
        >
          save SVG
        </button>
      </div>
      <div class="dag-main">
        <div class="dag-panes">
          {sides.map((s, i) => (
            <Pane
              key={s.run.index}
              d={s.d}
              g={s.g}
              v={s.v}
              sums={s.sums}
              values={values[i]}
              scale={scale}
              metric={metric}
              selected={sel}
              matches={new Set((found[i] ?? []).map((id) => shownFor(s, id)))}
              marked={s.marked}
              title={two ? `${clean(s.run.file)}${s.run.label ? ' — ' + clean(s.run.label) : ''}` : ''}
              onSelect={select}
              onToggle={toggle}
              onReady={tell(i)}
              goto={sel}
              svgRef={(el) => (svgs.current[i] = el)}
            />
          ))}
          {two && sides.length < 2 && (
            <div class="dag-pane">
              <Empty>
                {clean((sideA ? b! : a).file)} has no graph of {phase}.
              </Empty>
            </div>
          )}
        </div>
        {chosen && (
          <Panel
            d={chosen.d}
            g={chosen.g}
            x={chosen.g.items.get(sel)!}
            keep={keepOf(params)}
            layer={choice.all ? (chosen.d.nodes[chosen.g.items.get(sel)!.rep]?.layer ?? null) : choice.layer}
            rule={chosen.all.outlier_rule}
            ruleCalls={chosen.all.outlier_min_calls}
            other={
              other
                ? {
                    name: clean(other.run.file),
                    sum: other.sums.get(sel) ?? null,
                    mine: clean(chosen.run.file),
                  }
                : undefined
            }
            onSelect={select}
            onLayer={(l) => {
              if (!choice.all) return set({ layer: l ?? undefined })
              // Every layer is drawn: that one's own node is gone to.
              const k = chosen.d.kinds[chosen.g.items.get(sel)!.kindAt]
              const role = k?.roles[chosen.g.items.get(sel)!.role]
              if (l != null) select(role ? `n${role.nodes[k.layers.indexOf(l)]}` : `L${l}`)
            }}
            onClose={() => select('')}
          />
        )}
      </div>
      <div class="dag-foot">
        <Legend
          scale={scale}
          metric={metric}
          counters={counters}
          backends={[...new Set(sides.flatMap((s) => s.d.parts.map((p) => p.backend)))]}
        />
        <span class="clip dim">{sides.map((s) => facts(s, two)).join('   |   ')}</span>
        {refused.length > 0 && (
          <span class="warn">
            Too much to draw at once:{' '}
            {refused.length === 1 ? 'a group stays' : `${refused.length} groups stay`} closed. Close others
            first.
          </span>
        )}
        {ready.omitted > 0 && (
          <span class="warn">
            {count(ready.omitted)} edges that reach far are not drawn; the panel of a node lists all of its
            own.
          </span>
        )}
      </div>
    </div>
  )
}

function keepOf(p: Record<string, string>): Record<string, string> {
  const out: Record<string, string> = {}
  if (p.run) out.run = p.run
  if (p.with) out.with = p.with
  return out
}

function pick(list: CountedDAG[], at: string | undefined): CountedDAG | null {
  const n = Number(at ?? 0)
  return list[Number.isInteger(n) && n >= 0 && n < list.length ? n : 0] ?? null
}

function useSide(
  run: Run | null,
  all: CountedDAGs | null,
  d: CountedDAG | null,
  choice: Parameters<typeof buildGraph>[1],
  opened: string | undefined,
  sel: string,
): Side | null {
  const g = useMemo(() => (d ? buildGraph(d, choice) : null), [d, choice])
  return useMemo(() => {
    if (!run || !all || !d || !g) return null
    const open = openOf(g, opened, sel)
    const v = visibleGraph(g, open)
    const sums = new Map<string, ItemSum>()
    for (const x of g.items.values()) sums.set(x.id, sumOf(d, x.ids))
    const s: Side = { run, all, d, g, v, open, sums, marked: new Map() }
    s.marked = marks(s, choice.layer)
    return s
  }, [run, all, d, g, opened, opened === undefined ? sel : ''])
}

/** Which groups are open: those named, at first the layers that stand for many. */
function openOf(g: Drawn, opened: string | undefined, sel: string): Set<string> {
  if (opened !== undefined) return new Set(opened.split(',').filter((id) => g.items.has(id)))
  const out = new Set<string>(sel ? neighbours(g, sel) : []) // a link can name what lies inside
  for (const x of g.items.values()) if (x.group === 'layer' && x.id.startsWith('k')) out.add(x.id)
  if (out.size === 0)
    for (const x of g.items.values()) if (x.group === 'layer' && g.top.length < 4) out.add(x.id)
  return out
}

/** An item's counterpart in another graph: the same role. */
function roleKey(s: Side, id: string): string {
  const x = s.g.items.get(id)!
  if (x.kind === 'group') return x.id
  const n = s.d.nodes[x.rep]
  return `${x.parent}|${x.title}|${n.op.split('+')[0]}`
}

function valuesOf(s: Side, m: Metric, other: Side | null, first: boolean): Map<string, number | null> {
  const out = new Map<string, number | null>()
  if (m !== 'diff') {
    for (const [id, x] of s.sums) out.set(id, value(x, m))
    return out
  }
  if (!other) return out
  const theirs = new Map<string, ItemSum>()
  const seen = new Map<string, number>()
  const nth = (k: string, of: Map<string, number>) => {
    const n = (of.get(k) ?? 0) + 1
    of.set(k, n)
    return `${k}#${n}`
  }
  for (const id of other.g.items.keys()) theirs.set(nth(roleKey(other, id), seen), other.sums.get(id)!)
  const mine = new Map<string, number>()
  for (const id of s.g.items.keys()) {
    const o = theirs.get(nth(roleKey(s, id), mine))
    const p = s.sums.get(id)!.perStep
    const [x, y] = first ? [p, o?.perStep ?? null] : [o?.perStep ?? null, p]
    out.set(id, x != null && y != null && x > 0 ? y / x - 1 : null) // second against first, in both
  }
  return out
}

/** All names of a node and of what ran with it, in lower case. */
function namesOf(s: Side, i: number): string {
  const n = s.d.nodes[i]
  return [n.name, s.d.nodes[n.weight]?.name ?? '', ...(n.fused ?? []).map((f) => s.d.nodes[f]?.name ?? '')]
    .join('\n')
    .toLowerCase()
}

/** Items whose name, operator, type, block or weight has the text. */
function search(s: Side, q: string): string[] {
  const t = q.toLowerCase()
  const out: string[] = []
  for (const x of s.g.items.values()) {
    if (x.kind === 'group') continue
    const n = s.d.nodes[x.rep]
    const all = [x.title, n.op, n.type, n.block, n.stat_key ?? '', s.d.nodes[n.weight]?.type ?? '']
    if (all.some((v) => v.toLowerCase().includes(t)) || x.ids.some((i) => namesOf(s, i).includes(t)))
      out.push(x.id)
    if (out.length >= 2000) break
  }
  return out.sort((x, y) => s.g.items.get(x)!.order - s.g.items.get(y)!.order)
}

/** What is drawn for an item: itself, or the closed group around it. */
function shownFor(s: Side, id: string): string {
  for (const g of neighbours(s.g, id)) if (!s.open.has(g)) return g
  return id
}

/** Layers and operators that stand out among their kind, with how that is told. */
function marks(s: Side, layer: number | null): Map<string, string> {
  const out = new Map<string, string>()
  const tell = (list: DagOutlier[]): string =>
    `layer ${list[0].layer} +${(list[0].over * 100).toFixed(0)} % (n ${count(list[0].calls)})` +
    (list.length > 1 ? `, +${list.length - 1} more` : '')
  s.d.kinds.forEach((k, i) => {
    // Where one layer is looked at, only what is said of it.
    const of = (list: DagOutlier[]) =>
      layer != null && k.layers.includes(layer) ? list.filter((x) => x.layer === layer) : list
    const o = of(k.spread?.outliers ?? [])
    if (o.length) out.set(`k${i}`, tell(o))
    for (const x of k.spread?.outliers ?? [])
      out.set(`L${x.layer}`, `+${(x.over * 100).toFixed(0)} % above its kind (n ${count(x.calls)})`)
    k.roles.forEach((r, ri) => {
      const ro = of(r.spread?.outliers ?? [])
      if (ro.length) out.set(`k${i}r${ri}`, tell(ro))
      for (const x of r.spread?.outliers ?? [])
        out.set(
          `n${r.nodes[k.layers.indexOf(x.layer)]}`,
          `+${(x.over * 100).toFixed(0)} % above other layers (n ${count(x.calls)})`,
        )
    })
  })
  return out
}

function facts(s: Side, short: boolean): string {
  const d = s.d
  const rest = s.all.rest.filter((r) => r.phase === d.phase && r.model === d.model)
  const parts = [
    `${count(d.nodes.filter((n) => n.kind === 'op' && n.fused_into < 0).length)} operators of ${count(d.nodes.length)} tensors`,
    d.operators
      ? `${count(d.steps)} steps, ${dur(d.traced_steps ? (d.operators_ns - d.probe_ns) / d.traced_steps : null)} of operators per step (${share(d.share)} of the time)`
      : 'no operator was seen: no times',
  ]
  if (!short) {
    if (d.only_partial) parts.push('of incomplete steps')
    const shapes = Math.max(...d.parts.map((p) => p.shapes))
    if (shapes > 1) parts.push(`${shapes} sizes: dimensions grew`)
    const inc = d.parts.find((p) => p.incomplete)
    if (inc) parts.push('definition with holes: ' + clean(inc.incomplete))
    if (d.parts.length > 1)
      parts.push(`${d.parts.length} parts: ${[...new Set(d.parts.map((p) => clean(p.backend)))].join(', ')}`)
    for (const r of rest) parts.push(`${count(r.runs)} runs of other graphs are not shown`)
    if (s.g.hidden.idle) parts.push(`${s.g.hidden.idle} defined, not run`)
  }
  return parts.join(' · ')
}

function fileName(f: string): string {
  return f
    .replace(/\.pinf$/, '')
    .replace(/[^\w.-]+/g, '_')
    .slice(0, 60)
}

function flip(show: string | undefined, f: string): string | undefined {
  const s = show ?? ''
  return (s.includes(f) ? s.replaceAll(f, '') : s + f) || undefined
}
