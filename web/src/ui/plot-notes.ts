// SPDX-License-Identifier: Apache-2.0

// Texts at lines of a plot: along a slanted one, or at the end of a level one.
import type uPlot from 'uplot'
import { cssVar } from './theme'

/** A text at one of several places, the first where it lies on no other text. */
export interface Note {
  text: string
  /** Places, as values of the axes. Of a slanted line at least two: its slope is the text's. */
  at: [x: number, y: number][]
  /**
   * level: ends at the place, above it; dot: stands at a point that is marked; slanted: along the line
   * through the places.
   */
  kind: 'level' | 'dot' | 'slanted'
}

type Box = [left: number, top: number, right: number, bottom: number]

/**
 * Writes notes where neither texts nor points are, and adds where they stand to what other texts have to
 * leave free.
 */
export function drawNotes(u: uPlot, list: Note[], px: number, taken: Box[], points: Box[]): void {
  const { ctx, bbox } = u
  ctx.font = `${10.5 * px}px ${cssVar('--sans')}`
  ctx.textBaseline = 'alphabetic'
  ctx.textAlign = 'left'
  const h = 12 * px
  const inside = (b: Box) =>
    b[0] >= bbox.left && b[2] <= bbox.left + bbox.width && b[1] >= bbox.top && b[3] <= bbox.top + bbox.height
  const free = (b: Box) =>
    [...taken, ...points].every((t) => b[2] < t[0] || b[0] > t[2] || b[3] < t[1] || b[1] > t[3])
  for (const n of list) {
    const w = ctx.measureText(n.text).width
    const spots = n.at.map(([x, y]): [number, number] => [u.valToPos(x, 'x', true), u.valToPos(y, 'y', true)])
    const last = spots[spots.length - 1]
    const angle =
      n.kind === 'slanted' && spots.length > 1 ? Math.atan2(last[1] - spots[0][1], last[0] - spots[0][0]) : 0
    let done = false
    for (const [x, y] of spots) {
      if (n.kind === 'dot') {
        ctx.fillStyle = cssVar('--fg')
        ctx.beginPath()
        ctx.arc(x, y, 2.5 * px, 0, 7)
        ctx.fill()
      }
      const [dx, dy] = [Math.cos(angle), Math.sin(angle)]
      // Left end and base of the text.
      const ways: [number, number][] =
        n.kind === 'level'
          ? [[x - w - 4 * px, y - 4 * px]]
          : n.kind === 'dot'
            ? [
                [x - w - 4 * px, y - 6 * px],
                [x + 5 * px, y + 14 * px],
                [x - w / 2, y - 8 * px],
                [x + 5 * px, y - 6 * px],
                [x - w - 4 * px, y + 14 * px],
                [x - w - 16 * px, y - 18 * px],
                [x + 12 * px, y + 26 * px],
              ]
            : [[x - (dx * w) / 2 + dy * 4 * px, y - (dy * w) / 2 - dx * 4 * px]]
      for (const [left, base] of ways) {
        // Boxes along the text: one around a slanted text would be mostly empty.
        const boxes: Box[] = []
        const parts = angle === 0 ? 1 : Math.max(1, Math.ceil(w / h))
        for (let i = 0; i < parts; i++) {
          const cx = left + dx * ((w * (i + 0.5)) / parts)
          const cy = base + dy * ((w * (i + 0.5)) / parts) - h / 2
          const half = angle === 0 ? w / 2 : h / 2
          boxes.push([cx - half, cy - h / 2, cx + half, cy + h / 2])
        }
        if (done || !boxes.every((b) => inside(b) && free(b))) continue
        taken.push(...boxes)
        done = true
        ctx.save()
        ctx.translate(left, base)
        ctx.rotate(angle)
        ctx.lineWidth = 3 * px
        ctx.strokeStyle = cssVar('--bg')
        ctx.lineJoin = 'round'
        ctx.strokeText(n.text, 0, 0)
        ctx.fillStyle = cssVar(n.kind === 'dot' ? '--fg' : '--dim')
        ctx.fillText(n.text, 0, 0)
        ctx.restore()
      }
      if (done) break
    }
  }
}
