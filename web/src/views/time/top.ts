// SPDX-License-Identifier: Apache-2.0

// Above the tracks: a strip of the whole run with what is looked at in it, and the ruler.
import { operatorKinds } from '../../api/types'
import { moment, type Ruler } from '../../lib/time-scale'
import { sans } from '../../ui/font'
import type { Range, Viewport } from './actions'
import type { TimeData } from './data'
import type { View } from './draw'
import type { Palette } from './palette'
import { css } from './raster'
import type { Bins } from './spans'

/** Heights in CSS pixels. */
export const stripHeight = 34
export const rulerHeight = 24
export const topHeight = stripHeight + rulerHeight

export class Top {
  private w = 1
  private unit = 1
  private picture: HTMLCanvasElement | null = null
  private key = ''

  constructor(private c: HTMLCanvasElement) {}

  size(w: number, unit: number): void {
    this.w = w
    this.unit = unit
    this.c.width = Math.round(w * unit)
    this.c.height = Math.round(topHeight * unit)
    this.c.style.width = `${w}px`
    this.c.style.height = `${topHeight}px`
    this.forget()
  }

  /** Colours or size changed. */
  forget(): void {
    this.picture = null
  }

  draw(
    datas: TimeData[],
    view: View,
    all: Range,
    t1: number,
    r: Ruler,
    p: Palette,
    range: Range | null,
  ): void {
    const ctx = this.c.getContext('2d')
    if (!ctx) return
    const u = this.unit
    ctx.setTransform(u, 0, 0, u, 0, 0)
    ctx.fillStyle = css(p.panel)
    ctx.fillRect(0, 0, this.w, topHeight)
    const key = all.from + ' ' + all.to
    if (!this.picture || this.key !== key) this.paint(datas, view.shift, all, p)
    this.key = key
    ctx.drawImage(this.picture!, 0, 0, this.w, stripHeight)
    const x = (t: number) => ((t - all.from) / (all.to - all.from)) * this.w
    if (range) {
      ctx.fillStyle = p.accent
      ctx.globalAlpha = 0.25
      ctx.fillRect(x(range.from), 0, Math.max(1, x(range.to) - x(range.from)), stripHeight)
    }
    // What is not looked at is veiled.
    const a = Math.max(0, x(view.t0))
    const b = Math.min(this.w, x(t1))
    ctx.globalAlpha = 0.6
    ctx.fillStyle = css(p.panel)
    ctx.fillRect(0, 0, a, stripHeight)
    ctx.fillRect(b, 0, this.w - b, stripHeight)
    ctx.globalAlpha = 1
    ctx.strokeStyle = p.accent
    ctx.lineWidth = 1.5
    ctx.strokeRect(Math.min(a, this.w - 3) + 0.75, 0.75, Math.max(2, b - a - 1.5), stripHeight - 1.5)
    this.rulerPart(ctx, datas, view, t1, r, p, range)
  }

  private rulerPart(
    ctx: CanvasRenderingContext2D,
    datas: TimeData[],
    view: View,
    t1: number,
    r: Ruler,
    p: Palette,
    range: Range | null,
  ): void {
    const per = this.w / (t1 - view.t0)
    const y = stripHeight
    ctx.fillStyle = css(p.line)
    ctx.fillRect(0, y, this.w, 1)
    ctx.fillRect(0, topHeight - 1, this.w, 1)
    if (range) {
      ctx.fillStyle = p.accent
      ctx.globalAlpha = 0.3
      ctx.fillRect(
        (range.from - view.t0) * per,
        y + 1,
        Math.max(1, (range.to - range.from) * per),
        rulerHeight - 2,
      )
      ctx.globalAlpha = 1
    }
    ctx.font = `11px ${sans}`
    ctx.textBaseline = 'middle'
    for (const t of r.ticks) {
      const x = (t - view.t0) * per
      ctx.fillStyle = css(p.line)
      ctx.fillRect(Math.round(x), y + 14, 1, rulerHeight - 15)
      ctx.fillStyle = p.dim
      ctx.fillText(r.label(t), Math.round(x) + 4, y + rulerHeight / 2)
    }
    // What was not seen is marked here too; its reason stands in the tracks.
    ctx.fillStyle = css(p.warn)
    datas.forEach((d, run) => {
      for (const l of d.index.losses ?? []) {
        const x0 = (l.start_ns + view.shift[run] - view.t0) * per
        const x1 = x0 + Math.max(2, l.dur_ns * per)
        if (x1 >= 0 && x0 <= this.w) ctx.fillRect(x0, topHeight - 4, x1 - x0, 3)
      }
    })
  }

  /** The strip: of each run the shares of its threads' time. */
  private paint(datas: TimeData[], shift: number[], all: Range, p: Palette): void {
    const u = this.unit
    const c = (this.picture = document.createElement('canvas'))
    c.width = Math.max(1, Math.round(this.w * u))
    c.height = Math.round(stripHeight * u)
    const ctx = c.getContext('2d')!
    ctx.fillStyle = css(p.bg)
    ctx.fillRect(0, 0, c.width, c.height)
    const each = c.height / Math.max(1, datas.length)
    datas.forEach((d, run) => {
      const per = (all.to - all.from) / c.width
      const colors = [...p.kind.map(css), css(p.wait), css(p.off)]
      const top = run * each
      const head = Math.max(3 * u, each * 0.2)
      const bins = [...d.threadBins.values()]
      const n = Math.max(1, bins.length)
      // Graphs of other backends have a strip of their own: operators of threads know nothing of them.
      const devices = d.graphRows.filter((g) => g.device)
      const lane = devices.length ? Math.max(5 * u, each * 0.2) : 0
      const h = each - head - lane - 2 * u
      const sum = new Float64Array(operatorKinds.length + 2)
      const part = new Float64Array(2)
      for (let x = 0; x < c.width; x++) {
        const ta = all.from + x * per - shift[run]
        sum.fill(0)
        for (const b of bins) add(sum, b, ta, ta + per)
        let low = top + head + lane + u
        for (const g of devices) {
          part.fill(0)
          add(part, g.set.bins, ta, ta + per)
          const used = Math.min(lane - u, ((part[0] + part[1]) / per) * (lane - u))
          if (used <= 0) continue
          ctx.fillStyle = css(p.backend(g.name).fill)
          const high = Math.max(top + head + u, low - Math.max(1, used))
          ctx.fillRect(x, high, 1, low - high)
          low = high
        }
        let y = top + each - u
        for (let k = 0; k < sum.length; k++) {
          const high = Math.min(h, (sum[k] / per / n) * h)
          if (high <= 0) continue
          ctx.fillStyle = colors[k]
          ctx.fillRect(x, y - high, 1, high)
          y -= high
        }
      }
      let drawn = -1
      for (const g of d.stepRows) {
        for (let i = 0; i < g.set.n; i++) {
          const x0 = Math.max(drawn, Math.floor((g.set.start[i] + shift[run] - all.from) / per))
          const x1 = Math.max(x0 + 1, Math.floor((g.set.end[i] + shift[run] - all.from) / per))
          if (x0 === drawn - 1 || x1 <= drawn) continue
          ctx.fillStyle = css(p.phase[g.set.kind[i]] ?? p.phase[0])
          ctx.fillRect(x0, top + u, x1 - x0, head)
          drawn = x1
        }
        drawn = -1
      }
    })
  }

  /**
   * Dragging in the strip moves the view; a press outside of it brings it there. In the ruler it selects a
   * range.
   */
  listen(t: Viewport): void {
    let grip: number | null = null
    let anchor: number | null = null
    const spot = (e: PointerEvent) => {
      const b = this.c.getBoundingClientRect()
      return { x: e.clientX - b.left, y: e.clientY - b.top }
    }
    const whole = (x: number) => t.bounds.from + (x / this.w) * (t.bounds.to - t.bounds.from)
    const here = (x: number) => t.t0 + (x / this.w) * (t.t1 - t.t0)
    this.c.addEventListener('pointerdown', (e) => {
      this.c.setPointerCapture(e.pointerId)
      const { x, y } = spot(e)
      if (y >= stripHeight) {
        anchor = here(x)
        return
      }
      const at = whole(x)
      const half = (t.t1 - t.t0) / 2
      if (at < t.t0 || at > t.t1) t.show(at - half, at + half)
      grip = at - t.t0
    })
    this.c.addEventListener('pointermove', (e) => {
      const { x } = spot(e)
      if (grip !== null) {
        const at = whole(x) - grip
        t.show(at, at + (t.t1 - t.t0))
      } else if (anchor !== null) {
        const at = here(x)
        t.selection = null
        t.range = { from: Math.min(anchor, at), to: Math.max(anchor, at) }
        t.redraw()
      }
    })
    const up = () => {
      if (anchor !== null) t.onChange()
      grip = anchor = null
    }
    this.c.addEventListener('pointerup', up)
    this.c.addEventListener('pointercancel', up)
  }

  /** What the corner beside the ruler says. */
  static corner(r: Ruler): string {
    return r.base ? moment(r.base).replace(/(\s000)+ s$/, ' s') : ''
  }
}

function add(sum: Float64Array, b: Bins, ta: number, tb: number): void {
  let level = 0
  while (level + 1 < b.levels.length && b.width * 2 ** (level + 1) <= tb - ta) level++
  const cells = b.levels[level]
  const width = b.width * 2 ** level
  const c = b.chans
  const e = Math.min(cells.length / c - 1, Math.floor((tb - b.start) / width))
  for (let i = Math.max(0, Math.floor((ta - b.start) / width)); i <= e; i++) {
    const f = (Math.min(tb, b.start + (i + 1) * width) - Math.max(ta, b.start + i * width)) / width
    if (f > 0) for (const k of b.used) sum[k] += cells[i * c + k] * f
  }
}
