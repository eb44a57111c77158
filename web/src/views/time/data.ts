// SPDX-License-Identifier: Apache-2.0

// One run's timeline: what is always there (steps, graphs, overview), and chunks that come when they are
// looked at and go when others need their place.
import type { Run } from '../../api/load'
import { cpuChannels, phases, threadChannels } from '../../api/timeline'
import type { Timeline as TimeIndex, TimelineChunk, TimelineOp } from '../../api/types'
import { work } from '../../api/worker-client'
import { metricsOf, valueOf, type Metric } from '../../lib/counters'
import { Blocks, starts, sums } from './columns'
import type { Level, OpChunk, SchedChunk } from './decode'
import { copyGroups, deviceGroup, readCopies, readDevices, type Copies, type Span } from './devices'
import { FaultTracks } from './faults'
import { spanSet, withLevels, type Bins } from './spans'
import { opsTask, schedTask } from './tasks'
import type { Graphs, Group } from './tracks'

export type Chunk = OpChunk | SchedChunk

/** Bytes of unpacked chunks that are kept. */
const cacheBytes = 160 << 20
/** Chunks that are asked for at a time. */
const parallel = 3

export interface Steps {
  n: number
  id: Float64Array
  start: Float64Array
  dur: Float64Array
  phase: Float64Array
  thread: Float64Array
  tokens: Float64Array
  seqs: Float64Array
  outputs: Float64Array
  pos: Float64Array
  ctx: Float64Array
  graphs: Float64Array
  ops: Float64Array
  opsDur: Float64Array
  incomplete: Float64Array
  untraced: Float64Array
  entry: Float64Array
  /** From the end of its call to when its results were there; -1: not seen. */
  late: Float64Array
  byId: Map<number, number>
  /** Indexes in order of start. */
  order: Int32Array
  /** Place of a step in order. */
  place: Int32Array
}

/** An operator as the panel and the overlay show it, independent of its chunk. */
export interface OpInfo {
  id: number
  chunk: number
  def: TimelineOp
  start: number
  dur: number
  probe: number
  graph: number // index in Graphs, -1: none
  step: number // index in Steps, -1: none
  followed: boolean
  incomplete: boolean
  spans: {
    thread: number
    ith: number
    cpu: number
    start: number
    busy: number
    off: number
    wait: number
    counts: number[]
  }[]
}

export class TimeData {
  readonly steps: Steps
  readonly graphs: Graphs
  readonly stepRows: Group[]
  readonly graphRows: Group[]
  readonly copies: Copies
  readonly copyRows: Group[]
  /** When the host had waited for graphs, by their index. */
  readonly waits: Map<number, Span>
  readonly threadBins = new Map<number, Bins>()
  readonly cpuBins = new Map<number, Bins>()
  readonly chunks: TimelineChunk[]
  readonly defs: TimelineOp[]
  /** Chunks that are not in this file. */
  readonly left: number
  private kinds: Uint8Array
  private runners: Uint8Array
  private threadOf: Int32Array
  private cache = new Map<number, Chunk>()
  private loading = new Map<number, Promise<Chunk>>()
  private failed = new Map<number, string>()
  private wanted: number[] = []
  private held = 0
  /** What counters tell of operators; empty where there are none. */
  readonly metrics: Metric[]
  /** Page faults one by one; null where none were recorded. */
  faults: FaultTracks | null = null
  private level: Level | undefined
  /** Called when a chunk has come. */
  onChunk: () => void = () => {}

  private constructor(
    readonly run: Run,
    readonly index: TimeIndex,
    steps: ArrayBuffer,
    graphs: ArrayBuffer,
    overview: ArrayBuffer,
    copies: ArrayBuffer | null,
    devices: ArrayBuffer | null,
  ) {
    this.chunks = index.chunks ?? []
    this.defs = index.ops ?? []
    this.metrics = metricsOf(
      index.counters,
      (run.stats.weight.phases ?? []).flatMap((p) => p.rows ?? []),
    )
    this.left = this.chunks.filter((c) => !c.kept).length
    this.kinds = Uint8Array.from(this.defs, (d) => d.kind)
    this.runners = Uint8Array.from(index.runners ?? [], (r, i) => (i === 0 ? 2 : r.thread >= 0 ? 0 : 1))
    this.threadOf = Int32Array.from(index.runners ?? [], (r, i) => (i === 0 ? -1 : r.thread))
    this.steps = readSteps(steps)
    this.graphs = readGraphs(graphs)
    const text = (i: number) => index.strings?.[i] ?? ''
    const threads = index.threads ?? []
    const s = this.steps
    this.stepRows = rows(
      s.n,
      (i) => [threads[s.thread[i]]?.pid ?? 0, text(s.ctx[i])],
      s.start,
      s.dur,
      s.phase,
      phases.length,
      s.late,
    )
    const g = this.graphs
    this.waits = readDevices(devices, g)
    this.graphRows = rows(
      g.n,
      (i) => [threads[g.thread[i]]?.pid ?? 0, text(g.backend[i])],
      g.start,
      g.dur,
      new Float64Array(g.n),
      1,
    ).map((r) =>
      r.name === 'CPU' || r.name === ''
        ? r
        : deviceGroup(r.pid, r.name, Array.from(r.set.ref), g, this.waits),
    )
    this.copies = readCopies(copies)
    this.copyRows = copyGroups(this.copies, (t) => threads[t]?.pid ?? 0)
    const b = new Blocks(new Uint8Array(overview))
    for (const t of index.overview.tracks ?? []) {
      const chans = t.track === 'thread' ? threadChannels : cpuChannels
      const cols = b.block(chans)
      const cells = new Float32Array(t.bins * chans)
      cols.forEach((col, c) => col.forEach((v, i) => (cells[i * chans + c] = v)))
      const bins = withLevels(t.start_ns, index.overview.bin_ns, chans, cells)
      ;(t.track === 'thread' ? this.threadBins : this.cpuBins).set(t.index, bins)
    }
  }

  static async load(run: Run): Promise<TimeData> {
    const some = (name: string) => (run.has(name) ? run.bytes(name) : null)
    const [index, steps, graphs, overview, copies, devices] = await Promise.all([
      run.json('time'),
      run.bytes('time/steps'),
      run.bytes('time/graphs'),
      run.bytes('time/overview'),
      some('time/copies'),
      some('time/devices'),
    ])
    const d = new TimeData(run, index, steps, graphs, overview, copies, devices)
    // Without them the timeline is as good as it was.
    const marks = run.has('faults/marks') ? await run.json('faults/marks').catch(() => null) : null
    if (marks) d.faults = new FaultTracks(marks, index.threads ?? [])
    return d
  }

  /**
   * The highest that a metric is of any row of the statistics: what its colours end with. A count is one for
   * each µs on a CPU.
   */
  topOf(m: Metric): number {
    let top = 0
    for (const p of this.run.stats.weight.phases ?? []) {
      for (const r of p.rows ?? []) {
        const v = valueOf(m, r.counts)
        top = Math.max(
          top,
          m.kind === 'count'
            ? v != null && r.busy_ns > 0
              ? (v * r.calls * 1000) / r.busy_ns
              : 0
            : (v ?? 0) / (m.kind === 'mpki' ? 1000 : 1),
        )
      }
    }
    return top
  }

  /** Colours spans by levels of a metric, or by kinds of operators again. Chunks are read anew. */
  colour(m: Metric | null, top: number): void {
    this.level = m ? { over: m.over, by: m.kind === 'count' ? -1 : m.by, times: m.times, top } : undefined
    this.cache.clear()
    this.loading.clear()
    this.held = 0
  }

  text(i: number): string {
    return this.index.strings?.[i] ?? ''
  }

  /** Chunks that reach into from..to. */
  chunksIn(from: number, to: number): number[] {
    const out: number[] = []
    for (let i = 0; i < this.chunks.length; i++) {
      const c = this.chunks[i]
      if (c.start_ns < to && c.start_ns + c.dur_ns > from) out.push(i)
    }
    return out
  }

  /** A chunk that is here. */
  peek(i: number): Chunk | undefined {
    const c = this.cache.get(i)
    if (c) {
      this.cache.delete(i) // the last used is the last to go
      this.cache.set(i, c)
    }
    return c
  }

  /** Says which chunks the picture needs, the most wanted first. */
  want(list: number[]): void {
    this.wanted = list.filter(
      (i) => this.chunks[i].kept && !this.cache.has(i) && !this.loading.has(i) && !this.failed.has(i),
    )
    this.pump()
  }

  private pump(): void {
    while (this.loading.size < parallel && this.wanted.length) {
      const i = this.wanted.shift()!
      this.chunk(i).catch(() => {})
    }
  }

  failure(i: number): string | undefined {
    return this.failed.get(i)
  }

  /** A chunk, loaded if it is not here. */
  chunk(i: number): Promise<Chunk> {
    const c = this.peek(i)
    if (c) return Promise.resolve(c)
    let p = this.loading.get(i)
    if (!p) {
      const level = this.level
      const mine: Promise<Chunk> = this.fetch(i)
        .then((got) => {
          if (level === this.level) this.keep(i, got) // else other colours were chosen meanwhile
          return got
        })
        .catch((e: Error) => {
          this.failed.set(i, e.message)
          throw e
        })
        .finally(() => {
          if (this.loading.get(i) === mine) this.loading.delete(i)
          this.pump()
          this.onChunk()
        })
      p = mine
      this.loading.set(i, p)
    }
    return p
  }

  private async fetch(i: number): Promise<Chunk> {
    const c = this.chunks[i]
    if (!c.kept) throw new Error('this part of the run is not in this file')
    const bytes = await this.run.bytes(`time/${i}`)
    const threads = this.index.threads?.length ?? 0
    if (c.kind === 'ops')
      return work(opsTask, { bytes, base: c.base_ns, kinds: this.kinds, threads, level: this.level }, [bytes])
    return work(
      schedTask,
      { bytes, base: c.base_ns, runners: this.runners, threadOf: this.threadOf, threads },
      [bytes],
    )
  }

  private keep(i: number, c: Chunk): void {
    this.cache.set(i, c)
    this.held += c.bytes
    for (const [k, old] of this.cache) {
      if (this.held <= cacheBytes || k === i) break
      this.cache.delete(k)
      this.held -= old.bytes
    }
  }

  /** Spans of operators that are here. */
  get spans(): number {
    let n = 0
    for (const c of this.cache.values()) if (c.kind === 'ops') n += c.op.length
    return n
  }

  get busy(): boolean {
    return this.loading.size > 0
  }

  /** Operator number k of a chunk. */
  op(chunk: number, c: OpChunk, k: number): OpInfo {
    const graph = this.graphs.byId.get(c.graph[k]) ?? -1
    const step = graph >= 0 ? (this.steps.byId.get(this.graphs.step[graph]) ?? -1) : -1
    const spans = []
    for (let s = c.first[k]; s < c.first[k + 1]; s++) {
      spans.push({
        thread: c.thread[s],
        ith: c.ith[s],
        cpu: c.cpu[s],
        start: c.at[s],
        busy: c.busy[s],
        off: c.off[s],
        wait: c.wait[s],
        counts: c.counts.map((v) => v[s]),
      })
    }
    return {
      id: c.id[k],
      chunk,
      def: this.defs[c.def[k]],
      start: c.start[k],
      dur: c.dur[k],
      probe: c.probe[k],
      graph,
      step,
      followed: (c.flags[k] & 1) > 0,
      incomplete: (c.flags[k] & 2) > 0,
      spans,
    }
  }
}

function readSteps(b: ArrayBuffer): Steps {
  const c = new Blocks(new Uint8Array(b)).block(17)
  const [
    id,
    start,
    dur,
    phase,
    thread,
    tokens,
    seqs,
    outputs,
    pos,
    ctx,
    graphs,
    ops,
    opsDur,
    incomplete,
    untraced,
    entry,
    late,
  ] = c
  sums(id)
  starts(start, dur)
  const n = id.length
  const byId = new Map<number, number>()
  for (let i = 0; i < n; i++) byId.set(id[i], i)
  const order = Int32Array.from({ length: n }, (_, i) => i).sort((x, y) => start[x] - start[y] || x - y)
  const place = new Int32Array(n)
  order.forEach((i, at) => (place[i] = at))
  return {
    n,
    id,
    start,
    dur,
    phase,
    thread,
    tokens,
    seqs,
    outputs,
    pos,
    ctx,
    graphs,
    ops,
    opsDur,
    incomplete,
    untraced,
    entry,
    late,
    byId,
    order,
    place,
  }
}

function readGraphs(b: ArrayBuffer): Graphs {
  const [id, step, start, dur, thread, split, backend, nodes, ops, shape, flags, untraced, caller] =
    new Blocks(new Uint8Array(b)).block(13)
  sums(id)
  starts(start, dur)
  const byId = new Map<number, number>()
  for (let i = 0; i < id.length; i++) byId.set(id[i], i)
  return {
    n: id.length,
    id,
    step,
    start,
    dur,
    thread,
    split,
    backend,
    nodes,
    ops,
    shape,
    flags,
    untraced,
    caller,
    byId,
  }
}

/** Parts steps or graphs into tracks; late is what comes after their calls. */
function rows(
  n: number,
  key: (i: number) => [number, string],
  start: Float64Array,
  dur: Float64Array,
  kind: Float64Array,
  chans: number,
  late?: Float64Array,
): Group[] {
  const by = new Map<string, { pid: number; name: string; at: number[] }>()
  for (let i = 0; i < n; i++) {
    const [pid, name] = key(i)
    const k = pid + ' ' + name
    let g = by.get(k)
    if (!g) by.set(k, (g = { pid, name, at: [] }))
    g.at.push(i)
  }
  return [...by.values()].map((g) => {
    const mid = Float64Array.from(g.at, (i) => start[i] + dur[i])
    const end = late ? Float64Array.from(g.at, (i) => start[i] + dur[i] + Math.max(0, late[i])) : mid.slice()
    const kinds = Uint8Array.from(g.at, (i) => Math.min(127, Math.max(0, kind[i])))
    return {
      pid: g.pid,
      name: g.name,
      set: spanSet(
        Float64Array.from(g.at, (i) => start[i]),
        mid,
        end,
        kinds,
        Int32Array.from(g.at),
        late ? { chans: chans + 1, wait: chans } : { chans },
      ),
    }
  })
}

/** How long a step took until its results were there, null where that was not seen. */
export function endToEnd(d: TimeData, s: number): number | null {
  return d.steps.late[s] < 0 ? null : d.steps.dur[s] + d.steps.late[s]
}

/** How long a step took as far as was seen: at least its call. */
export const stepDuration = (d: TimeData, s: number): number => d.steps.dur[s] + Math.max(0, d.steps.late[s])
