// SPDX-License-Identifier: Apache-2.0

// Page faults on the threads' rows: a band at the lower edge of the operators, where one looks close enough.
import type { MemoryFaultMarks, TimelineThread } from '../../api/types'
import { memoryClassName } from '../../lib/faults'
import { bytes, clean, count, dur } from '../../lib/format'
import { moment } from '../../lib/time-scale'
import { Pattern, type Raster } from './raster'
import { spanAt, spanSet, spansWithin, type SpanSet } from './spans'

/** Height of the band and of the line above it, in CSS pixels. */
export const faultBandHeight = 5

/** Faults by thread; a set's kind is 1 of a major fault, its ref the number of the fault. */
export class FaultTracks {
  readonly byThread = new Map<number, SpanSet>()

  constructor(
    readonly m: MemoryFaultMarks,
    threads: TimelineThread[],
  ) {
    const index = new Map(threads.map((t, i) => [`${t.pid} ${t.tid}`, i]))
    const lists = new Map<number, number[]>()
    m.start_ns.forEach((_, i) => {
      const t = index.get(`${m.pid[i]} ${m.tid[i]}`)
      if (t === undefined) return // a thread that has no row
      const l = lists.get(t)
      if (l) l.push(i)
      else lists.set(t, [i])
    })
    for (const [t, at] of lists) {
      const end = Float64Array.from(at, (i) => m.start_ns[i] + Math.max(0, m.dur_ns[i]))
      this.byThread.set(
        t,
        spanSet(
          Float64Array.from(at, (i) => m.start_ns[i]),
          end.slice(),
          end,
          Uint8Array.from(at, (i) => m.major[i] & 1),
          Int32Array.from(at),
          { chans: 2 },
        ),
      )
    }
  }

  /** The fault at a time of a thread; -1: none. */
  at(thread: number, t: number, slack: number): number {
    const s = this.byThread.get(thread)
    const i = s ? spanAt(s, t, slack) : -1
    return s && i >= 0 ? s.ref[i] : -1
  }

  /** Faults of an operator. */
  of(op: number): number[] {
    const out: number[] = []
    this.m.op.forEach((o, i) => o === op && out.push(i))
    return out
  }
}

/** Draws a thread's faults: those of two pixels and more, and all of them where there are few in sight. */
export function drawFaults(
  r: Raster,
  s: SpanSet,
  off: number,
  scale: number,
  bottom: number,
  color: number,
  ground: number,
): void {
  const from = -off
  const [lo, hi] = spansWithin(s, from, from + r.w / scale)
  const u = r.unit
  const few = hi - lo <= r.w / (6 * u)
  const y0 = bottom - faultBandHeight * u
  for (let i = lo; i < hi; i++) {
    const x0 = Math.round((s.start[i] + off) * scale)
    const x1 = Math.round((s.end[i] + off) * scale)
    if (x1 < 0 || x0 >= r.w || (!few && x1 - x0 < 2 * u)) continue
    const wide = Math.max(x0 + 2 * u, x1)
    r.rect(x0 - u, y0 - u, wide + u, bottom, ground)
    r.rect(x0, y0, wide, bottom, color)
    if (s.kind[i] === 0 && wide - x0 > 2 * u) r.pattern(x0, y0, wide, bottom, ground, Pattern.Diagonal)
  }
}

/** What a fault is, in lines: the first is its head. */
export function describeFault(f: FaultTracks, i: number): string[] {
  const m = f.m
  const text = (k: number) => clean(m.strings[k] ?? '')
  const out = [`${m.major[i] ? 'major' : 'minor'} page fault`]
  const hit = [text(m.tensor[i]), text(m.type[i])].filter(Boolean).join(' ')
  const what = memoryClassName(m.strings[m.class[i]] ?? '')
  out.push(hit ? `hit ${hit}${m.expert[i] >= 0 ? `, expert ${m.expert[i]}` : ''} (${what})` : `hit ${what}`)
  out.push(
    `${m.dur_ns[i] < 0 ? 'how long it took is not known' : dur(m.dur_ns[i])} \u00b7 ${bytes(m.read_bytes[i])} read from disk`,
  )
  out.push(`address ${clean(m.address[i])}${text(m.file[i]) ? ` of ${text(m.file[i])}` : ''}`)
  if (m.step[i])
    out.push(
      `in step ${count(m.step[i])}${m.op[i] ? `, operator ${count(m.op[i])}` : ', in no operator before its thread reached the barrier: it delayed nobody'}`,
    )
  out.push(`${m.dur_ns[i] < 0 ? 'done' : 'starts'} at ${moment(m.start_ns[i])}`)
  return out
}
