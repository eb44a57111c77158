// SPDX-License-Identifier: Apache-2.0

// Text cut to a width: SVG has no ellipsis.
import { cssVar } from '../../ui/theme'

let ctx: CanvasRenderingContext2D | null = null
const known = new Map<string, string>()

/** s, or as much of it as fits into px, with "…". */
export function fitText(s: string, px: number, bold: boolean): string {
  const key = `${bold ? 1 : 0}${Math.round(px)} ${s}`
  const k = known.get(key)
  if (k !== undefined) return k
  ctx ??= document.createElement('canvas').getContext('2d')
  let out = s
  if (ctx) {
    ctx.font = `${bold ? '600 12px' : '11px'} ${cssVar('--sans') || 'sans-serif'}`
    const wide = (t: string) => ctx!.measureText(t).width
    if (wide(s) > px) {
      const chars = [...s]
      let lo = 0
      let hi = chars.length
      while (lo < hi) {
        const m = (lo + hi + 1) >> 1
        if (wide(chars.slice(0, m).join('') + '…') <= px) lo = m
        else hi = m - 1
      }
      out = chars.slice(0, lo).join('') + '…'
    }
  }
  if (known.size > 20000) known.clear()
  known.set(key, out)
  return out
}
