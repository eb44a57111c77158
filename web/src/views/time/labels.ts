// SPDX-License-Identifier: Apache-2.0

// Writes labels on the tracks, cut to the room they have. Measuring text is dear, so each character is
// measured once.
import { sans } from '../../ui/font'

export interface Label {
  x: number
  w: number
  y: number
  text: string
  color: string
  /** Behind the text, where it would stand on a pattern. */
  ground?: string
}

export class Writer {
  private chars = new Map<string, number>()
  private fontUnit = 0
  private fitted = 0 // width of the text that was fitted last

  /** Width of a character, measured once. */
  private width(ctx: CanvasRenderingContext2D, ch: string): number {
    let w = this.chars.get(ch)
    if (w === undefined) {
      if (this.chars.size > 2000) this.chars.clear()
      this.chars.set(ch, (w = ctx.measureText(ch).width))
    }
    return w
  }

  /** Writes labels; u is how many device pixels a CSS pixel has. */
  write(ctx: CanvasRenderingContext2D, labels: Label[], u: number): void {
    const font = `${11 * u}px ${sans}`
    if (ctx.font !== font) {
      ctx.font = font
      if (this.fontUnit !== u) this.chars.clear()
      this.fontUnit = u
    }
    ctx.textBaseline = 'middle'
    ctx.direction = 'ltr'
    let color = ''
    for (const l of labels) {
      const text = this.fit(ctx, l.text, l.w - 8 * u)
      if (!text) continue
      if (l.ground) {
        ctx.fillStyle = color = l.ground
        ctx.fillRect(l.x + 2 * u, l.y - 8 * u, this.fitted + 4 * u, 16 * u)
      }
      if (l.color !== color) ctx.fillStyle = color = l.color
      ctx.fillText(text, l.x + 4 * u, l.y + 0.5 * u)
    }
  }

  /** As much of a text as fits. */
  private fit(ctx: CanvasRenderingContext2D, text: string, room: number): string {
    this.fitted = 0
    let n = 0
    for (const ch of text) {
      const w = this.width(ctx, ch)
      if (this.fitted + w > room) return n < 3 ? '' : text.slice(0, n - 1) + '…'
      this.fitted += w
      n += ch.length
    }
    return text
  }
}
