// SPDX-License-Identifier: Apache-2.0

// Requests over time: a row a sequence, prompts and answers as bars. Zoom and keys are those of the plots.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { ink } from '../../../lib/color'
import { count, dur, plural } from '../../../lib/format'
import { partColors, phaseColors, seriesColor } from '../../../lib/palette'
import { axisFmt, unitOf } from '../../../lib/units'
import { Swatch } from '../../../ui/plot-legend'
import { go } from '../../../ui/route'
import { useTheme } from '../../../ui/theme'
import { useSectionsIfAny } from '../../../ui/use-section'
import { modelName, type TabContext } from '../context'
import { drawnLanes, timelineRange, visibleSpans, type SpanKind, type Lane, type RequestSpan } from './layout'
import { describeRequest, type RequestsOfRun } from './side'

const row = 20
const left = 104
const right = 12
/** Lanes that are drawn before somebody asks for all. */
const most = 40

export function Lanes({ sides, ctx }: { sides: RequestsOfRun[]; ctx: TabContext }) {
  const t = useTheme() === 'dark' ? 1 : 0
  // One scale for both, so that lengths compare.
  const { lanes, start, end } = useMemo(() => drawnLanes(sides), [ctx.a, ctx.b])
  const [range, setRange] = useState<[number, number] | null>(null)
  const colors = useMemo((): Record<SpanKind, string> => {
    return {
      prompt: phaseColors[1][t],
      answer: phaseColors[2][t],
      unknown: partColors(t ? 'dark' : 'light').rest,
      warmup: seriesColor(t ? 'dark' : 'light', 6),
    }
  }, [t])
  const has = (k: SpanKind) => lanes.some((l) => l.some((x) => x.spans.some((s) => s.kind === k)))
  return (
    <section>
      <h2>Requests over time</h2>
      <div class="legend">
        {has('prompt') && <Swatch shape="area" color={colors.prompt} name="prompt: to the first token" />}
        {has('answer') && (
          <Swatch shape="area" color={colors.answer} name="answer: to the end of its last step" />
        )}
        {has('unknown') && <Swatch shape="area" color={colors.unknown} name="begin not seen" />}
        {has('warmup') && <Swatch shape="line" color={colors.warmup} name="warm-up" />}
      </div>
      {sides.map((s, i) => (
        <Chart
          key={s.index}
          side={s}
          lanes={lanes[i]}
          ctx={ctx}
          colors={colors}
          lo={range?.[0] ?? start}
          hi={range?.[1] ?? end}
          zoomed={range != null}
          onZoom={setRange}
        />
      ))}
    </section>
  )
}

interface ChartProps {
  side: RequestsOfRun
  lanes: Lane[]
  ctx: TabContext
  colors: Record<SpanKind, string>
  lo: number
  hi: number
  zoomed: boolean
  onZoom: (r: [number, number] | null) => void
}

function Chart({ side, lanes, ctx, colors, lo, hi, zoomed, onZoom }: ChartProps) {
  const box = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(900)
  const [all, setAll] = useState(false)
  const [at, setAt] = useState<[lane: number, span: number] | null>(null)
  const [drag, setDrag] = useState<[number, number] | null>(null)
  useEffect(() => {
    const el = box.current
    if (!el) return
    const size = () => el.clientWidth > 0 && setWidth(el.clientWidth)
    size()
    const o = new ResizeObserver(size)
    o.observe(el)
    return () => o.disconnect()
  }, [])
  const index = useSectionsIfAny('time', [side.run]).data?.[0]
  const origin = index ? Number(index.start_ns) : null

  const shown = useMemo(() => (all ? lanes : lanes.slice(0, most)), [all, lanes])
  const plain = Math.max(60, width - left - right)
  const places: number[] = []
  let height = 4
  for (const l of shown) {
    if (l.context != null) height += row
    places.push(height)
    height += row
  }
  const u = unitOf('time', [hi])
  const fmt = axisFmt(u)
  const X = (v: number) => left + ((v - lo) / Math.max(hi - lo, 1)) * plain
  const T = (x: number) => lo + ((x - left) / plain) * (hi - lo)
  const span = at && shown[at[0]]?.spans[at[1]]
  const selected = ctx.params.sel

  /** ProfTime at a place, or at the request's first step where the recording's timeline has no origin. */
  const open = (s: RequestSpan, t: number) => {
    const runs =
      ctx.b && side.index === 1
        ? { run: ctx.b.index, with: ctx.a.index }
        : { run: ctx.params.run, with: ctx.params.with }
    if (origin == null) return go('time', { ...runs, step: s.r.step })
    const shift = side.begin - origin
    const [t0, t1] = timelineRange(s, t)
    go('time', { ...runs, t0: Math.round(t0 + shift), t1: Math.round(t1 + shift) })
  }
  const find = (e: MouseEvent): [number, number] | null => {
    const b = box.current!.getBoundingClientRect()
    const x = e.clientX - b.left
    const y = e.clientY - b.top
    const lane = places.findIndex((p) => y >= p && y < p + row)
    if (lane < 0) return null
    const t = T(x)
    const reach = ((hi - lo) / plain) * 3
    let best = -1
    let least = reach
    shown[lane].spans.forEach((s, i) => {
      const d = t < s.from ? s.from - t : t > s.to ? t - s.to : 0
      if (d === 0 && (best < 0 || least > 0 || s.from > shown[lane].spans[best].from))
        ((best = i), (least = 0))
      else if (d < least) ((best = i), (least = d))
    })
    return best < 0 ? null : [lane, best]
  }
  const key = (e: KeyboardEvent) => {
    const step = (d: number) => {
      const l = at ? at[0] : 0
      const n = shown[l].spans.length
      setAt([l, at ? Math.max(0, Math.min(n - 1, at[1] + d)) : 0])
    }
    const lane = (d: number) => {
      if (!at) return setAt([0, 0])
      const l = Math.max(0, Math.min(shown.length - 1, at[0] + d))
      const t = shown[at[0]].spans[at[1]].from
      const list = shown[l].spans
      let best = 0
      list.forEach((s, i) => Math.abs(s.from - t) < Math.abs(list[best].from - t) && (best = i))
      setAt([l, best])
    }
    if (e.key === 'ArrowRight') step(1)
    else if (e.key === 'ArrowLeft') step(-1)
    else if (e.key === 'ArrowDown') lane(1)
    else if (e.key === 'ArrowUp') lane(-1)
    else if (e.key === 'Home') setAt([at?.[0] ?? 0, 0])
    else if (e.key === 'End') setAt([at?.[0] ?? 0, shown[at?.[0] ?? 0].spans.length - 1])
    else if (e.key === 'Enter' && span) open(span, (span.from + span.to) / 2)
    else if (e.key === ' ' && span && !span.r.warmup)
      ctx.set({ sel: selected === span.key ? undefined : span.key }, true)
    else if (e.key === 'Escape') onZoom(null)
    else return
    e.preventDefault()
    e.stopPropagation()
  }
  const down = (e: PointerEvent) => {
    if (e.button !== 0) return
    const el = e.currentTarget as HTMLElement
    const b = el.getBoundingClientRect()
    const x0 = e.clientX - b.left
    el.setPointerCapture(e.pointerId)
    const place = (m: PointerEvent) => Math.max(left, Math.min(left + plain, m.clientX - b.left))
    const move = (m: PointerEvent) =>
      Math.abs(m.clientX - b.left - x0) > 3 && setDrag([Math.max(left, x0), place(m)])
    const up = (m: PointerEvent) => {
      el.removeEventListener('pointermove', move)
      el.removeEventListener('pointerup', up)
      el.removeEventListener('pointercancel', up)
      setDrag(null)
      if (m.type === 'pointercancel') return
      if (Math.abs(m.clientX - b.left - x0) > 3) {
        const [p, q] = [T(Math.max(left, x0)), T(place(m))].sort((p, q) => p - q)
        if (q - p > 1000) onZoom([p, q])
        return
      }
      const f = find(m)
      if (f) open(shown[f[0]].spans[f[1]], T(x0))
    }
    el.addEventListener('pointermove', move)
    el.addEventListener('pointerup', up)
    el.addEventListener('pointercancel', up)
  }
  const ticks = ticksOf(lo, hi, Math.max(2, Math.floor(plain / 90)))
  // All but what follows the pointer: a long run has thousands of bars.
  const bars = useMemo(
    () => (
      <>
        {ticks.map((v) => (
          <line key={v} x1={X(v)} x2={X(v)} y1={0} y2={height} class="grid" />
        ))}
        {shown.map((l, i) => (
          <g key={l.key} data-lane={l.seq}>
            {l.context != null && (
              <text x={2} y={places[i] - 6} class="head">
                {modelName(side.run, l.model)}
              </text>
            )}
            <text x={left - 8} y={places[i] + 14} class="t end">
              {l.seq < 1e6 ? `sequence ${count(l.seq)}` : `seq ${l.seq}`}
            </text>
            <line
              x1={left}
              x2={left + plain}
              y1={places[i] + row - 1}
              y2={places[i] + row - 1}
              class="grid"
            />
            {visibleSpans(l.spans, lo, hi, plain).map(({ s, x0, x1 }, k) => (
              <Bar
                key={k}
                s={s}
                x={left + x0}
                w={x1 - x0}
                y={places[i]}
                color={colors[s.kind]}
                marked={selected !== undefined && s.key === selected}
              />
            ))}
          </g>
        ))}
      </>
    ),
    [shown, lo, hi, plain, colors, selected],
  )
  const text = span
    ? `${describeRequest(span.r)}; ${span.kind === 'unknown' ? '' : span.kind + ' '}from ${dur(span.from)}, ${dur(span.to - span.from)}`
    : ''
  return (
    <figure class="plot lanes" data-plot="lanes" data-points={lanes.reduce((n, l) => n + l.spans.length, 0)}>
      {side.name && (
        <figcaption>
          <h3>{side.name}</h3>
        </figcaption>
      )}
      <div class="legend">
        <span class="readout" aria-live="polite">
          {text || (
            <span class="dim">
              click or Enter: ProfTime at that time; arrow keys read requests, the space bar marks one in the
              table; drag zooms, double click or Esc resets
            </span>
          )}
        </span>
      </div>
      <div
        class="lane-box"
        ref={box}
        tabIndex={0}
        role="img"
        onKeyDown={key}
        onPointerDown={down}
        onDblClick={() => onZoom(null)}
        onPointerMove={(e) => !drag && setAt(find(e))}
        onPointerLeave={() => setAt(null)}
        aria-label={`requests over time: ${plural(side.list.length, 'request')} on ${plural(lanes.length, 'sequence')}, ${dur(hi - lo)}${zoomed ? ' of them shown' : ''}`}
      >
        <svg class="chart" width={width} height={height + 38}>
          {bars}
          {span && at && span.to >= lo && span.from <= hi && (
            <Bar
              s={span}
              x={Math.max(left, X(span.from))}
              w={Math.max(1.5, Math.min(left + plain, X(span.to)) - Math.max(left, X(span.from)))}
              y={places[at[0]]}
              color="none"
              at
            />
          )}
          <line x1={left} x2={left + plain} y1={height} y2={height} class="ax" />
          {ticks.map((v) => (
            <g key={v}>
              <line x1={X(v)} x2={X(v)} y1={height} y2={height + 4} class="ax" />
              <text x={X(v)} y={height + 16} class="t mid">
                {fmt(v)}
              </text>
            </g>
          ))}
          <text x={left + plain / 2} y={height + 31} class="t mid">
            {u.name} after the first request’s begin
          </text>
          {drag && (
            <rect
              class="drag"
              x={Math.min(...drag)}
              y={0}
              width={Math.abs(drag[1] - drag[0])}
              height={height}
            />
          )}
        </svg>
      </div>
      {lanes.length > shown.length && (
        <button class="more" onClick={() => setAll(true)}>
          show all {count(lanes.length)} sequences
        </button>
      )}
      {zoomed && (
        <button class="more" onClick={() => onZoom(null)}>
          show all of the time
        </button>
      )}
    </figure>
  )
}

/** One span. A prompt's bar is higher than an answer's, so that they are told apart without colours. */
function Bar({
  s,
  x,
  y,
  w,
  color,
  marked,
  at,
}: {
  s: RequestSpan
  x: number
  y: number
  w: number
  color: string
  marked?: boolean
  at?: boolean
}) {
  const small = s.kind === 'warmup'
  const [top, h] = small ? [y + 8, 4] : s.kind === 'prompt' ? [y + 2, row - 5] : [y + 4, row - 9]
  const name = s.kind !== 'prompt' && !small && !at ? String(s.r.id) : ''
  return (
    <g>
      <rect
        x={x}
        y={top}
        width={w}
        height={h}
        fill={color}
        class={marked ? 'marked' : at ? 'at' : ''}
        stroke-dasharray={s.kind === 'unknown' && !at ? '3 2' : undefined}
      />
      {name && w > 8 + name.length * 7 && (
        <text x={x + 4} y={y + 14} class="id" style={{ fill: ink(color) }}>
          {name}
        </text>
      )}
    </g>
  )
}

/** Round times between lo and hi. */
function ticksOf(lo: number, hi: number, n: number): number[] {
  const step = 10 ** Math.floor(Math.log10(Math.max(1, (hi - lo) / n)))
  const wide = [1, 2, 5, 10].map((m) => m * step).find((s) => (hi - lo) / s <= n) ?? 10 * step
  const out: number[] = []
  for (let v = Math.ceil(lo / wide) * wide; v <= hi; v += wide) out.push(v)
  return out
}
