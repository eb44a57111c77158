// SPDX-License-Identifier: Apache-2.0

// Over the tracks: the cursor, what is pointed at, what is selected and how it hangs together, a range. Drawn
// by itself, so that moving the pointer does not draw the tracks anew.
import { moment } from '../../lib/time-scale'
import { sans } from '../../ui/font'
import type { TimeData } from './data'
import type { View } from './draw'
import { faultBandHeight } from './faults'
import type { Palette } from './palette'
import { spanOf, stateStripHeight, type Picked } from './pick'
import { css } from './raster'
import type { Row } from './rows'

interface Scene {
  rows: Row[]
  datas: TimeData[]
  view: View
  unit: number
  scrollTop: number
  colors: Palette
  selection: Picked | null
  hover: Picked | null
  range: { from: number; to: number } | null
  cursor: number
}

export class Overlay {
  constructor(private c: HTMLCanvasElement) {}

  draw(s: Scene): void {
    const ctx = this.c.getContext('2d')
    if (!ctx) return
    const u = s.unit
    ctx.setTransform(1, 0, 0, 1, 0, 0)
    ctx.clearRect(0, 0, this.c.width, this.c.height)
    ctx.setTransform(u, 0, 0, u, 0, 0)
    const w = this.c.width / u
    const h = this.c.height / u
    const per = s.view.scale / u
    const x = (t: number, run: number) => (t + s.view.shift[run] - s.view.t0) * per
    if (s.range) {
      const a = (s.range.from - s.view.t0) * per
      const b = (s.range.to - s.view.t0) * per
      ctx.fillStyle = s.colors.accent
      ctx.globalAlpha = 0.16
      ctx.fillRect(a, 0, Math.max(1, b - a), h)
      ctx.globalAlpha = 1
      ctx.fillRect(a, 0, 1, h)
      ctx.fillRect(b, 0, 1, h)
    }
    const rect = (row: Row, a: number, b: number, part: 'body' | 'strip' | 'all' | 'band') => {
      const y =
        row.y -
        s.scrollTop +
        (part === 'strip'
          ? row.h - stateStripHeight
          : part === 'band'
            ? row.h - stateStripHeight - faultBandHeight - 2
            : 1)
      const hh =
        part === 'band'
          ? faultBandHeight + 2
          : part === 'strip'
            ? stateStripHeight - 1
            : part === 'body'
              ? row.h - stateStripHeight - 1
              : row.h - 2
      const x0 = Math.max(-4, a)
      const x1 = Math.min(w + 4, Math.max(a + 2, b))
      if (x1 > x0) ctx.strokeRect(x0 + 0.5, y + 0.5, Math.max(1, x1 - x0 - 1), hh)
    }
    const outline = (p: Picked) => {
      const d = s.datas[p.run]
      const row = s.rows.find((r) => r.key === p.row)
      if (p.what === 'op') {
        const end = p.op.start + p.op.dur
        const at = p.op.spans.flatMap((o) => {
          const r = s.rows.find((r) => r.run === p.run && r.kind === 'thread' && r.index === o.thread)
          return r ? [{ r, o }] : []
        })
        at.sort((m, n) => m.r.y - n.r.y)
        for (const { r, o } of at) rect(r, x(o.start, p.run), x(end, p.run), 'body')
        // From thread to thread: where each began and where it arrived.
        ctx.beginPath()
        for (let i = 0; i + 1 < at.length; i++) {
          const [m, n] = [at[i], at[i + 1]]
          const y0 = m.r.y + m.r.h - stateStripHeight - s.scrollTop
          const y1 = n.r.y + 1 - s.scrollTop
          for (const f of [(o: typeof m.o) => o.start, (o: typeof m.o) => end - o.wait]) {
            ctx.moveTo(x(f(m.o), p.run), y0)
            ctx.lineTo(x(f(n.o), p.run), y1)
          }
        }
        ctx.stroke()
        return
      }
      if (!row) return
      const [a, b] = spanOf(d, p)
      rect(row, x(a, p.run), x(b, p.run), p.what === 'state' ? 'strip' : p.what === 'fault' ? 'band' : 'all')
    }
    if (s.hover) {
      ctx.strokeStyle = s.colors.text
      ctx.lineWidth = 1
      ctx.globalAlpha = 0.75
      outline(s.hover)
      ctx.globalAlpha = 1
    }
    if (s.selection) {
      // Dark and light, so that it stands out of every colour.
      ctx.lineWidth = 3.5
      ctx.strokeStyle = css(s.colors.bg)
      outline(s.selection)
      ctx.lineWidth = 2
      ctx.strokeStyle = s.colors.text
      outline(s.selection)
    }
    if (s.cursor >= 0) {
      ctx.fillStyle = s.colors.text
      ctx.globalAlpha = 0.5
      ctx.fillRect(Math.round(s.cursor), 0, 1, h)
      ctx.globalAlpha = 1
      const text = moment(s.view.t0 + s.cursor / per)
      ctx.font = `11px ${sans}`
      ctx.textBaseline = 'middle'
      const tw = ctx.measureText(text).width + 8
      const tx = s.cursor + 6 + tw > w ? s.cursor - 6 - tw : s.cursor + 6
      ctx.fillStyle = css(s.colors.bg)
      ctx.globalAlpha = 0.85
      ctx.fillRect(tx, 2, tw, 16)
      ctx.globalAlpha = 1
      ctx.fillStyle = s.colors.text
      ctx.fillText(text, tx + 4, 10)
    }
  }
}
