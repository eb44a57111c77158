// SPDX-License-Identifier: Apache-2.0

// A column's figures stand in one unit and with the same number of decimals, so that they can be compared by
// eye.
import { unknown } from './format'

export interface Unit {
  name: string
  div: number
  digits: number
}

const scales: Record<'time' | 'bytes' | 'plain', [number, string][]> = {
  time: [
    [1e9, 's'],
    [1e6, 'ms'],
    [1e3, 'µs'],
    [1, 'ns'],
  ],
  bytes: [
    [2 ** 40, 'TiB'],
    [2 ** 30, 'GiB'],
    [2 ** 20, 'MiB'],
    [1024, 'KiB'],
    [1, 'B'],
  ],
  plain: [[1, '']],
}

/** The unit in which the largest of some values reads best. */
export function unitOf(kind: keyof typeof scales, values: (number | null | undefined)[]): Unit {
  let top = 0
  for (const v of values) if (v != null && Number.isFinite(v)) top = Math.max(top, Math.abs(v))
  const steps = scales[kind]
  const [div, name] =
    steps.find(([d]) => top >= d) ?? steps[top === 0 && kind === 'time' ? 1 : steps.length - 1]
  const x = top / div
  return { name, div, digits: top === 0 || x >= 1000 ? 1 : x >= 100 ? 2 : 3 }
}

/** A value in a column's unit; what would read as 0 and is more, as less than its last digit. */
export function inUnit(u: Unit, sign = false): (v: number | null | undefined) => string {
  return (v) => {
    if (v == null || !Number.isFinite(v)) return unknown
    const x = v / u.div
    const least = 10 ** -u.digits
    if (x !== 0 && Math.abs(x) < least / 2) return (x < 0 ? '>−' : '<') + least.toFixed(u.digits)
    const text = Math.abs(x).toLocaleString('en-US', {
      minimumFractionDigits: u.digits,
      maximumFractionDigits: u.digits,
    })
    return (x < 0 ? '−' : sign ? '+' : '') + text
  }
}

/** How values stand at an axis whose unit is in its label. */
export function axisFmt(u: Unit): (v: number) => string {
  return (v) => {
    const x = v / u.div
    return x === 0
      ? '0'
      : Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3
        ? x.toExponential(0).replace('e+', 'e')
        : String(Number(x.toPrecision(4)))
  }
}

/** How much b is more than a, as parts of a; null where that says nothing. */
export function relative(a: number | null | undefined, b: number | null | undefined): number | null {
  return a == null || b == null || a === 0 ? null : (b - a) / Math.abs(a)
}
