// SPDX-License-Identifier: Apache-2.0

// How far a layer is from the others.

export function median(v: number[]): number {
  if (v.length === 0) return 0
  const s = [...v].sort((a, b) => a - b)
  return s.length % 2 ? s[(s.length - 1) / 2] : (s[s.length / 2 - 1] + s[s.length / 2]) / 2
}

/** Says how far a layer is from the median, if by a tenth and more. */
export function outlier(v: number, med: number): string {
  const d = med > 0 ? v / med - 1 : 0
  return Math.abs(d) < 0.1 ? '' : `${d > 0 ? '+' : '−'}${Math.abs(d * 100).toFixed(0)} % of the median`
}
