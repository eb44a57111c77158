// SPDX-License-Identifier: Apache-2.0

// The ruler: ticks at round times, written as a base and what is added to it, so that microseconds can be
// read far into a run.

const units: [number, string][] = [
  [1e9, 's'],
  [1e6, 'ms'],
  [1e3, 'µs'],
  [1, 'ns'],
]

/** Made once: a frame writes a dozen of them. */
const formats = [0, 1, 2, 3].map(
  (digits) =>
    new Intl.NumberFormat('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits }),
)

/** Distance of ticks in ns: 1, 2 or 5 times a power of ten, at least min. */
export function tickStep(min: number): number {
  const p = 10 ** Math.floor(Math.log10(Math.max(1, min)))
  for (const m of [1, 2, 5, 10]) if (m * p >= min) return m * p
  return 10 * p
}

export interface Ruler {
  step: number
  ticks: number[]
  /** What ticks are written relative to; 0: nothing. */
  base: number
  label: (t: number) => string
}

export function ruler(t0: number, t1: number, width: number): Ruler {
  const step = tickStep(((t1 - t0) * 96) / Math.max(1, width))
  const ticks: number[] = []
  for (let t = Math.ceil(t0 / step) * step; t <= t1 && ticks.length < 500; t += step) ticks.push(t)
  const far = Math.max(Math.abs(t0), Math.abs(t1))
  // Seconds with up to three digits are read easily; finer, ticks count from a round moment that stands in
  // the corner.
  let [unit, name]: [number, string] = far >= 2e9 || step >= 1e9 ? [1e9, 's'] : [1e6, 'ms']
  let base = 0
  if (step < unit / 1000) {
    ;[unit, name] = units.find(([u]) => step >= u) ?? units[units.length - 1]
    if (far >= unit * 10000) base = Math.floor(t0 / (unit * 1000)) * unit * 1000
  }
  const digits = Math.max(0, Math.min(3, Math.ceil(-Math.log10(step / unit) - 1e-9)))
  const f = formats[digits]
  const text = (v: number) => f.format(Object.is(Math.round(v * 1000), -0) ? 0 : v)
  return { step, ticks, base, label: (t) => `${base ? '+' : ''}${text((t - base) / unit)} ${name}` }
}

/** A moment in a run, exact to the nanosecond: 2.345 678 901 s. */
export function moment(ns: number): string {
  const neg = ns < 0 ? '−' : ''
  const v = Math.round(Math.abs(ns))
  const s = Math.floor(v / 1e9)
  const rest = String(v % 1e9)
    .padStart(9, '0')
    .replace(/(\d{3})(?=\d)/g, '$1 ')
  return `${neg}${s.toLocaleString('en-US')}.${rest} s`
}
