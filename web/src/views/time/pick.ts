// SPDX-License-Identifier: Apache-2.0

// What lies under the pointer, and what is selected.
import { stepDuration, type OpInfo, type TimeData } from './data'
import { faultBandHeight } from './faults'
import type { Row } from './rows'
import { spanAt } from './spans'

export type Picked =
  | { what: 'op'; run: number; op: OpInfo; row: string }
  | { what: 'step'; run: number; step: number; row: string }
  | { what: 'graph'; run: number; graph: number; row: string }
  | { what: 'copy'; run: number; copy: number; row: string }
  | { what: 'cpu'; run: number; cpu: number; runner: number; start: number; end: number; row: string }
  | { what: 'loss'; run: number; loss: number; row: string }
  | { what: 'fault'; run: number; fault: number; start: number; end: number; row: string }
  | {
      what: 'state'
      run: number
      thread: number
      state: number
      cpu: number
      start: number
      end: number
      row: string
    }

/** Height of a thread's strip of states with its margin, in CSS pixels. */
export const stateStripHeight = 12

/** What is at a time of a row; y is from the row's top, slack in ns. */
export function pick(d: TimeData, row: Row, t: number, y: number, slack: number): Picked | null {
  const base = { run: row.run, row: row.key }
  if (row.kind === 'steps' || row.kind === 'rate') {
    const i = spanAt(row.group!.set, t, slack)
    return i < 0 ? null : { what: 'step', step: row.group!.set.ref[i], ...base }
  }
  if (row.kind === 'copies') {
    const i = spanAt(row.group!.set, t, slack)
    return i < 0 ? null : { what: 'copy', copy: row.group!.set.ref[i], ...base }
  }
  if (row.kind === 'graphs' || row.kind === 'device') {
    const i = spanAt(row.group!.set, t, slack)
    return i < 0 ? null : { what: 'graph', graph: row.group!.set.ref[i], ...base }
  }
  if (row.kind === 'group') {
    const i = (d.index.losses ?? []).findIndex(
      (l) => t >= l.start_ns - slack && t <= l.start_ns + l.dur_ns + slack,
    )
    return i < 0 ? null : { what: 'loss', loss: i, ...base }
  }
  if (row.kind !== 'thread' && row.kind !== 'cpu') return null
  const inStrip = row.kind === 'thread' && y > row.h - stateStripHeight
  if (row.kind === 'thread' && !inStrip && y > row.h - stateStripHeight - faultBandHeight - 2) {
    const i = d.faults?.at(row.index, t, slack) ?? -1
    if (i >= 0) return faultOf(d, i, base)
  }
  let best: Picked | null = null
  let dist = Infinity
  for (const n of d.chunksIn(t - slack, t + slack + 1)) {
    const kind = d.chunks[n].kind
    if ((kind === 'ops') !== (row.kind === 'thread' && !inStrip)) continue
    const c = d.peek(n)
    if (!c) continue
    const lanes = c.kind === 'ops' ? c.lanes : inStrip ? c.states : c.cpus
    const s = lanes.find((l) => l.index === row.index)?.set
    const i = s ? spanAt(s, t, slack) : -1
    if (!s || i < 0) continue
    const far = Math.max(0, s.start[i] - t, t - s.end[i])
    if (far >= dist) continue
    dist = far
    if (c.kind === 'ops') best = { what: 'op', op: d.op(n, c, c.op[s.ref[i]]), ...base }
    else if (inStrip)
      best = {
        what: 'state',
        thread: row.index,
        state: s.kind[i],
        cpu: s.ref[i],
        start: s.start[i],
        end: s.end[i],
        ...base,
      }
    else best = { what: 'cpu', cpu: row.index, runner: s.ref[i], start: s.start[i], end: s.end[i], ...base }
  }
  return best
}

/** A fault as something that is picked. */
export function faultOf(d: TimeData, fault: number, base: { run: number; row: string }): Picked {
  const m = d.faults!.m
  return {
    what: 'fault',
    fault,
    start: m.start_ns[fault],
    end: m.start_ns[fault] + Math.max(0, m.dur_ns[fault]),
    ...base,
  }
}

/** Where it lies in its run's time. */
export function spanOf(d: TimeData, p: Picked): [number, number] {
  switch (p.what) {
    case 'op':
      return [p.op.start, p.op.start + p.op.dur]
    case 'step':
      return [d.steps.start[p.step], d.steps.start[p.step] + stepDuration(d, p.step)]
    case 'graph':
      return [
        d.graphs.start[p.graph],
        d.graphs.start[p.graph] + d.graphs.dur[p.graph] + Math.max(0, d.waits.get(p.graph)?.tail ?? 0),
      ]
    case 'copy':
      return [d.copies.start[p.copy], d.copies.start[p.copy] + Math.max(1, d.copies.dur[p.copy])]
    case 'loss': {
      const l = d.index.losses![p.loss]
      return [l.start_ns, l.start_ns + l.dur_ns]
    }
    default:
      return [p.start, p.end]
  }
}
