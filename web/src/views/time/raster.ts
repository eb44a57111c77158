// SPDX-License-Identifier: Apache-2.0

// A picture in memory. Spans are written as pixels, not drawn as shapes: a frame costs its pixels, however
// many spans stand behind them.

/** Patterns, so that no meaning rests on colour alone. */
export const enum Pattern {
  Diagonal,
  Cross,
  Dots,
  Bars,
}

export class Raster {
  w = 0
  h = 0
  unit = 1 // device pixels of a CSS pixel
  private img: ImageData | null = null
  private px = new Uint32Array(0)

  size(w: number, h: number, unit: number): void {
    w = Math.max(1, w)
    h = Math.max(1, h)
    this.unit = Math.max(1, Math.round(unit))
    if (w === this.w && h === this.h && this.img) return
    this.w = w
    this.h = h
    this.img = new ImageData(w, h)
    this.px = new Uint32Array(this.img.data.buffer)
  }

  clear(c: number): void {
    this.px.fill(c)
  }

  put(ctx: CanvasRenderingContext2D): void {
    if (this.img) ctx.putImageData(this.img, 0, 0)
  }

  rect(x0: number, y0: number, x1: number, y1: number, c: number): void {
    if (x0 < 0) x0 = 0
    if (y0 < 0) y0 = 0
    if (x1 > this.w) x1 = this.w
    if (y1 > this.h) y1 = this.h
    if (x1 <= x0) return
    if (x1 - x0 < 12) {
      for (let y = y0, at = y0 * this.w; y < y1; y++, at += this.w)
        for (let x = x0; x < x1; x++) this.px[at + x] = c
      return
    }
    for (let y = y0, at = y0 * this.w; y < y1; y++, at += this.w) this.px.fill(c, at + x0, at + x1)
  }

  /** Repeats the pixels x0..x1 of line y0 down to y1. */
  copyDown(x0: number, x1: number, y0: number, y1: number): void {
    if (x0 < 0) x0 = 0
    if (x1 > this.w) x1 = this.w
    if (y1 > this.h) y1 = this.h
    if (x1 <= x0 || y0 < 0 || y0 >= this.h) return
    const from = y0 * this.w
    for (let y = y0 + 1; y < y1; y++) this.px.copyWithin(y * this.w + x0, from + x0, from + x1)
  }

  /** A pattern of fg; what lies between stays. */
  pattern(x0: number, y0: number, x1: number, y1: number, fg: number, p: Pattern, step = 5): void {
    if (x0 < 0) x0 = 0
    if (y0 < 0) y0 = 0
    if (x1 > this.w) x1 = this.w
    if (y1 > this.h) y1 = this.h
    const u = this.unit
    const n = step * u
    for (let y = y0; y < y1; y++) {
      const at = y * this.w
      for (let x = x0; x < x1; x++) if (inked(p, x, y, n, u)) this.px[at + x] = fg
    }
  }

  /** One pixel column from y0 down to y1. */
  column(x: number, y0: number, y1: number, c: number): void {
    for (let y = y0, at = y0 * this.w + x; y < y1; y++, at += this.w) this.px[at] = c
  }

  /** A pixel column of a pattern over a ground. */
  patternColumn(x: number, y0: number, y1: number, bg: number, fg: number, p: Pattern): void {
    const u = this.unit
    for (let y = y0, at = y0 * this.w + x; y < y1; y++, at += this.w)
      this.px[at] = inked(p, x, y, 5 * u, u) ? fg : bg
  }
}

function inked(p: Pattern, x: number, y: number, n: number, u: number): boolean {
  switch (p) {
    case Pattern.Diagonal:
      return (x + y) % n < u
    case Pattern.Cross:
      return (x + y) % n < u || (x - y + n * 4096) % n < u
    case Pattern.Dots:
      return x % n < u && y % (n - 2 * u) < u
    default:
      return x % n < 2 * u
  }
}

/** A CSS colour (#rrggbb, rgb(r,g,b)) as a pixel. */
export function pixel(css: string): number {
  let rgb: number[]
  if (css.startsWith('#')) {
    const h = css.length === 4 ? [...css.slice(1)].map((c) => c + c).join('') : css.slice(1)
    rgb = [0, 2, 4].map((i) => parseInt(h.slice(i, i + 2), 16) || 0)
  } else rgb = (css.match(/\d+/g) ?? ['0', '0', '0']).slice(0, 3).map(Number)
  return (0xff000000 | (rgb[2] << 16) | (rgb[1] << 8) | rgb[0]) >>> 0
}

/** A colour between two. */
export function mix(a: number, b: number, f: number): number {
  const m = (s: number) => Math.round(((a >>> s) & 255) * (1 - f) + ((b >>> s) & 255) * f) & 255
  return (0xff000000 | (m(16) << 16) | (m(8) << 8) | m(0)) >>> 0
}

/** A pixel as a CSS colour. */
export const css = (p: number): string => `rgb(${p & 255},${(p >>> 8) & 255},${(p >>> 16) & 255})`
