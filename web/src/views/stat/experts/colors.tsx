// SPDX-License-Identifier: Apache-2.0

// One scale for loads: how many times the mean, in powers of two from a quarter to four times.
import { diverge, type Theme } from '../../../lib/color'

/** A colour of CSS ("rgb(1,2,3)" or "#010203") as a pixel. */
export function pixel(css: string): number {
  const [r, g, b] = css.startsWith('#')
    ? [1, 3, 5].map((i) => parseInt(css.slice(i, i + 2), 16))
    : css.match(/\d+/g)!.map(Number)
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0
}

const steps = 64
const table = Array.from({ length: steps + 1 }, (_, i) => pixel(diverge((i / steps) * 2 - 1)))

/**
 * Where a factor stands on the scale: -1 (a quarter and less) over 0 (the mean) to 1 (four times and more).
 */
export const onScale = (factor: number): number => Math.max(-1, Math.min(1, Math.log2(factor) / 2))

/** The pixel for a load of so many times the mean; nothing where nobody chose it. */
export const loadPixel = (factor: number): number =>
  factor > 0 ? table[Math.round(((onScale(factor) + 1) / 2) * steps)] : 0

export function LoadLegend({ of = 'the mean' }: { of?: string }) {
  return (
    <span class="scale">
      <i class="none" /> no token
      {[0.25, 0.5, 1, 2, 4].map((f) => (
        <span key={f}>
          <i style={{ background: diverge(onScale(f)) }} />
          {f === 0.25 ? '¼ and less' : f === 0.5 ? '½' : f === 4 ? `4 and more times ${of}` : String(f)}
        </span>
      ))}
    </span>
  )
}

/** Of a token by itself: chosen by the token before as well, or not. */
export const reuseColors = (t: Theme): { again: string; fresh: string } =>
  t === 'dark' ? { again: '#4ba3db', fresh: '#f08a3c' } : { again: '#0072b2', fresh: '#d55e00' }
