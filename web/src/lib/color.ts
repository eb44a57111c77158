// SPDX-License-Identifier: Apache-2.0

// Colours that stay apart for colour-blind eyes (Okabe and Ito's eight; viridis-like ramps of rising
// lightness) in light and dark. No meaning rests on colour alone.
import type { operatorKinds } from '../api/types'

/** What an operator is, coarsely: the same in every view. */
export type Kind = (typeof operatorKinds)[number]

/** Colours by kind, as [light theme, dark theme]. */
export const kindColors: Record<Kind, [string, string]> = {
  matmul: ['#0072b2', '#4ba3db'],
  attention: ['#d55e00', '#f08a3c'],
  moe: ['#009e73', '#35c79b'],
  norm: ['#b8860b', '#e6c34a'],
  elementwise: ['#b0578d', '#dd8fbc'],
  copy: ['#5b8fa8', '#8fc4dd'],
  other: ['#8a8f98', '#8a8f98'],
}

type RGB = [number, number, number]
// cividis-like: even steps of lightness, the same order for every kind of colour vision
const ramp: RGB[] = [
  [0, 32, 76],
  [53, 69, 108],
  [102, 105, 112],
  [148, 142, 119],
  [199, 181, 101],
  [255, 222, 72],
]
const diverging: RGB[] = [
  [33, 102, 172],
  [146, 197, 222],
  [235, 235, 235],
  [244, 165, 130],
  [178, 24, 43],
]

function at(colors: RGB[], v: number): RGB {
  const x = Math.min(1, Math.max(0, Number.isFinite(v) ? v : 0)) * (colors.length - 1)
  const i = Math.min(colors.length - 2, Math.floor(x))
  const f = x - i
  return [0, 1, 2].map((k) => Math.round(colors[i][k] + (colors[i + 1][k] - colors[i][k]) * f)) as RGB
}

const css = ([r, g, b]: RGB): string => `rgb(${r},${g},${b})`

/** A colour for v of 0 (least) to 1 (most). */
export const sequential = (v: number): string => css(at(ramp, v))
/** A colour for v of -1 (less) over 0 (the same) to 1 (more). */
export const diverge = (v: number): string => css(at(diverging, (v + 1) / 2))

/** Black or white, whichever is read better on that colour. */
export function ink(color: string): string {
  const m = color.match(/\d+/g)
  let rgb: number[]
  if (color.startsWith('#')) rgb = [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16))
  else rgb = (m ?? ['0', '0', '0']).slice(0, 3).map(Number)
  const [r, g, b] = rgb.map((c) => ((c /= 255), c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.22 ? '#000' : '#fff'
}

export type Theme = 'light' | 'dark'
