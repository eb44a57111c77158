// SPDX-License-Identifier: Apache-2.0

// Step time against position: what a growing KV cache costs, and which steps were slow.
import { useMemo } from 'preact/hooks'
import type { SeriesPhase, SeriesStepPoint } from '../../api/types'
import type { Theme } from '../../lib/color'
import { count, delta, dur, plural, share } from '../../lib/format'
import { median } from '../../lib/median'
import { partColors, runColors } from '../../lib/palette'
import { axisFmt, unitOf } from '../../lib/units'
import { Fig } from '../../ui/figure'
import { Plot, type Layer } from '../../ui/plot'
import { useTheme } from '../../ui/theme'
import { phaseOf, runNames, seriesOf, statBy, stepLink, type TabContext } from './context'
import { Missing } from './missing'

type Against = 'pos' | 'cells' | 'step' | 'time'

const axes: Record<Against, string> = {
  pos: 'position (tokens of the sequence so far, from the batch)',
  cells: 'cells of the KV cache that attention read',
  step: 'step (number in the recording)',
  time: 'time since the first step shown (s)',
}

function place(p: SeriesStepPoint, x: Against, first: number): number | null {
  switch (x) {
    case 'pos':
      return p.pos
    case 'cells':
      return p.cells
    case 'step':
      return p.id
    case 'time':
      return (p.start_ns - first) / 1e9
  }
}

/** A point with its place on the x axis. */
interface Spot {
  x: number
  p: SeriesStepPoint
  partial: boolean
}

/** Mean time of a point's steps until their results were there; of their calls where that was not seen. */
const whole = (p: SeriesStepPoint): number => (p.dur_ns + (p.late_ns ?? 0)) / p.n

function spotsOf(s: SeriesPhase | null, x: Against, first: number): Spot[] {
  const out: Spot[] = []
  for (const [list, partial] of [
    [s?.steps ?? [], !!s?.only_partial],
    [s?.partial ?? [], true],
  ] as const) {
    for (const p of list) {
      const v = place(p, x, first)
      if (v != null) out.push({ x: v, p, partial })
    }
  }
  return out.sort((a, b) => a.x - b.x)
}

export function Steps(ctx: TabContext) {
  const theme = useTheme()
  const names = runNames(ctx)
  const pa = seriesOf(ctx.sa, ctx)
  const pb = seriesOf(ctx.sb, ctx)
  const both = [pa, pb].filter((p) => p != null)
  const can = (x: Against) =>
    x === 'step' || x === 'time' || both.some((p) => p.steps.some((s) => s[x] != null))
  const wanted = ctx.params.x as Against
  const x: Against =
    wanted in axes && can(wanted) ? wanted : can('pos') && several(both, 'pos') ? 'pos' : 'step'
  const log = ctx.params.y === 'log'
  const full = ctx.params.range === 'all' || log
  const d = useMemo(
    () => build(pa, ctx.sb ? pb : null, x, full, log, theme, names),
    [pa, pb, x, full, log, theme],
  )
  if (both.length === 0 || both.every((p) => p.steps.length + p.partial.length === 0))
    return <p class="dim">No step of phase {ctx.phase} was seen: nothing is drawn.</p>
  const pick = (run: number, p: SeriesStepPoint) => (location.hash = stepLink(ctx, run, p.slowest))
  return (
    <>
      <Missing
        ctx={ctx}
        pa={phaseOf(statBy(ctx.a, 'weight'), ctx)}
        pb={ctx.b ? phaseOf(statBy(ctx.b, 'weight'), ctx) : null}
      />
      <div class="tools">
        <span class="choice" role="group" aria-label="against">
          {(Object.keys(axes) as Against[]).map((k) => (
            <button
              key={k}
              aria-pressed={k === x}
              disabled={!can(k)}
              title={can(k) ? axes[k] : 'not known in this recording'}
              onClick={() => ctx.set({ x: k })}
            >
              {{ pos: 'position', cells: 'KV cells', step: 'step', time: 'time' }[k]}
            </button>
          ))}
        </span>
        <button
          aria-pressed={log}
          onClick={() => ctx.set({ y: log ? undefined : 'log' }, true)}
          title="logarithmic axis of time; without what a step is made of"
        >
          logarithmic
        </button>
        {!log && (d.above > 0 || full) ? (
          <button aria-pressed={full} onClick={() => ctx.set({ range: full ? undefined : 'all' }, true)}>
            {full
              ? 'whole range'
              : `${plural(d.above, 'step lies', 'steps lie')} above: show the whole range`}
          </button>
        ) : null}
      </div>
      <Plot
        id="steps"
        title={`Duration of a step against ${{ pos: 'position', cells: 'KV cells', step: 'its number', time: 'time' }[x]}, ${ctx.phase}`}
        about={d.about}
        x={{
          label: axes[x],
          fmt: axisFmt({ name: '', div: 1, digits: 0 }),
          zero: x === 'pos' || x === 'cells',
          whole: x !== 'time',
        }}
        y={{
          label: `duration of a step (${d.unit.name})`,
          fmt: axisFmt(d.unit),
          zero: true,
          max: d.top,
          log,
        }}
        layers={d.layers}
        height={340}
        readout={(l, i) =>
          d.at[l] ? read(d.at[l]![i], x, d.at.filter(Boolean).length > 1 ? d.layers[l].name : '') : ''
        }
        pick="to the step in ProfTime"
        onPick={(l, i) => d.at[l] && pick(d.runs[l], d.at[l]![i].p)}
      />
      {d.attn.length > 0 && (
        <Plot
          id="attention"
          title={`Attention, a step, against ${{ pos: 'position', cells: 'KV cells', step: 'the step', time: 'time' }[x]}`}
          about={d.growth}
          x={{
            label: axes[x],
            fmt: axisFmt({ name: '', div: 1, digits: 0 }),
            zero: x === 'pos' || x === 'cells',
            whole: x !== 'time',
          }}
          y={{
            label: `attention a step (${d.attnUnit.name})`,
            fmt: axisFmt(d.attnUnit),
            zero: true,
            max: d.attnTop,
            log,
          }}
          layers={d.attn}
          height={220}
          readout={(l, i) => (d.attnAt[l] ? read(d.attnAt[l]![i], x, '') : '')}
          pick="to the step in ProfTime"
          onPick={(l, i) => d.attnAt[l] && pick(d.attnRuns[l], d.attnAt[l]![i].p)}
        />
      )}
      {d.attn.length === 0 && (
        <p class="dim">
          Attention is not drawn: operators of these steps were not recorded, or none of them is attention’s.
        </p>
      )}
      <Slow ctx={ctx} pa={pa} pb={pb} names={names} pick={pick} />
    </>
  )
}

function several(ps: SeriesPhase[], k: 'pos' | 'cells'): boolean {
  return ps.some((p) => new Set(p.steps.map((s) => s[k])).size > 1)
}

function read(s: Spot | undefined, x: Against, name: string): string {
  if (!s) return ''
  const p = s.p
  const mean = whole(p)
  const parts = [
    name,
    p.n > 1
      ? `steps ${p.id} and ${p.n - 1} more, on average ${dur(mean)}${p.late_ns ? '' : ` (${dur(p.min_ns)} to ${dur(p.max_ns)})`}`
      : `step ${p.id}: ${dur(mean)}`,
  ]
  if (p.pos != null && x !== 'pos') parts.push(`position ${count(p.pos)}`)
  if (x === 'pos')
    parts.push(`position ${count(s.x)}${p.cells != null ? `, ${count(p.cells)} cells read` : ''}`)
  if (p.attn_ns != null && p.traced > 0)
    parts.push(`attention ${dur(p.attn_ns / p.traced)} (${share(p.attn_ns / p.traced_ns)})`)
  if (p.matmul_ns != null && p.traced > 0) parts.push(`matmul ${dur(p.matmul_ns / p.traced)}`)
  if (p.late_ns == null) parts.push('when its results were there was not seen')
  else if (p.late_ns > 0) parts.push(`its call ${dur(p.dur_ns / p.n)}`)
  if (s.partial) parts.push('incomplete' + (p.incomplete ? ': ' + p.incomplete : ''))
  return parts.filter(Boolean).join(' · ')
}

const quantile = (v: number[], q: number): number =>
  v.length === 0 ? 0 : [...v].sort((a, b) => a - b)[Math.min(v.length - 1, Math.floor(q * v.length))]

/** Mean of what lies in each of some slices along x, so that areas do not flicker. */
function slices(
  spots: Spot[],
  n: number,
  of: ((p: SeriesStepPoint) => number | null)[],
): { xs: number[]; ys: number[][] } {
  const traced = spots.filter((s) => !s.partial && of.every((f) => f(s.p) != null) && s.p.traced > 0)
  const xs: number[] = []
  const ys: number[][] = of.map(() => [])
  if (traced.length === 0) return { xs, ys }
  const lo = traced[0].x
  const wide = (traced[traced.length - 1].x - lo) / n || 1
  let i = 0
  while (i < traced.length) {
    const end = lo + (Math.floor((traced[i].x - lo) / wide) + 1) * wide
    const from = i
    let sx = 0,
      steps = 0
    const sums = of.map(() => 0)
    while (i < traced.length && (traced[i].x < end || i === from)) {
      const p = traced[i].p
      sx += traced[i].x * p.n
      steps += p.n
      of.forEach((f, k) => (sums[k] += f(p)! * (p.n / p.traced)))
      i++
    }
    xs.push(sx / steps)
    sums.forEach((v, k) => ys[k].push(v / steps))
  }
  return { xs, ys }
}

function build(
  pa: SeriesPhase | null,
  pb: SeriesPhase | null,
  x: Against,
  full: boolean,
  log: boolean,
  theme: Theme,
  names: [string, string],
) {
  const first = (p: SeriesPhase | null) =>
    Math.min(...(p?.steps.length ? p.steps : (p?.partial ?? [])).map((s) => s.start_ns))
  const runs = pb ? [spotsOf(pa, x, first(pa)), spotsOf(pb, x, first(pb))] : [spotsOf(pa, x, first(pa))]
  const all = runs.flat()
  const durs = all.map((s) => whole(s.p))
  const highest = Math.max(...durs, 0)
  const limit = quantile(durs, 0.97) * 1.5
  const cut = !full && highest > limit && durs.length > 8
  const top = cut ? limit : highest
  const unit = unitOf('time', [top])
  const c = partColors(theme)
  const rc = runColors(theme)
  const layers: Layer[] = []
  const at: (Spot[] | null)[] = []
  const of: number[] = []
  let made = ''
  const push = (l: Layer, spots: Spot[] | null, run: number) => {
    layers.push(l)
    at.push(spots)
    of.push(run)
  }
  if (!pb && !log) {
    const parts: [string, string, (p: SeriesStepPoint) => number | null][] = [
      ['attention', c.attn, (p) => p.attn_ns],
      ['weight matmul', c.matmul, (p) => p.matmul_ns],
      ['other operators', c.other, (p) => p.other_ns ?? 0],
    ]
    if (all.some((s) => (s.p.backends_ns ?? 0) > 0))
      parts.push(['graphs on other backends', c.backends, (p) => p.backends_ns])
    parts.push([
      'outside operators, probes',
      c.rest,
      (p) =>
        p.matmul_ns == null
          ? null
          : p.traced_ns - p.matmul_ns - (p.attn_ns ?? 0) - (p.other_ns ?? 0) - (p.backends_ns ?? 0),
    ])
    if (all.some((s) => (s.p.late_ns ?? 0) > 0))
      parts.push([
        'after the call, until its results',
        c.late,
        (p) => (p.late_ns == null ? null : (p.late_ns * p.traced) / p.n),
      ])
    const seen = runs[0].filter(
      (s) => !s.partial && s.p.traced > 0 && parts.every(([, , f]) => f(s.p) != null),
    )
    const bars = seen.length <= 40 && new Set(seen.map((s) => s.x)).size === seen.length
    const s = bars
      ? { xs: seen.map((s) => s.x), ys: parts.map(([, , f]) => seen.map((s) => f(s.p)! / s.p.traced)) }
      : slices(
          runs[0],
          240,
          parts.map(([, , f]) => f),
        )
    made =
      s.xs.length === 0
        ? ''
        : bars
          ? ' Bars: what each was made of; operators without probe overhead.'
          : ' Areas: what they were made of, mean of nearby steps; operators without probe overhead.'
    const base: number[] = s.xs.map(() => 0)
    parts.forEach(([name, color], k) => {
      if (s.xs.length === 0) return
      const lower = [...base]
      s.ys[k].forEach((v, i) => (base[i] += Math.max(0, v)))
      push(
        {
          name,
          color,
          kind: bars ? 'bars' : 'area',
          width: Math.max(4, Math.min(28, 600 / s.xs.length)),
          xs: s.xs,
          ys: [...base],
          base: lower,
          alpha: 0.75,
        },
        null,
        0,
      )
    })
  }
  runs.forEach((spots, run) => {
    const shapes = (['circle', 'triangle'] as const)[run]
    const color = pb ? rc[run] : theme === 'dark' ? '#e4e7eb' : '#1b1f24'
    for (const partial of [false, true]) {
      const mine = spots.filter((s) => s.partial === partial)
      if (mine.length === 0) continue
      const inside = mine.filter((s) => !cut || whole(s.p) <= top)
      const name =
        (pb ? names[run] : mine.some((s) => s.p.n > 1) ? 'steps, some together' : 'one step') +
        (partial ? ', incomplete' : '')
      push(
        {
          name,
          color,
          kind: 'points',
          shape: partial ? 'open-diamond' : shapes,
          size: mine.length > 1000 ? 1.2 : mine.length > 200 ? 1.8 : 2.6,
          xs: inside.map((s) => s.x),
          ys: inside.map((s) => whole(s.p)),
          hover: true,
          alpha: 0.9,
        },
        inside,
        run,
      )
      const over = mine.filter((s) => cut && whole(s.p) > top)
      if (over.length)
        push(
          {
            name: name + ' above the range',
            color,
            kind: 'points',
            shape: 'open-triangle',
            size: 4,
            xs: over.map((s) => s.x),
            ys: over.map(() => top),
            hover: true,
          },
          over,
          run,
        )
    }
  })
  // attention by itself
  const attn: Layer[] = []
  const attnAt: (Spot[] | null)[] = []
  const attnRuns: number[] = []
  const sentences: string[] = []
  const values: number[] = []
  runs.forEach((spots, run) => {
    const mine = spots.filter((s) => !s.partial && s.p.attn_ns != null && s.p.traced > 0)
    if (mine.length === 0 || mine.every((s) => s.p.attn_ns === 0)) return
    const ys = mine.map((s) => s.p.attn_ns! / s.p.traced)
    values.push(...ys)
    const color = pb ? rc[run] : c.attn
    attn.push({
      name: pb ? names[run] : 'attention, per step',
      color,
      kind: 'points',
      shape: run ? 'triangle' : 'circle',
      size: mine.length > 1000 ? 1.2 : 2,
      xs: mine.map((s) => s.x),
      ys,
      hover: true,
    })
    attnAt.push(mine)
    attnRuns.push(run)
    const meds = medians(
      mine.map((s) => s.x),
      ys,
    )
    const fit = line(meds.xs, meds.ys)
    // A line that does not follow the points says nothing, so none is drawn.
    if (fit && fit.r2 < 0.8 && (x === 'pos' || x === 'cells'))
      sentences.push(
        `${pb ? names[run] + ': s' : 'S'}teps differ by more than the position (r² of a straight line ${fit.r2.toFixed(2)}): something else disturbed them`,
      )
    else if (fit && (x === 'pos' || x === 'cells')) {
      const ends = [mine[0].x, mine[mine.length - 1].x]
      attn.push({
        name: 'straight line' + (pb ? ', ' + names[run] : ''),
        color: theme === 'dark' ? '#e4e7eb' : '#1b1f24',
        kind: 'line',
        dash: run ? [2, 3] : [6, 4],
        width: 1.2,
        xs: ends,
        ys: ends.map((v) => fit.a + fit.b * v),
        legend: run === 0,
      })
      attnAt.push(null)
      attnRuns.push(run)
      sentences.push(
        `${pb ? names[run] + ': a' : 'A'} ${x === 'pos' ? 'token more in the cache' : 'cell more'} costs attention ${dur(fit.b)} a step (the slope of a straight line through ${meds.xs.length < mine.length ? `the medians of ${meds.xs.length} slices` : `${meds.xs.length} points`} by least squares, r² ${fit.r2.toFixed(2)})`,
      )
    }
  })
  const limitA = quantile(values, 0.97) * 1.5
  const highA = Math.max(...values, 0)
  const attnTop = !full && highA > limitA && values.length > 8 ? limitA : highA
  const perPoint = Math.max(pa?.steps_per_point ?? 1, pb?.steps_per_point ?? 1)
  return {
    layers,
    at,
    runs: of,
    unit,
    top,
    above: cut ? all.filter((s) => whole(s.p) > top).length : 0,
    attn,
    attnAt,
    attnRuns,
    attnTop,
    attnUnit: unitOf('time', [attnTop]),
    about:
      `${plural(
        all.reduce((n, s) => n + s.p.n, 0),
        'step',
      )}.` +
      made +
      (perPoint > 1
        ? ` The run is long: a point stands for up to ${perPoint} steps in succession and is drawn at their mean.`
        : '') +
      (cut ? ' The highest steps are cut off and marked at the upper edge.' : ''),
    growth: sentences.length
      ? sentences.join('. ') + '.'
      : 'Scores, softmax and values (FLASH_ATTN_EXT, or one by one), without the weight matmul.',
  }
}

/** Points in order as the medians of 64 slices along x, so that a few disturbed steps do not bend a line. */
function medians(xs: number[], ys: number[]): { xs: number[]; ys: number[] } {
  if (xs.length <= 128) return { xs, ys }
  const out = { xs: [] as number[], ys: [] as number[] }
  const lo = xs[0]
  const wide = (xs[xs.length - 1] - lo) / 64 || 1
  for (let i = 0; i < xs.length;) {
    const from = i
    const slice = Math.min(63, Math.floor((xs[i] - lo) / wide))
    while (i < xs.length && Math.min(63, Math.floor((xs[i] - lo) / wide)) === slice) i++
    out.xs.push(median(xs.slice(from, i)))
    out.ys.push(median(ys.slice(from, i)))
  }
  return out
}

/** The straight line with the least squared distance; null where there is none. */
export function line(xs: number[], ys: number[]): { a: number; b: number; r2: number } | null {
  const n = xs.length
  if (n < 8) return null
  const mx = xs.reduce((s, v) => s + v, 0) / n
  const my = ys.reduce((s, v) => s + v, 0) / n
  let xx = 0,
    xy = 0,
    yy = 0
  for (let i = 0; i < n; i++) {
    xx += (xs[i] - mx) ** 2
    xy += (xs[i] - mx) * (ys[i] - my)
    yy += (ys[i] - my) ** 2
  }
  if (xx === 0 || yy === 0) return null
  return { a: my - (xy / xx) * mx, b: xy / xx, r2: (xy * xy) / (xx * yy) }
}

/** The slowest steps, as links. */
function Slow({
  ctx,
  pa,
  pb,
  names,
  pick,
}: {
  ctx: TabContext
  pa: SeriesPhase | null
  pb: SeriesPhase | null
  names: [string, string]
  pick: (run: number, p: SeriesStepPoint) => void
}) {
  return (
    <section>
      <h2>Slowest steps</h2>
      <div class="columns">
        {[pa, pb].map(
          (p, run) =>
            p &&
            p.slowest.length > 0 && (
              <table class="grid" key={run} aria-label={`slowest steps ${names[run]}`}>
                <thead>
                  <tr>
                    <th class="text">{ctx.b ? names[run] : 'step'}</th>
                    <th>duration</th>
                    <th>vs mean</th>
                    <th>position</th>
                    <th>barrier wait</th>
                    <th>off-CPU</th>
                  </tr>
                </thead>
                <tbody>
                  {p.slowest.slice(0, 8).map((s) => {
                    const mean =
                      p.steps.reduce((n, x) => n + whole(x) * x.n, 0) / p.steps.reduce((n, x) => n + x.n, 0)
                    const all = s.busy_ns == null ? 0 : s.busy_ns + s.wait_ns! + s.off_cpu_ns!
                    return (
                      <tr key={s.id} class="can" data-id={s.id} onClick={() => pick(run, s)}>
                        <td class="text">
                          <a href={stepLink(ctx, run, s.id)}>step {s.id}</a>
                        </td>
                        <td data-col="dur_ns">
                          <Fig v={whole(s)} f={dur} />
                        </td>
                        <td>{delta(mean, whole(s))}</td>
                        <td>
                          <Fig v={s.pos} f={count} />
                        </td>
                        <td>
                          <Fig v={all > 0 ? s.wait_ns! / all : null} f={share} />
                        </td>
                        <td>
                          <Fig
                            v={
                              all > 0 && (run ? ctx.b! : ctx.a).stats.weight.has_off_cpu
                                ? s.off_cpu_ns! / all
                                : null
                            }
                            f={share}
                          />
                        </td>
                      </tr>
                    )
                  })}
                </tbody>
              </table>
            ),
        )}
      </div>
    </section>
  )
}
