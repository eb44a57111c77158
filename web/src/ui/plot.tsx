// SPDX-License-Identifier: Apache-2.0

// An x/y plot: uPlot has scales, axes, cursor and zoom, the layers are drawn here. What lies under the
// pointer or was reached with the arrow keys is read out in a line above the plot.
import 'uplot/dist/uPlot.min.css'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import { Swatch, type Shape } from './plot-legend'
import { drawNotes, type Note } from './plot-notes'
import { cssVar, useTheme } from './theme'

export type { Note }

export interface PlotAxis {
  label: string
  /** How a value stands at the axis, without the unit that the label has. */
  fmt: (v: number) => string
  log?: boolean
  /** A linear axis begins at 0. */
  zero?: boolean
  /** Where the axis ends, if not with the data. */
  max?: number
  /** Only whole numbers. */
  whole?: boolean
  /** Ticks of a logarithmic axis at powers of 2, for bytes. */
  binary?: boolean
}

export interface Layer {
  name: string
  color: string
  kind: 'line' | 'area' | 'points' | 'bars'
  xs: ArrayLike<number>
  ys: ArrayLike<number | null>
  /** Lower end of an area or bar; without it 0. */
  base?: ArrayLike<number | null>
  shape?: Shape
  size?: number
  /** Sizes of the points, in place of one for all. */
  sizes?: ArrayLike<number>
  width?: number
  dash?: number[]
  alpha?: number
  /** Names beside the points, where there is room. */
  names?: ArrayLike<string>
  /** Its points can be read out. */
  hover?: boolean
  legend?: boolean
}

/** A straight line or curve for orientation, with a name at its end. */
export interface Guide {
  label: string
  f: (x: number) => number
}

interface Props {
  title: string
  /** What the plot shows, in words: for whoever does not see it, and below the title for whoever does. */
  about: ComponentChildren
  x: PlotAxis
  y: PlotAxis
  layers: Layer[]
  guides?: Guide[]
  notes?: Note[]
  readout: (layer: number, i: number) => string
  onPick?: (layer: number, i: number) => void
  pick?: string
  height?: number
  marked?: { layer: number; i: number }
  id: string
}

interface Spot {
  layer: number
  i: number
  x: number
  y: number
}

/** The plot as it is, for handlers that outlive a drawing. */
interface Now {
  props: Props
  spots: Spot[]
  at: number
}

/** Ticks of a logarithmic axis: [where, whether it is written]. */
function logTicks(lo: number, hi: number, binary: boolean): Map<number, boolean> {
  const out = new Map<number, boolean>()
  if (!(lo > 0) || !Number.isFinite(hi)) return out
  if (binary) {
    const span = Math.log2(hi / lo)
    const every = span > 24 ? 6 : span > 12 ? 4 : 2
    for (let e = Math.ceil(Math.log2(lo)); e <= Math.log2(hi); e++)
      if (e % 2 === 0 || every === 2) out.set(2 ** e, e % every === 0)
    return out
  }
  const span = Math.log10(hi / lo)
  const written = span > 2.2 ? [1] : span > 1.2 ? [1, 3] : [1, 2, 3, 5, 7]
  for (let d = 10 ** Math.floor(Math.log10(lo)); d <= hi; d *= 10) {
    for (let m = 1; m < 10; m++)
      if (d * m >= lo && d * m <= hi)
        out.set(d * m, written.includes(m) && !(span > 8 && Math.round(Math.log10(d)) % 2))
  }
  return out
}

export function Plot(props: Props) {
  const { title, about, layers, x, y, height = 300, id } = props
  const theme = useTheme()
  const box = useRef<HTMLDivElement>(null)
  const now = useRef<Now>({ props, spots: [], at: -1 })
  const plot = useRef<uPlot | null>(null)
  const [text, setText] = useState('')
  now.current.props = props

  useEffect(() => {
    const el = box.current
    if (!el) return
    const { spots, data } = prepare(layers, x, y)
    now.current.spots = spots
    now.current.at = -1
    setText('')
    const show = (at: number) => {
      now.current.at = at
      const s = now.current.spots[at]
      setText(s ? now.current.props.readout(s.layer, s.i) : '')
      ring(plot.current, s)
    }
    const u = new uPlot(
      options(el, height, x, y, data, () => now.current.props),
      data.table,
      el,
    )
    plot.current = u
    const pointer = (e: PointerEvent) => show(nearest(u, now.current.spots, e.offsetX, e.offsetY))
    let down: { x: number; y: number } | null = null
    u.over.addEventListener('pointermove', pointer)
    u.over.addEventListener('pointerleave', () => show(-1))
    u.over.addEventListener('pointerdown', (e) => (down = { x: e.clientX, y: e.clientY }))
    u.over.addEventListener('click', (e) => {
      if (down && Math.hypot(e.clientX - down.x, e.clientY - down.y) > 3) return // it was a zoom
      const s = now.current.spots[now.current.at]
      if (s) now.current.props.onPick?.(s.layer, s.i)
    })
    const key = (e: KeyboardEvent) => {
      const n = now.current
      if (e.key === 'ArrowRight' || e.key === 'ArrowLeft')
        show(
          Math.max(0, Math.min(n.spots.length - 1, n.at < 0 ? 0 : n.at + (e.key === 'ArrowRight' ? 1 : -1))),
        )
      else if (e.key === 'Home') show(0)
      else if (e.key === 'End') show(n.spots.length - 1)
      else if (e.key === 'Enter' && n.spots[n.at]) n.props.onPick?.(n.spots[n.at].layer, n.spots[n.at].i)
      else if (e.key === 'Escape') u.setScale('x', { min: data.x[0], max: data.x[1] })
      else return
      e.preventDefault()
      e.stopPropagation()
    }
    el.addEventListener('keydown', key)
    const resized = new ResizeObserver(() => {
      if (el.clientWidth > 0 && el.clientWidth !== u.width) u.setSize({ width: el.clientWidth, height })
    })
    resized.observe(el)
    return () => {
      resized.disconnect()
      el.removeEventListener('keydown', key)
      plot.current = null
      u.destroy()
    }
  }, [layers, theme, height, x.label, x.log, x.max, y.label, y.log, y.max])

  useEffect(
    () => plot.current?.redraw(false),
    [props.marked?.i, props.marked?.layer, props.guides, props.notes],
  )

  return (
    <figure
      class="plot"
      data-plot={id}
      data-points={layers.reduce((n, l) => n + (l.hover ? l.xs.length : 0), 0)}
    >
      <figcaption>
        <h3>{title}</h3>
        <p class="dim">{about}</p>
      </figcaption>
      <div class="legend">
        {layers.map(
          (l) =>
            l.legend !== false && (
              <Swatch
                key={l.name}
                color={l.color}
                shape={l.kind === 'points' ? (l.shape ?? 'circle') : l.kind === 'line' ? 'line' : 'area'}
                name={l.name}
              />
            ),
        )}
        <span class="readout" aria-live="polite">
          {text || (
            <span class="dim">
              {props.onPick ? `click or Enter: ${props.pick}; ` : ''}arrow keys read points; drag zooms,
              double click or Esc resets
            </span>
          )}
        </span>
      </div>
      <div
        class="plot-box"
        ref={box}
        tabIndex={0}
        role="img"
        aria-label={`${title}. ${typeof about === 'string' ? about : ''}`}
      />
    </figure>
  )
}

/** All points that can be read out, by x, and the range of everything. */
function prepare(layers: Layer[], x: PlotAxis, y: PlotAxis) {
  const spots: Spot[] = []
  let x0 = Infinity,
    x1 = -Infinity,
    y0 = Infinity,
    y1 = -Infinity
  layers.forEach((l, layer) => {
    for (let i = 0; i < l.xs.length; i++) {
      const px = l.xs[i]
      const py = l.ys[i]
      if (
        py == null ||
        !Number.isFinite(px) ||
        !Number.isFinite(py) ||
        (x.log && px <= 0) ||
        (y.log && py <= 0)
      )
        continue
      x0 = Math.min(x0, px)
      x1 = Math.max(x1, px)
      y0 = Math.min(y0, py)
      y1 = Math.max(y1, py)
      const b = l.base?.[i]
      if (b != null && (!y.log || b > 0)) y0 = Math.min(y0, b)
      if (l.hover) spots.push({ layer, i, x: px, y: py })
    }
  })
  spots.sort((a, b) => a.x - b.x || a.layer - b.layer)
  // Without a point there is an axis none the less; a logarithmic one has no 0.
  if (x0 > x1) [x0, x1, y0, y1] = [x.log ? 1 : 0, 10, y.log ? 1 : 0, 10]
  const pad = (lo: number, hi: number, a: PlotAxis): [number, number] => {
    if (a.log) return [lo / 1.6, hi * 1.6]
    if (a.max !== undefined) hi = a.max
    const room = a.whole && hi - lo < 25 ? 0.6 : (hi - lo || Math.abs(hi) || 1) * 0.04
    return [a.zero ? 0 : lo - room, hi + room]
  }
  const xr = pad(x0, x1, x)
  const yr = pad(y0, y1, y)
  return { spots, data: { x: xr, y: yr, table: [xr, yr] as uPlot.AlignedData } }
}

function options(
  el: HTMLElement,
  height: number,
  x: PlotAxis,
  y: PlotAxis,
  data: { x: [number, number]; y: [number, number] },
  props: () => Props,
): uPlot.Options {
  const fg = cssVar('--dim')
  const grid = { stroke: cssVar('--grid'), width: 1 }
  const ticks = { stroke: cssVar('--line'), width: 1, size: 4 }
  const font = '11px ' + cssVar('--sans')
  const axis = (a: PlotAxis, side: 2 | 3): uPlot.Axis => {
    const one: uPlot.Axis = {
      side,
      label: a.label,
      labelFont: font,
      font,
      stroke: fg,
      grid,
      ticks,
      labelGap: 2,
      labelSize: 18,
      size: side === 3 ? 48 : 26,
      space: side === 3 ? 34 : 60,
      values: (_u, splits) => splits.map((v) => (v == null ? '' : a.fmt(v))),
    }
    if (a.whole)
      one.incrs = [1, 2, 5]
        .flatMap((m) => [m, m * 10, m * 100, m * 1e3, m * 1e4, m * 1e5, m * 1e6, m * 1e7, m * 1e8])
        .sort((p, q) => p - q)
    if (a.log) {
      one.splits = (_u, _i, lo, hi) => [...logTicks(lo, hi, !!a.binary).keys()]
      one.filter = (_u, splits) => splits
      one.values = (u, splits) => {
        const { min, max } = u.scales[side === 3 ? 'y' : 'x']
        const written = logTicks(min!, max!, !!a.binary)
        return splits.map((v) => (written.get(v) ? a.fmt(v) : ''))
      }
    }
    return one
  }
  return {
    width: Math.max(200, el.clientWidth),
    height,
    legend: { show: false },
    padding: [8, 16, 0, 0],
    cursor: { points: { show: false }, y: false, drag: { x: true, y: false, setScale: true } },
    scales: {
      x: { time: false, distr: x.log ? 3 : 1, range: (_u, min, max) => [min, max] },
      y: { distr: y.log ? 3 : 1, range: () => data.y },
    },
    axes: [axis(x, 2), axis(y, 3)],
    series: [{}, { scale: 'y', show: true, paths: () => null, points: { show: false } }],
    hooks: { draw: [(u) => draw(u, props())], setScale: [(u) => ring(u, undefined)] },
  }
}

function draw(u: uPlot, p: Props): void {
  const { ctx, bbox } = u
  ctx.save()
  ctx.beginPath()
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height)
  ctx.clip()
  const px = devicePixelRatio || 1
  const X = (v: number) => u.valToPos(v, 'x', true)
  const Y = (v: number) => u.valToPos(v, 'y', true)
  const labels: Box[] = []
  for (const g of p.guides ?? []) guide(u, g, px, labels)
  for (const l of p.layers) {
    ctx.globalAlpha = l.alpha ?? 1
    ctx.fillStyle = ctx.strokeStyle = l.color
    if (l.kind === 'area') area(u, l, X, Y)
    else if (l.kind === 'line') line(u, l, X, Y, px)
    else if (l.kind === 'bars') {
      ctx.lineWidth = (l.width ?? 1) * px
      for (let i = 0; i < l.xs.length; i++) {
        const y = l.ys[i]
        if (y == null) continue
        ctx.beginPath()
        ctx.moveTo(X(l.xs[i]), Y(l.base?.[i] ?? 0))
        ctx.lineTo(X(l.xs[i]), Y(y))
        ctx.stroke()
      }
    } else
      for (let i = 0; i < l.xs.length; i++) {
        const y = l.ys[i]
        if (y != null && l.xs[i] >= u.scales.x.min! && l.xs[i] <= u.scales.x.max!)
          drawMark(ctx, l.shape ?? 'circle', X(l.xs[i]), Y(y), radius(l, i) * px, px)
      }
  }
  ctx.globalAlpha = 1
  if (p.notes) drawNotes(u, p.notes, px, labels, spots(p.layers, X, Y, px))
  names(u, p.layers, X, Y, px, labels)
  const m = p.marked
  const at = m && p.layers[m.layer]
  if (m && at && at.ys[m.i] != null) {
    ctx.strokeStyle = cssVar('--fg')
    ctx.lineWidth = 1.5 * px
    ctx.beginPath()
    ctx.arc(X(at.xs[m.i]), Y(at.ys[m.i]!), Math.max(7, radius(at, m.i) + 3) * px, 0, 7)
    ctx.stroke()
  }
  ctx.restore()
}

function line(u: uPlot, l: Layer, X: (v: number) => number, Y: (v: number) => number, px: number): void {
  const { ctx } = u
  ctx.lineWidth = (l.width ?? 1.5) * px
  ctx.setLineDash((l.dash ?? []).map((d) => d * px))
  ctx.beginPath()
  let pen = false
  for (let i = 0; i < l.xs.length; i++) {
    const y = l.ys[i]
    if (y == null) {
      pen = false
      continue
    }
    if (pen) ctx.lineTo(X(l.xs[i]), Y(y))
    else ctx.moveTo(X(l.xs[i]), Y(y))
    pen = true
  }
  ctx.stroke()
  ctx.setLineDash([])
}

function area(u: uPlot, l: Layer, X: (v: number) => number, Y: (v: number) => number): void {
  const { ctx } = u
  let from = 0
  const close = (to: number) => {
    for (let k = to - 1; k >= from; k--) ctx.lineTo(X(l.xs[k]), Y(l.base?.[k] ?? 0))
    ctx.closePath()
    ctx.fill()
  }
  let open = false
  for (let i = 0; i < l.xs.length; i++) {
    const y = l.ys[i]
    if (y == null) {
      if (open) close(i)
      open = false
      continue
    }
    if (!open) {
      ctx.beginPath()
      ctx.moveTo(X(l.xs[i]), Y(l.base?.[i] ?? 0))
      from = i
      open = true
    }
    ctx.lineTo(X(l.xs[i]), Y(y))
  }
  if (open) close(l.xs.length)
}

const radius = (l: Layer, i: number): number => l.sizes?.[i] ?? l.size ?? 3

type Box = [left: number, top: number, right: number, bottom: number]

/**
 * From so many points on, names keep more room around them: fewer are written, the others are told by
 * pointing.
 */
const crowd = 30

/** Where the points are that have names. */
function spots(layers: Layer[], X: (v: number) => number, Y: (v: number) => number, px: number): Box[] {
  const out: Box[] = []
  for (const l of layers) {
    for (let i = 0; l.names && i < l.xs.length; i++) {
      const r = radius(l, i) * px
      if (l.ys[i] != null) out.push([X(l.xs[i]) - r, Y(l.ys[i]!) - r, X(l.xs[i]) + r, Y(l.ys[i]!) + r])
    }
  }
  return out
}

/**
 * Writes names beside points, in the order of the layers, as far as none lies on another name, a point or a
 * guide's label.
 */
function names(
  u: uPlot,
  layers: Layer[],
  X: (v: number) => number,
  Y: (v: number) => number,
  px: number,
  labels: Box[],
): void {
  const { ctx, bbox } = u
  ctx.textAlign = 'left'
  ctx.textBaseline = 'alphabetic'
  const taken: Box[] = [...labels, ...spots(layers, X, Y, px)]
  const room = layers.reduce((n, l) => n + (l.names ? l.xs.length : 0), 0) > crowd ? 12 * px : 2 * px
  const free = (a: number, b: number, c: number, d: number) =>
    taken.every(([e, f, g, h]) => c < e || a > g || d < f || b > h)
  ctx.font = `${10.5 * px}px ${cssVar('--sans')}`
  ctx.fillStyle = cssVar('--fg')
  for (const l of layers) {
    for (let i = 0; l.names && i < l.xs.length; i++) {
      if (l.ys[i] == null) continue
      const text = l.names[i].length > 22 ? l.names[i].slice(0, 21) + '…' : l.names[i]
      const w = ctx.measureText(text).width
      const x = X(l.xs[i])
      const y = Y(l.ys[i]!)
      const h = 11 * px
      const gap = (l.sizes ? radius(l, i) + 3 : 7) * px
      for (const [a, b] of [
        [x + gap, y + h / 2 - px],
        [x - gap - w, y + h / 2 - px],
        [x - w / 2, y - gap],
        [x - w / 2, y + gap + h],
      ]) {
        if (
          a < bbox.left ||
          a + w > bbox.left + bbox.width ||
          b - h < bbox.top ||
          b > bbox.top + bbox.height ||
          !free(a, b - h, a + w, b)
        )
          continue
        taken.push([a - room, b - h - room / 2, a + w + room, b + room / 2])
        ctx.fillText(text, a, b - px)
        break
      }
    }
  }
}

export function drawMark(
  ctx: CanvasRenderingContext2D,
  shape: Shape,
  x: number,
  y: number,
  r: number,
  px: number,
): void {
  ctx.beginPath()
  switch (shape) {
    case 'square':
    case 'open-square':
      ctx.rect(x - r * 0.9, y - r * 0.9, 1.8 * r, 1.8 * r)
      break
    case 'triangle':
    case 'open-triangle':
      ctx.moveTo(x, y - 1.2 * r)
      ctx.lineTo(x + 1.1 * r, y + 0.8 * r)
      ctx.lineTo(x - 1.1 * r, y + 0.8 * r)
      ctx.closePath()
      break
    case 'diamond':
    case 'open-diamond':
      ctx.moveTo(x, y - 1.25 * r)
      ctx.lineTo(x + 1.25 * r, y)
      ctx.lineTo(x, y + 1.25 * r)
      ctx.lineTo(x - 1.25 * r, y)
      ctx.closePath()
      break
    default:
      ctx.arc(x, y, r, 0, 7)
  }
  if (shape.startsWith('open')) {
    ctx.lineWidth = 1.4 * px
    ctx.stroke()
  } else ctx.fill()
}

/** Draws a guide and its label, unless that lies on another's; adds the label's place. */
function guide(u: uPlot, g: Guide, px: number, labels: Box[]): void {
  const { ctx, bbox } = u
  const { min, max } = u.scales.x
  if (min == null || max == null) return
  ctx.strokeStyle = cssVar('--line')
  ctx.fillStyle = cssVar('--dim')
  ctx.lineWidth = px
  ctx.setLineDash([4 * px, 4 * px])
  ctx.beginPath()
  const steps = 40
  let end: [number, number] | null = null
  for (let i = 0; i <= steps; i++) {
    const x = u.scales.x.distr === 3 ? min * (max / min) ** (i / steps) : min + ((max - min) * i) / steps
    const a = u.valToPos(x, 'x', true)
    const b = u.valToPos(g.f(x), 'y', true)
    if (i === 0) ctx.moveTo(a, b)
    else ctx.lineTo(a, b)
    if (b > bbox.top + 12 * px && b < bbox.top + bbox.height - 14 * px && a < bbox.left + bbox.width - 4 * px)
      end = [a, b]
  }
  ctx.stroke()
  ctx.setLineDash([])
  if (!end) return
  ctx.textAlign = 'left'
  ctx.textBaseline = 'alphabetic'
  ctx.font = `${10.5 * px}px ${cssVar('--sans')}`
  const w = ctx.measureText(g.label).width
  const left = Math.max(bbox.left + 2 * px, end[0] - w - 4 * px)
  const box: Box = [left, end[1] - 14 * px, left + w, end[1]]
  if (labels.some(([a, b, c, d]) => box[2] > a && box[0] < c && box[3] > b && box[1] < d)) return
  labels.push(box)
  ctx.fillText(g.label, left, end[1] - 3 * px)
}

/** The point nearest to a place of the plot, within reach; -1 if there is none. */
function nearest(u: uPlot, spots: Spot[], left: number, top: number): number {
  let best = -1
  let least = 40 ** 2
  for (let i = 0; i < spots.length; i++) {
    const dx = u.valToPos(spots[i].x, 'x') - left
    if (dx * dx >= least) continue
    const dy = u.valToPos(spots[i].y, 'y') - top
    // Along x one looks for a value, along y for a series.
    const d = dx * dx + 0.25 * dy * dy
    if (d < least) {
      least = d
      best = i
    }
  }
  return best
}

/** Puts the ring around the point that is read out. */
function ring(u: uPlot | null, s: Spot | undefined): void {
  if (!u) return
  let el = u.over.querySelector<HTMLElement>('.ring')
  if (!el) {
    el = document.createElement('div')
    el.className = 'ring'
    u.over.append(el)
  }
  el.hidden = !s
  if (!s) return
  el.style.left = `${u.valToPos(s.x, 'x')}px`
  el.style.top = `${u.valToPos(s.y, 'y')}px`
}
