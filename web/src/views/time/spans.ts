// SPDX-License-Identifier: Apache-2.0

// Spans of one track in order of time, made so that a picture costs pixels and not spans: those of a length
// are found by themselves, and bins say how the time was used where spans are narrower than a pixel.

/**
 * Bins of equal width from start on; levels[0] is the finest, each further one twice as wide. A cell is time
 * in ns, chans of them a bin.
 */
export interface Bins {
  start: number
  width: number
  chans: number
  levels: Float32Array[]
  /** Channels that are not empty. */
  used: Uint8Array
}

export interface SpanSet {
  n: number
  start: Float64Array
  /** Where its first part ends: an operator's arrival. What follows is its wait. */
  mid: Float64Array
  end: Float64Array
  kind: Uint8Array
  /** What it is a span of: an index of whoever made the set. */
  ref: Int32Array
  /**
   * Spans by length: byLength[lengthAt[k]..lengthAt[k+1]] are those of 2^k to 2^(k+1) ns, in order of time.
   */
  byLength: Int32Array
  lengthAt: Int32Array
  bins: Bins
}

const lengths = 48

const log2 = (v: number): number => (v < 2 ? 0 : Math.min(lengths - 1, Math.floor(Math.log2(v))))

/** The class of lengths in which spans of at least v ns begin. */
export const lengthClass = (v: number): number => Math.min(lengths, v <= 1 ? 0 : Math.ceil(Math.log2(v)))

/** How a span's time goes into channels. */
export interface Amounts {
  chans: number
  /** Channel of the first part, by kind; where it is absent the kind is the channel. */
  wait?: number
  off?: number
  /** Off-CPU time in the first part. */
  offTime?: Float64Array
}

/** Makes a set; start, mid, end, kind, ref and amounts are put in order of start where they are not. */
export function spanSet(
  start: Float64Array,
  mid: Float64Array,
  end: Float64Array,
  kind: Uint8Array,
  ref: Int32Array,
  a: Amounts,
): SpanSet {
  const n = start.length
  let sorted = true
  for (let i = 1; i < n && sorted; i++) sorted = start[i] >= start[i - 1]
  if (!sorted) {
    const order = Array.from({ length: n }, (_, i) => i).sort((x, y) => start[x] - start[y] || x - y)
    const f = (v: Float64Array) => Float64Array.from(order, (i) => v[i])
    start = f(start)
    mid = f(mid)
    end = f(end)
    kind = Uint8Array.from(order, (i) => kind[i])
    ref = Int32Array.from(order, (i) => ref[i])
    if (a.offTime) a = { ...a, offTime: f(a.offTime) }
  }
  const lengthAt = new Int32Array(lengths + 1)
  for (let i = 0; i < n; i++) lengthAt[log2(end[i] - start[i]) + 1]++
  for (let k = 0; k < lengths; k++) lengthAt[k + 1] += lengthAt[k]
  const next = lengthAt.slice()
  const byLength = new Int32Array(n)
  for (let i = 0; i < n; i++) byLength[next[log2(end[i] - start[i])]++] = i
  return { n, start, mid, end, kind, ref, byLength, lengthAt, bins: makeBins(start, mid, end, kind, a) }
}

function makeBins(
  start: Float64Array,
  mid: Float64Array,
  end: Float64Array,
  kind: Uint8Array,
  a: Amounts,
): Bins {
  const n = start.length
  const first = n ? start[0] : 0
  let last = first + 1
  for (let i = 0; i < n; i++) if (end[i] > last) last = end[i]
  const want = Math.max(8, Math.min(1 << 15, n / 2))
  const width = 2 ** Math.max(0, Math.ceil(Math.log2((last - first) / want)))
  const origin = Math.floor(first / width) * width
  const count = Math.max(1, Math.ceil((last - origin) / width))
  const c = a.chans
  const cells = new Float32Array(count * c)
  const spread = (chan: number, from: number, to: number, amount: number) => {
    if (!(to > from) || !(amount > 0) || chan >= c) return
    const r = amount / (to - from)
    let b = Math.floor((from - origin) / width)
    const e = Math.min(count - 1, Math.floor((to - origin) / width))
    for (; b <= e; b++) {
      const lo = origin + b * width
      cells[b * c + chan] += r * (Math.min(to, lo + width) - Math.max(from, lo))
    }
  }
  for (let i = 0; i < n; i++) {
    const off = a.offTime ? a.offTime[i] : 0
    spread(kind[i] & 127, start[i], mid[i], mid[i] - start[i] - off)
    if (off > 0 && a.off !== undefined) spread(a.off, start[i], mid[i], off)
    if (a.wait !== undefined) spread(a.wait, mid[i], end[i], end[i] - mid[i])
  }
  return withLevels(origin, width, c, cells)
}

/** Bins of cells, with the wider levels. */
export function withLevels(start: number, width: number, chans: number, cells: Float32Array): Bins {
  const any = new Uint8Array(chans)
  for (let i = 0, k = 0; i < cells.length; i++, k = k + 1 === chans ? 0 : k + 1) if (cells[i] > 0) any[k] = 1
  const levels = [cells]
  for (let l = cells; l.length > 4 * chans;) {
    const n = Math.ceil(l.length / chans / 2)
    const up = new Float32Array(n * chans)
    for (let b = 0, i = 0; i < l.length; b++)
      for (let k = 0, at = (b >> 1) * chans; k < chans; k++, i++) up[at + k] += l[i]
    levels.push((l = up))
  }
  return { start, width, chans, levels, used: Uint8Array.from([...any.keys()].filter((k) => any[k])) }
}

/** Buffers to hand over to another thread. */
export function buffers(s: SpanSet): ArrayBuffer[] {
  return [s.start, s.mid, s.end, s.kind, s.ref, s.byLength, s.lengthAt, s.bins.used, ...s.bins.levels].map(
    (a) => a.buffer as ArrayBuffer,
  )
}

export const sizeOf = (s: SpanSet): number => buffers(s).reduce((n, b) => n + b.byteLength, 0)

/** The first index whose start is greater than t. */
export function firstAfter(start: Float64Array, t: number): number {
  let lo = 0
  let hi = start.length
  while (lo < hi) {
    const m = (lo + hi) >> 1
    if (start[m] <= t) lo = m + 1
    else hi = m
  }
  return lo
}

/**
 * Spans that reach into from..to, as indexes [first, last). Spans of a track do not overlap, but for the one
 * before.
 */
export function spansWithin(s: SpanSet, from: number, to: number): [number, number] {
  let first = firstAfter(s.start, from)
  while (first > 0 && s.end[first - 1] > from) first--
  return [first, Math.max(first, firstAfter(s.start, to))]
}

/** The span at t, -1 if there is none; slack widens it, so that a narrow one can be pointed at. */
export function spanAt(s: SpanSet, t: number, slack: number): number {
  const i = firstAfter(s.start, t) - 1
  if (i >= 0 && s.end[i] > t) return i
  let best = -1
  let d = slack
  for (const k of [i, i + 1]) {
    if (k < 0 || k >= s.n) continue
    const far = k === i ? t - s.end[k] : s.start[k] - t
    if (far <= d) {
      d = far
      best = k
    }
  }
  return best
}
