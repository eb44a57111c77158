// SPDX-License-Identifier: Apache-2.0

// Statistics of a range of time. What reaches out of it counts with the part that lies inside.
import { operatorKinds } from '../../api/types'
import { clean } from '../../lib/format'
import type { TimeData } from './data'
import { runnerName } from './steps'

export interface RangeRow {
  key: string
  kind: string
  count: number
  /** Time in the range. */
  time: number
  /** Whole durations of the operators that reach into the range. */
  whole: number
}

export interface RangeThread {
  thread: number
  ops: number
  busy: number
  wait: number
  off: number
}

export interface RangeStats {
  from: number
  to: number
  ops: RangeRow[]
  kinds: RangeRow[]
  threads: RangeThread[]
  /** Who ran on a CPU while a thread of the engine waited for that CPU. */
  instead: { name: string; time: number; count: number }[]
  /** Time threads of the engine could run and had no CPU. */
  runnable: number
  /** Steps that begin in the range, by phase. */
  steps: { phase: number; count: number }[]
  parts: number
  missing: number
}

/** Computes the statistics; stop() is asked now and then. */
export async function rangeStats(
  d: TimeData,
  from: number,
  to: number,
  stop: () => boolean,
): Promise<RangeStats | null> {
  const byDef = new Map<number, { count: number; time: number; whole: number }>()
  const threads = new Map<number, RangeThread>()
  const instead = new Map<string, { name: string; time: number; count: number }>()
  const out: RangeStats = {
    from,
    to,
    ops: [],
    kinds: [],
    threads: [],
    instead: [],
    runnable: 0,
    steps: [],
    parts: 0,
    missing: 0,
  }
  const clip = (a: number, b: number) => Math.max(0, Math.min(b, to) - Math.max(a, from))
  for (const i of d.chunksIn(from, to)) {
    if (stop()) return null
    out.parts++
    const c = await d.chunk(i).catch(() => null)
    if (!c) {
      out.missing++
      continue
    }
    if (c.kind === 'ops') {
      for (let k = 0; k < c.n; k++) {
        const end = c.start[k] + c.dur[k]
        if (c.start[k] >= to || end <= from) continue
        let e = byDef.get(c.def[k])
        if (!e) byDef.set(c.def[k], (e = { count: 0, time: 0, whole: 0 }))
        e.count++
        e.time += clip(c.start[k], end)
        e.whole += c.dur[k]
        for (let s = c.first[k]; s < c.first[k + 1]; s++) {
          let t = threads.get(c.thread[s])
          if (!t) threads.set(c.thread[s], (t = { thread: c.thread[s], ops: 0, busy: 0, wait: 0, off: 0 }))
          t.ops++
          const arrival = end - c.wait[s]
          // Where within its time it was off its CPU is not told here: a part that is cut has its share.
          const part = arrival > c.at[s] ? clip(c.at[s], arrival) / (arrival - c.at[s]) : 1
          t.busy += c.busy[s] * part
          t.off += c.off[s] * part
          t.wait += clip(arrival, end)
        }
      }
      continue
    }
    for (const l of c.states) {
      const st = l.set
      for (let k = 0; k < st.n; k++) {
        if (st.kind[k] < 1 || st.kind[k] > 2) continue
        const a = Math.max(from, st.start[k])
        const b = Math.min(to, st.end[k])
        if (b <= a) continue
        out.runnable += b - a
        const cpu = c.cpus.find((o) => o.index === st.ref[k])?.set
        if (!cpu) continue
        let lo = 0
        let hi = cpu.n
        while (lo < hi) {
          const m = (lo + hi) >> 1
          if (cpu.end[m] <= a) lo = m + 1
          else hi = m
        }
        for (; lo < cpu.n && cpu.start[lo] < b; lo++) {
          const time = Math.min(b, cpu.end[lo]) - Math.max(a, cpu.start[lo])
          if (time <= 0) continue
          const r = d.index.runners![cpu.ref[lo]]
          const name =
            r.thread >= 0
              ? `${runnerName(d, cpu.ref[lo])} (the engine’s)`
              : cpu.ref[lo] === 0
                ? 'not seen'
                : clean(r.comm)
          const e = instead.get(name)
          if (e) {
            e.time += time
            e.count++
          } else instead.set(name, { name, time, count: 1 })
        }
      }
    }
  }
  const names = new Map<string, RangeRow>()
  const byKind = new Map<string, RangeRow>()
  for (const [def, e] of byDef) {
    const o = d.defs[def]
    for (const [m, key] of [
      [names, clean(o.label)],
      [byKind, operatorKinds[o.kind] ?? 'other'],
    ] as const) {
      const r = m.get(key)
      if (r) {
        r.count += e.count
        r.time += e.time
        r.whole += e.whole
      } else m.set(key, { key, kind: operatorKinds[o.kind] ?? 'other', ...e })
    }
  }
  out.ops = [...names.values()].sort((a, b) => b.time - a.time)
  out.kinds = [...byKind.values()].sort((a, b) => b.time - a.time)
  out.threads = [...threads.values()].sort((a, b) => a.thread - b.thread)
  out.instead = [...instead.values()].sort((a, b) => b.time - a.time)
  const steps = new Map<number, number>()
  for (let s = 0; s < d.steps.n; s++) {
    if (d.steps.start[s] >= from && d.steps.start[s] < to)
      steps.set(d.steps.phase[s], (steps.get(d.steps.phase[s]) ?? 0) + 1)
  }
  out.steps = [...steps].map(([phase, count]) => ({ phase, count }))
  return stop() ? null : out
}
