// SPDX-License-Identifier: Apache-2.0

// The roofs of runs as lines of a plot.
import type { RoofUsedRoof } from '../../api/types'
import { num } from '../../lib/format'
import type { Layer, Note } from '../../ui/plot'

/** A line of a roof: what several types or runs share is drawn once. */
export interface Edge {
  threads: number
  /** GB/s of a slanted edge, GFLOP/s of a level one. */
  rate: number
  slanted: boolean
  /** A ceiling below the roof: one stream; or above it: matrix instructions. */
  ceiling: string
  units: string
  types: string[]
  run: number
}

const near = (a: number, b: number): boolean => Math.abs(a - b) <= 1e-6 * Math.max(a, b)

/** The edges of all roofs, those that are alike joined. */
export function edgesOf(runs: RoofUsedRoof[][]): Edge[] {
  const out: Edge[] = []
  const add = (e: Edge) => {
    const o = out.find(
      (x) =>
        x.slanted === e.slanted &&
        x.threads === e.threads &&
        x.ceiling === e.ceiling &&
        near(x.rate, e.rate) &&
        (e.slanted || x.units === e.units),
    )
    if (!o) out.push(e)
    else for (const t of e.types) if (!o.types.includes(t)) o.types.push(t)
  }
  runs.forEach((roofs, run) => {
    for (const r of roofs) {
      const e = { threads: r.threads, units: r.units, types: [r.weight], run }
      if (r.gb_s) add({ ...e, rate: r.gb_s, slanted: true, ceiling: '' })
      if (r.stream_gb_s) add({ ...e, rate: r.stream_gb_s, slanted: true, ceiling: 'one stream a thread' })
      if (r.gflop_s) add({ ...e, rate: r.gflop_s, slanted: false, ceiling: '' })
      if (r.matrix_gflop_s)
        add({ ...e, rate: r.matrix_gflop_s, slanted: false, ceiling: 'matrix instructions' })
    }
  })
  return out
}

const threadsText = (n: number): string => `${n} thread${n === 1 ? '' : 's'}`

/** Operations on integers are no floating point operations. */
export const unitName = (units: string): string => (units === 'int8' ? 'GOP/s' : 'GFLOP/s')

/** Places along a line from a to b of a logarithmic axis, the middle first. */
const along = (a: number, b: number, y: (x: number) => number): [number, number][] =>
  [0.5, 0.3, 0.7, 0.15, 0.85].map((f) => a * (b / a) ** f).map((x) => [x, y(x)])

/** Lines and labels of roofs over x from lo to hi. */
export function roofLayers(
  edges: Edge[],
  lo: number,
  hi: number,
  color: string,
  names: [string, string] | null,
): { layers: Layer[]; notes: Note[] } {
  const layers: Layer[] = []
  const first: Note[] = []
  const last: Note[] = []
  const who = (e: Edge) => (names && edges.some((x) => x.run !== e.run) ? `, ${names[e.run]}` : '')
  const mates = (e: Edge, slanted: boolean) =>
    edges
      .filter((x) => x.slanted === slanted && !x.ceiling && x.threads === e.threads && x.run === e.run)
      .map((x) => x.rate)
  for (const e of edges) {
    const [width, dash, alpha] = e.ceiling ? [1, [2, 4], 0.8] : [1.6, e.run ? [7, 4] : undefined, 1]
    const line = { legend: false, kind: 'line' as const, color, width, dash, alpha }
    const text = (s: string) =>
      s + (e.ceiling ? `, ${e.ceiling}` : '') + `, ${threadsText(e.threads)}` + who(e)
    const notes = e.ceiling ? last : first
    if (e.slanted) {
      // It ends where the highest level edge begins; without one it has no end.
      const level = mates(e, false)
      const end = level.length ? Math.min(hi, Math.max(...level) / e.rate) : hi
      if (end <= lo) continue
      layers.push({ ...line, name: 'memory', xs: [lo, end], ys: [lo * e.rate, end * e.rate] })
      notes.push({
        kind: 'slanted',
        text: text(`${num(e.rate)} GB/s`),
        at: along(lo, end, (x) => x * e.rate).sort((p, q) => p[0] - q[0]),
      })
    } else {
      const memory = mates(e, true)
      const ridge = memory.length ? e.rate / Math.max(...memory) : null
      const start = Math.max(lo, ridge ?? lo)
      if (start >= hi) continue
      layers.push({ ...line, name: 'compute', xs: [start, hi], ys: [e.rate, e.rate] })
      if (ridge != null && ridge > lo && !e.ceiling)
        first.push({ kind: 'dot', text: `ridge ${num(ridge)} FLOP/byte`, at: [[ridge, e.rate]] })
      notes.push({
        kind: 'level',
        text: text(`${num(e.rate)} ${unitName(e.units)}${e.units ? ' ' + e.units : ''}`),
        at: [1, 0.8, 0.6, 0.4, 0.2].map((f) => [start * (hi / start) ** f, e.rate]),
      })
    }
  }
  return { layers, notes: [...first, ...last] }
}
