// SPDX-License-Identifier: Apache-2.0

// The canvas part of ProfTime: what is looked at, drawing when something changed, pointer, wheel and keys.
// The page around it (view.tsx) is told of changes and asks for moves.
import type { Metric } from '../../lib/counters'
import { ruler } from '../../lib/time-scale'
import type { Range } from './actions'
import type { TimeData } from './data'
import { Painter } from './draw'
import { Overlay } from './overlay'
import { palette, type Palette } from './palette'
import { pick, spanOf, type Picked } from './pick'
import { Raster } from './raster'
import { layout, type Row } from './rows'
import { Top } from './top'

/** The shortest time that the whole width shows, ns. */
const shortest = 200

export class Timeline {
  readonly main = document.createElement('canvas')
  readonly over = document.createElement('canvas')
  readonly head = document.createElement('canvas')
  rows: Row[] = []
  /** What is added to a run's time to get the first run's. */
  shift: number[]
  t0 = 0
  t1 = 1
  selection: Picked | null = null
  range: Range | null = null
  hover: Picked | null = null
  /** Called when the view, the selection or what is loaded changed. */
  onChange: () => void = () => {}
  onHover: (p: Picked | null, x: number, y: number) => void = () => {}
  onRows: () => void = () => {}
  private folded = new Set<string>()
  private raster = new Raster()
  private painter = new Painter(this.raster)
  private overlay: Overlay
  private top: Top
  private colors: Palette = palette()
  private w = 1
  private h = 1
  private unit = 1
  private dirty = false
  private frame = 0
  private cursor = -1
  private dragged = false
  private observer: ResizeObserver
  private frames = 0
  drawn = false
  /** What spans are coloured by, and the value at which its colours end; null: by kinds of operators. */
  level: { metric: Metric; top: number } | null = null

  constructor(
    readonly datas: TimeData[],
    readonly scroll: HTMLElement,
  ) {
    this.shift = datas.map(() => 0)
    this.overlay = new Overlay(this.over)
    this.top = new Top(this.head)
    for (const d of datas) d.onChunk = () => (this.redraw(), this.onChange())
    this.relayout()
    this.home(false)
    this.observer = new ResizeObserver(() => this.resize())
    this.observer.observe(scroll)
    this.listen()
  }

  destroy(): void {
    this.observer.disconnect()
    cancelAnimationFrame(this.frame)
    for (const d of this.datas) d.onChunk = () => {}
  }

  /** The whole of what is shown of what was recorded. */
  get bounds(): Range {
    let from = Infinity
    let to = -Infinity
    this.datas.forEach((d, run) => {
      from = Math.min(from, this.shift[run] + (d.index.from_ns ?? 0))
      to = Math.max(to, this.shift[run] + Math.max(1, d.index.dur_ns))
    })
    return Number.isFinite(from) ? { from, to } : { from: 0, to: 1 }
  }

  /** Device pixels a nanosecond. */
  get scale(): number {
    return this.w / (this.t1 - this.t0)
  }

  get width(): number {
    return this.w / this.unit
  }

  relayout(): void {
    this.rows = layout(this.datas, this.folded, this.scroll.clientHeight)
    this.onRows()
    this.redraw()
  }

  isFolded(key: string): boolean {
    return this.folded.has(key)
  }

  fold(key: string): void {
    if (!this.folded.delete(key)) this.folded.add(key)
    this.relayout()
  }

  /**
   * Colours spans by a metric's levels; null: by kinds of operators. Nothing of it happens where no run has
   * it.
   */
  colour(id: string | null): void {
    const has = this.datas.map((d) => d.metrics.find((m) => m.id === id) ?? null)
    const found = has.find((m) => m != null) ?? null
    const top = Math.max(0, ...this.datas.map((d, i) => (has[i] ? d.topOf(has[i]!) : 0)))
    if ((found?.id ?? '') === (this.level?.metric.id ?? '')) return
    this.level = found ? { metric: found, top } : null
    // A run without it has nothing to be coloured by: all of it is not known.
    this.datas.forEach((d, i) => d.colour(found ? (has[i] ?? { ...found, over: [-1], by: -1 }) : null, top))
    this.recolor()
    this.onChange()
  }

  recolor(): void {
    this.colors = palette(this.level != null)
    this.top.forget()
    this.redraw()
  }

  home(tell = true): void {
    const b = this.bounds
    const pad = (b.to - b.from) * 0.005
    this.show(b.from - pad, b.to + pad, tell)
  }

  /** Looks at t0..t1. */
  show(t0: number, t1: number, tell = true): void {
    const b = this.bounds
    const all = b.to - b.from
    let span = Math.max(shortest, Math.min(t1 - t0, all * 1.5))
    if (!Number.isFinite(span)) span = all
    let mid = (t0 + t1) / 2
    if (!Number.isFinite(mid)) mid = (b.from + b.to) / 2
    mid = Math.max(b.from, Math.min(b.to, mid))
    this.t0 = mid - span / 2
    this.t1 = mid + span / 2
    this.redraw()
    if (tell) this.onChange()
  }

  zoom(factor: number, at = (this.t0 + this.t1) / 2): void {
    const b = this.bounds
    const span = Math.max(shortest, Math.min((this.t1 - this.t0) * factor, (b.to - b.from) * 1.5))
    const f = span / (this.t1 - this.t0)
    this.show(at - (at - this.t0) * f, at + (this.t1 - at) * f)
  }

  pan(parts: number): void {
    const d = (this.t1 - this.t0) * parts
    this.show(this.t0 + d, this.t1 + d)
  }

  /**
   * Brings a span (in the first run's time) into view: as it is if it can be seen, else in the middle with
   * what is around it.
   */
  reveal(from: number, to: number, around = 0): void {
    const span = this.t1 - this.t0
    const len = to - from
    if (!around && from >= this.t0 && to <= this.t1 && len * 200 > span) return
    if (!around && len < span && len * 200 > span)
      return this.show((from + to) / 2 - span / 2, (from + to) / 2 + span / 2)
    const pad = Math.max(len * (around || 1.5), shortest)
    this.show(from - pad, to + pad)
  }

  select(p: Picked | null, tell = true): void {
    this.selection = p
    this.redraw()
    if (tell) this.onChange()
  }

  setRange(r: Range | null): void {
    this.range = r
    this.redraw()
    this.onChange()
  }

  /** A selection's span in the first run's time. */
  selected(): Range | null {
    if (this.selection) {
      const [from, to] = spanOf(this.datas[this.selection.run], this.selection)
      const s = this.shift[this.selection.run]
      return { from: from + s, to: to + s }
    }
    return this.range
  }

  redraw(): void {
    if (this.dirty) return
    this.dirty = true
    this.frame = requestAnimationFrame(() => this.draw())
  }

  private resize(): void {
    const unit = window.devicePixelRatio || 1
    const label = parseFloat(getComputedStyle(this.scroll).getPropertyValue('--time-labels')) || 150
    const w = Math.max(1, this.scroll.clientWidth - label)
    const h = Math.max(1, this.scroll.clientHeight)
    this.unit = unit
    this.w = Math.round(w * unit)
    this.h = Math.round(h * unit)
    for (const c of [this.main, this.over]) {
      c.width = this.w
      c.height = this.h
      c.style.width = `${w}px`
      c.style.height = `${h}px`
    }
    this.raster.size(this.w, this.h, unit)
    this.rows = layout(this.datas, this.folded, h)
    this.onRows()
    this.top.size(w, unit)
    this.draw()
  }

  private draw(): void {
    this.dirty = false
    if (this.w <= 1) return
    const start = performance.now()
    const view = { t0: this.t0, scale: this.scale, shift: this.shift }
    const r = ruler(this.t0, this.t1, this.width)
    const ctx = this.main.getContext('2d', { alpha: false, willReadFrequently: true })
    if (ctx) this.painter.frame(ctx, this.rows, this.datas, view, this.colors, this.scroll.scrollTop, r.ticks)
    this.top.draw(this.datas, view, this.bounds, this.t1, r, this.colors, this.range)
    this.paintOverlay()
    this.drawn = true
    performance.measure('profinfer-frame', { start, end: performance.now() })
    // they would be kept for ever
    if (++this.frames % 1000 === 0) performance.clearMeasures('profinfer-frame')
  }

  private paintOverlay(): void {
    this.overlay.draw({
      rows: this.rows,
      datas: this.datas,
      view: { t0: this.t0, scale: this.scale, shift: this.shift },
      unit: this.unit,
      scrollTop: this.scroll.scrollTop,
      colors: this.colors,
      selection: this.selection,
      hover: this.hover,
      range: this.range,
      cursor: this.cursor,
    })
  }

  /** A picked thing at a place of the canvas, in CSS pixels. */
  private at(x: number, y: number): Picked | null {
    const top = y + this.scroll.scrollTop
    const row = this.rows.find((r) => top >= r.y && top < r.y + r.h)
    if (!row) return null
    const per = 1 / (this.scale * this.unit)
    const t = this.t0 + (x * this.unit) / this.scale - this.shift[row.run]
    return pick(this.datas[row.run], row, t, top - row.y, 3 * per * this.unit * this.unit)
  }

  private time(x: number): number {
    return this.t0 + (x * this.unit) / this.scale
  }

  private listen(): void {
    const c = this.over
    let mode: 'none' | 'pan' | 'range' = 'none'
    let last = { x: 0, y: 0 }
    let anchor = 0
    const place = (e: MouseEvent) => {
      const b = c.getBoundingClientRect()
      return { x: e.clientX - b.left, y: e.clientY - b.top }
    }
    c.addEventListener('pointerdown', (e) => {
      if (e.button !== 0) return
      c.setPointerCapture(e.pointerId)
      c.focus({ preventScroll: true })
      last = place(e)
      anchor = this.time(last.x)
      this.dragged = false
      mode = e.shiftKey ? 'range' : 'pan'
    })
    c.addEventListener('pointermove', (e) => {
      const p = place(e)
      this.cursor = p.x
      if (mode === 'none') {
        this.hover = this.at(p.x, p.y)
        this.onHover(this.hover, p.x, p.y)
        this.paintOverlay()
        return
      }
      if (!this.dragged && Math.abs(p.x - last.x) + Math.abs(p.y - last.y) < 4) return
      this.dragged = true
      this.hover = null
      this.onHover(null, 0, 0)
      if (mode === 'range') {
        const t = this.time(p.x)
        this.selection = null
        this.range = { from: Math.min(anchor, t), to: Math.max(anchor, t) }
        this.redraw()
        return
      }
      const d = ((last.x - p.x) * this.unit) / this.scale
      this.scroll.scrollTop += last.y - p.y
      last = p
      this.show(this.t0 + d, this.t1 + d)
    })
    c.addEventListener('pointerup', (e) => {
      const was = mode
      mode = 'none'
      if (was === 'range' && this.dragged) return this.onChange()
      if (this.dragged || was === 'none') return
      const p = place(e)
      const got = this.at(p.x, p.y)
      this.range = null
      this.select(got)
    })
    c.addEventListener('pointercancel', () => (mode = 'none'))
    c.addEventListener('pointerleave', () => {
      this.cursor = -1
      this.hover = null
      this.onHover(null, 0, 0)
      this.paintOverlay()
    })
    c.addEventListener('dblclick', (e) => {
      const p = place(e)
      const got = this.at(p.x, p.y)
      if (!got) return
      const [from, to] = spanOf(this.datas[got.run], got)
      const s = this.shift[got.run]
      this.reveal(from + s, to + s, 0.15)
    })
    const wheel = (e: WheelEvent) => {
      e.preventDefault()
      const b = c.getBoundingClientRect()
      const x = e.clientX - b.left
      const lines = e.deltaMode === 1 ? 16 : 1
      if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
        const d = (((e.deltaX || e.deltaY) * lines) / this.width) * (this.t1 - this.t0)
        return this.show(this.t0 + d, this.t1 + d)
      }
      this.zoom(Math.min(4, Math.max(0.25, Math.exp(e.deltaY * lines * 0.0022))), this.time(x))
    }
    c.addEventListener('wheel', wheel, { passive: false })
    this.head.addEventListener('wheel', wheel, { passive: false })
    this.scroll.addEventListener('scroll', () => this.redraw())
    this.top.listen(this)
  }
}
