// SPDX-License-Identifier: Apache-2.0

// The worker's part of the timeline: chunks into arrays that can be drawn (profile/timeline_ops.go and
// _sched.go have the columns).
import { chanOff, chanWait, cpuChannels, threadChannels } from '../../api/timeline'
import { Blocks, starts, sums } from './columns'
import { buffers, sizeOf, spanSet, type SpanSet } from './spans'

/** Spans of one thread or CPU. */
export interface Lane {
  index: number
  set: SpanSet
}

/** Operators of a chunk. Spans of operator i are first[i]..first[i+1]. */
export interface OpChunk {
  kind: 'ops'
  n: number
  id: Float64Array
  def: Int32Array
  graph: Float64Array
  start: Float64Array
  dur: Float64Array
  probe: Float64Array
  flags: Uint8Array
  first: Int32Array
  op: Int32Array // of a span: its operator here
  thread: Int32Array
  ith: Int32Array // -1: not known
  at: Float64Array
  busy: Float64Array
  off: Float64Array
  wait: Float64Array
  cpu: Int32Array
  /** Of each counter what was counted in each span, -1 where it is not known. */
  counts: Float64Array[]
  /** By thread; a set's ref is the span's number here. */
  lanes: Lane[]
  bytes: number
}

export interface SchedChunk {
  kind: 'sched'
  /** By CPU: kind 0 an engine's thread, 1 another, 2 not seen; ref is the runner. */
  cpus: Lane[]
  /** By thread: kind is the state (0: Running), ref the CPU. */
  states: Lane[]
  bytes: number
}

export interface OpsArg {
  bytes: ArrayBuffer
  base: number
  /** Kind of each operator of the index. */
  kinds: Uint8Array
  threads: number
  /** Spans' kinds are levels of this in place of kinds of operators. */
  level?: Level
}

/**
 * counts[over], added up, / (counts[by] × times), or with by -1 for each µs on a CPU: from 0 to top in as
 * many levels as there are kinds, less one for what is not known.
 */
export interface Level {
  over: number[]
  by: number
  times: number
  top: number
}

/** The level of a value that is not known. */
export const noLevel = threadChannels - 3

export function levelOf(l: Level, count: (i: number) => number, busy: number): number {
  const first = count(l.over[0])
  const a = l.over.slice(1).reduce((n, i) => n + Math.max(0, count(i) || 0), first)
  const b = l.by >= 0 ? count(l.by) * l.times : busy / 1000
  if (!(first >= 0) || !(b > 0) || !(l.top > 0)) return noLevel
  return Math.min(noLevel - 1, Math.floor((a / b / l.top) * noLevel))
}

export interface SchedArg {
  bytes: ArrayBuffer
  base: number
  /** Of each runner: 0 an engine's thread, 1 another, 2 not seen. */
  runners: Uint8Array
  /** Thread of each runner, -1: none of the engine's. */
  threadOf: Int32Array
  threads: number
}

const damaged = () => new Error('this part of the timeline is damaged')

export function timeOps(arg: OpsArg): { result: OpChunk; transfer: ArrayBuffer[] } {
  const b = new Blocks(new Uint8Array(arg.bytes))
  const [id, def, graph, start, dur, probe, flags, team] = b.block(8)
  const [thread, ith, at, off, wait, rest, cpu] = b.block(7)
  const n = id.length
  const m = thread.length
  const counts = b.more ? b.block(-1) : []
  if (counts.some((c) => c.length !== m)) throw damaged()
  sums(id)
  sums(def)
  sums(graph)
  sums(probe)
  starts(start, dur, arg.base)
  const first = new Int32Array(n + 1)
  const op = new Int32Array(m)
  const busy = new Float64Array(m)
  const last: Record<number, number> = {}
  const sizes = new Map<number, number>()
  let s = 0
  for (let i = 0; i < n; i++) {
    if (def[i] < 0 || def[i] >= arg.kinds.length || team[i] < 0 || s + team[i] > m) throw damaged()
    const end = start[i] + dur[i]
    let next = 0
    for (let k = 0; k < team[i]; k++, s++) {
      const t = (thread[s] += next)
      if (t < 0 || t >= arg.threads) throw damaged()
      next = t + 1
      ith[s] += k
      op[s] = i
      at[s] += start[i]
      busy[s] = rest[s] + (end - at[s] - off[s] - wait[s])
      cpu[s] = last[t] = (last[t] ?? 0) + cpu[s]
      sizes.set(t, (sizes.get(t) ?? 0) + 1)
    }
    first[i + 1] = s
  }
  if (s !== m) throw damaged()
  const lanes: Lane[] = []
  for (const [t, count] of [...sizes].sort((x, y) => x[0] - y[0])) {
    const from = new Float64Array(count)
    const mid = new Float64Array(count)
    const to = new Float64Array(count)
    const offs = new Float64Array(count)
    const kind = new Uint8Array(count)
    const ref = new Int32Array(count)
    let j = 0
    for (let k = 0; k < m; k++) {
      if (thread[k] !== t) continue
      const i = op[k]
      const end = start[i] + dur[i]
      const arrived = busy[k] + off[k] + wait[k] > 0
      from[j] = at[k]
      mid[j] = arrived ? Math.min(end, at[k] + busy[k] + off[k]) : end
      to[j] = end
      offs[j] = off[k]
      kind[j] =
        (arg.level ? levelOf(arg.level, (c) => counts[c]?.[k] ?? -1, busy[k]) : arg.kinds[def[i]]) |
        (arrived ? 0 : 128)
      ref[j++] = k
    }
    lanes.push({
      index: t,
      set: spanSet(from, mid, to, kind, ref, {
        chans: threadChannels,
        wait: chanWait,
        off: chanOff,
        offTime: offs,
      }),
    })
  }
  const result: OpChunk = {
    kind: 'ops',
    n,
    id,
    def: Int32Array.from(def),
    graph,
    start,
    dur,
    probe,
    flags: Uint8Array.from(flags),
    first,
    op,
    thread: Int32Array.from(thread),
    ith: Int32Array.from(ith),
    at,
    busy,
    off,
    wait,
    cpu: Int32Array.from(cpu),
    counts,
    lanes,
    bytes: 0,
  }
  const own = [
    id,
    graph,
    start,
    dur,
    probe,
    first,
    op,
    at,
    busy,
    off,
    wait,
    result.def,
    result.flags,
    result.thread,
    result.ith,
    result.cpu,
    ...counts,
  ].map((a) => a.buffer as ArrayBuffer)
  result.bytes = own.reduce((v, x) => v + x.byteLength, 0) + lanes.reduce((v, l) => v + sizeOf(l.set), 0)
  return { result, transfer: [...own, ...lanes.flatMap((l) => buffers(l.set))] }
}

export function timeSched(arg: SchedArg): { result: SchedChunk; transfer: ArrayBuffer[] } {
  const b = new Blocks(new Uint8Array(arg.bytes))
  const [cpu, rStart, rDur, runner] = b.block(5)
  const [thread, sStart, sDur, what, where] = b.block(6)
  starts(rStart, rDur, arg.base)
  starts(sStart, sDur, arg.base)
  for (let i = 0; i < runner.length; i++)
    if (!(runner[i] >= 0 && runner[i] < arg.runners.length)) throw damaged()
  const cpus = laned(cpu, rStart, rDur, (i) => arg.runners[runner[i]], runner, cpuChannels)
  // Where a thread ran, from the CPUs: its states tell only when it was on none.
  const on: number[] = []
  runner.forEach((v, i) => (arg.threadOf[v] ?? -1) >= 0 && on.push(i))
  const both = (a: Float64Array, f: (i: number) => number) => Float64Array.from([...a, ...on.map(f)])
  const m = thread.length
  const states = laned(
    both(thread, (i) => arg.threadOf[runner[i]]),
    both(sStart, (i) => rStart[i]),
    both(sDur, (i) => rDur[i]),
    (i) => (i < m ? what[i] & 7 : 0),
    both(where, (i) => cpu[i]),
    8,
  )
  const all = [...cpus, ...states]
  return {
    result: { kind: 'sched', cpus, states, bytes: all.reduce((v, l) => v + sizeOf(l.set), 0) },
    transfer: all.flatMap((l) => buffers(l.set)),
  }
}

/** Parts spans into lanes. */
function laned(
  lane: Float64Array,
  start: Float64Array,
  dur: Float64Array,
  kind: (i: number) => number,
  ref: Float64Array,
  chans: number,
): Lane[] {
  const by = new Map<number, number[]>()
  for (let i = 0; i < lane.length; i++) {
    const l = by.get(lane[i])
    if (l) l.push(i)
    else by.set(lane[i], [i])
  }
  return [...by]
    .sort((x, y) => x[0] - y[0])
    .map(([index, at]) => {
      const end = Float64Array.from(at, (i) => start[i] + dur[i])
      return {
        index,
        set: spanSet(
          Float64Array.from(at, (i) => start[i]),
          end.slice(),
          end,
          Uint8Array.from(at, kind),
          Int32Array.from(at, (i) => ref[i]),
          { chans },
        ),
      }
    })
}
