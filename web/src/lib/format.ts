// SPDX-License-Identifier: Apache-2.0

// Figures as a person reads them, always with their unit. Unknown (null) is "–", never 0.

export const unknown = '–'
type N = number | null | undefined

/** Three significant digits, no exponent: 0.0123, 1.23, 12.3, 123, 1,234. */
export function num(v: N): string {
  if (v == null || !Number.isFinite(v)) return unknown
  const a = Math.abs(Number(v.toPrecision(3))) // 9.996 is 10.0
  if (a === 0) return '0'
  if (a >= 100) return Math.round(v).toLocaleString('en-US')
  const digits = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(a))))
  return v.toFixed(digits)
}

export function count(v: N): string {
  return v == null || !Number.isFinite(v) ? unknown : Math.round(v).toLocaleString('en-US')
}

const scaled = (v: number, steps: [number, string][]): string => {
  const a = Math.abs(v)
  for (const [unit, name] of steps) if (a >= unit * 0.9995) return `${num(v / unit)} ${name}`
  const [unit, name] = steps[steps.length - 1]
  return `${num(v / unit)} ${name}`
}

/** A duration given in ns. */
export function dur(ns: N): string {
  if (ns == null || !Number.isFinite(ns)) return unknown
  if (ns === 0) return '0 s'
  if (Math.abs(ns) >= 600e9) {
    const s = Math.round(Math.abs(ns) / 1e9)
    return `${ns < 0 ? '-' : ''}${Math.floor(s / 60)} min ${s % 60} s`
  }
  return scaled(ns, [
    [1e9, 's'],
    [1e6, 'ms'],
    [1e3, 'µs'],
    [1, 'ns'],
  ])
}

/** Bytes, in powers of 1024. */
export function bytes(v: N): string {
  if (v == null || !Number.isFinite(v)) return unknown
  if (Math.abs(v) < 1023.5) return `${Math.round(v)} B`
  return scaled(v, [
    [2 ** 40, 'TiB'],
    [2 ** 30, 'GiB'],
    [2 ** 20, 'MiB'],
    [1024, 'KiB'],
  ])
}

/** A share of 0 to 1. */
export function share(v: N): string {
  if (v == null || !Number.isFinite(v)) return unknown
  const p = v * 100
  if (p !== 0 && Math.abs(p) < 0.05) return p > 0 ? '<0.1 %' : '>−0.1 %'
  return `${p.toFixed(1)} %`
}

export const gbps = (v: N): string => (v == null ? unknown : `${num(v)} GB/s`)
export const gflops = (v: N): string => (v == null ? unknown : `${num(v)} GFLOP/s`)
export const flops = (v: N): string =>
  v == null
    ? unknown
    : scaled(v, [
        [1e12, 'TFLOP'],
        [1e9, 'GFLOP'],
        [1e6, 'MFLOP'],
        [1e3, 'kFLOP'],
        [1, 'FLOP'],
      ])
export const intensity = (v: N): string => (v == null ? unknown : `${num(v)} FLOP/byte`)

/** How much b differs from a, in parts of a: "+4.2 %". */
export function delta(a: N, b: N): string {
  if (a == null || b == null || a === 0) return unknown
  const d = ((b - a) / Math.abs(a)) * 100
  return `${d >= 0 ? '+' : '−'}${Math.abs(d).toFixed(1)} %`
}

/** Dimensions as ggml prints them, trailing ones left out: 2048 x 8192. */
export function dims(ne: number[]): string {
  let n = ne.length
  while (n > 1 && ne[n - 1] === 1) n--
  return ne.slice(0, n).join(' × ')
}

/**
 * A name from a file or process that nobody vouches for: control characters, those that nobody sees, and
 * those that turn the direction of text around are shown as what they are. A name that is written from
 * right to left stays to itself, or it would turn the figures beside it around. HTML needs no care here:
 * it is set as text.
 */
export function clean(s: string): string {
  const shown = s.replace(
    /[\p{C}\p{Zl}\p{Zp}\u034f\u115f\u1160\u3164\uffa0\ufe00-\ufe0f]/gu,
    (c) => `\\u${c.codePointAt(0)!.toString(16).padStart(4, '0')}`,
  )
  return rightToLeft.test(shown) ? `\u2066${shown}\u2069` : shown
}
const rightToLeft = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u

/** 1 step, 2 steps. */
export const plural = (n: number, one: string, many = one + 's'): string =>
  `${count(n)} ${n === 1 ? one : many}`

/**
 * A name inside a sentence: cut, and kept from turning its neighbours around (Unicode's first-strong
 * isolate).
 */
export function named(s: string, most = 32): string {
  const t = clean(s)
  return `\u2068${t.length > most ? t.slice(0, most - 1) + '…' : t}\u2069`
}

export const parameterCount = (n: number): string => {
  for (const [u, s] of [
    [1e12, 'T'],
    [1e9, 'B'],
    [1e6, 'M'],
    [1e3, 'K'],
  ] as [number, string][])
    if (n >= u * 0.9995) return `${(n / u).toPrecision(3)} ${s}`
  return String(n)
}
