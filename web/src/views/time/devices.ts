// SPDX-License-Identifier: Apache-2.0

// Copies between memories and devices' spans (profile/timeline/devices.go), and the tracks made of them.
import { Blocks, sums } from './columns'
import { spanSet } from './spans'
import type { Graphs, Group } from './tracks'

export interface Copies {
  n: number
  start: Float64Array
  dur: Float64Array
  thread: Float64Array
  step: Float64Array
  split: Float64Array
  kind: Float64Array
  tensor: Float64Array
  type: Float64Array
  from: Float64Array
  to: Float64Array
  bytes: Float64Array
  flags: Float64Array
}

/** When the host had waited for a graph. */
export interface Span {
  /** From the end of its call. */
  tail: number
  waited: number
  before: number
  thread: number
  /**
   * By the device's queue: when it could begin, from the graph's begin, and how long it had work of it; -1:
   * not seen.
   */
  begin: number
  busy: number
}

export function readCopies(b: ArrayBuffer | null): Copies {
  const cols = b
    ? new Blocks(new Uint8Array(b)).block(12)
    : Array.from({ length: 12 }, () => new Float64Array())
  const [start, dur, thread, step, split, kind, tensor, type, from, to, bytes, flags] = cols
  sums(start)
  return { n: start.length, start, dur, thread, step, split, kind, tensor, type, from, to, bytes, flags }
}

/** By index of the graph. Of several spans of one graph the longest counts. */
export function readDevices(b: ArrayBuffer | null, g: Graphs): Map<number, Span> {
  const out = new Map<number, Span>()
  if (!b) return out
  const [graph, tail, waited, before, thread, begin, busy] = new Blocks(new Uint8Array(b)).block(7)
  sums(graph)
  for (let i = 0; i < graph.length; i++) {
    const at = g.byId.get(graph[i])
    if (at === undefined || (out.get(at)?.tail ?? -1) > tail[i]) continue
    out.set(at, {
      tail: tail[i],
      waited: waited[i],
      before: before[i],
      thread: thread[i],
      begin: begin[i],
      busy: busy[i],
    })
  }
  return out
}

/** Graphs of one backend other than the CPU: the call, then until the host had waited. */
export function deviceGroup(
  pid: number,
  name: string,
  at: number[],
  g: Graphs,
  spans: Map<number, Span>,
): Group {
  const f = (v: (i: number) => number) => Float64Array.from(at, v)
  const mid = f((i) => g.start[i] + g.dur[i])
  const end = f((i) => g.start[i] + g.dur[i] + Math.max(0, spans.get(i)?.tail ?? 0))
  return {
    pid,
    name,
    device: true,
    set: spanSet(
      f((i) => g.start[i]),
      mid,
      end,
      new Uint8Array(at.length),
      Int32Array.from(at),
      { chans: 2, wait: 1 },
    ),
  }
}

/** Copies of each process, as spans; those whose end is not known are as short as can be. */
export function copyGroups(c: Copies, pidOf: (thread: number) => number): Group[] {
  const by = new Map<number, number[]>()
  for (let i = 0; i < c.n; i++) {
    const pid = pidOf(c.thread[i])
    const at = by.get(pid)
    if (at) at.push(i)
    else by.set(pid, [i])
  }
  return [...by].map(([pid, at]) => {
    const end = Float64Array.from(at, (i) => c.start[i] + Math.max(1, c.dur[i]))
    return {
      pid,
      name: '',
      set: spanSet(
        Float64Array.from(at, (i) => c.start[i]),
        end.slice(),
        end,
        new Uint8Array(at.length),
        Int32Array.from(at),
        { chans: 1 },
      ),
    }
  })
}

export const copyKinds = ['copied', 'set', 'read'] as const
