// SPDX-License-Identifier: Apache-2.0

// Finds operators: by number, by name, the same node in another step. Chunks are loaded as far as they are
// needed.
import type { TimelineOp } from '../../api/types'
import type { OpInfo, TimeData } from './data'
import type { OpChunk } from './decode'

async function ops(d: TimeData, i: number): Promise<OpChunk | null> {
  if (!d.chunks[i].kept || d.chunks[i].kind !== 'ops') return null
  const c = await d.chunk(i).catch(() => null)
  return c && c.kind === 'ops' ? c : null
}

/** The operator of that number, null if it is not in this file. */
export async function opById(d: TimeData, id: number): Promise<OpInfo | null> {
  for (let i = 0; i < d.chunks.length; i++) {
    const info = d.chunks[i]
    if (info.kind !== 'ops' || id < (info.first_op ?? 0) || id > (info.last_op ?? 0)) continue
    const c = await ops(d, i)
    const k = c ? c.id.indexOf(id) : -1
    if (c && k >= 0) return d.op(i, c, k)
  }
  return null
}

/** The operator of a step that fits, null if there is none in this file. */
export async function opOfStep(
  d: TimeData,
  step: number,
  fits: (def: TimelineOp, split: number) => boolean,
): Promise<OpInfo | null> {
  const from = d.steps.start[step]
  const to = from + d.steps.dur[step]
  for (const i of d.chunksIn(from, to)) {
    const c = await ops(d, i)
    if (!c) continue
    for (let k = 0; k < c.n; k++) {
      if (c.start[k] + c.dur[k] < from || c.start[k] > to) continue
      const g = d.graphs.byId.get(c.graph[k])
      if (
        g === undefined ||
        d.graphs.step[g] !== d.steps.id[step] ||
        !fits(d.defs[c.def[k]], d.graphs.split[g])
      )
        continue
      return d.op(i, c, k)
    }
  }
  return null
}

/** What runs the same node: its place in the graph, and what it is. */
export const sameAs = (d: TimeData, op: OpInfo) => {
  const split = op.graph >= 0 ? d.graphs.split[op.graph] : 0
  return (def: TimelineOp, s: number) =>
    s === split && def.node === op.def.node && def.op === op.def.op && def.name === op.def.name
}

/** The same node in a step before or after, in the same context. */
export async function neighbour(d: TimeData, op: OpInfo, dir: 1 | -1): Promise<OpInfo | null> {
  if (op.step < 0) return null
  const s = d.steps
  const fits = sameAs(d, op)
  let tried = 0
  for (let at = s.place[op.step] + dir; at >= 0 && at < s.n && tried < 64; at += dir) {
    const step = s.order[at]
    if (s.ctx[step] !== s.ctx[op.step] || s.phase[step] !== s.phase[op.step]) continue
    tried++
    const found = await opOfStep(d, step, fits)
    if (found) return found
  }
  return null
}

/** Whether an operator answers to what was typed. */
export function matcher(d: TimeData, query: string): (def: number) => boolean {
  const q = query.trim().toLowerCase()
  const names = (o: TimelineOp) => [o.name, o.op, o.weight, o.label].map((n) => n.toLowerCase())
  const exact = d.defs.map((o) => names(o).includes(q))
  if (exact.includes(true)) return (i) => exact[i]
  const part = d.defs.map((o) => q !== '' && names(o).some((n) => n.includes(q)))
  return (i) => part[i]
}

/** How many operators of the run a query finds. */
export function occurrences(d: TimeData, query: string): number {
  const fits = matcher(d, query)
  return d.defs.reduce((n, o, i) => n + (fits(i) ? o.calls : 0), 0)
}

/** The next operator that fits, from time on (dir -1: back). after is the number of the one to go on from. */
export async function nextOp(
  d: TimeData,
  query: string,
  time: number,
  dir: 1 | -1,
  after = -1,
): Promise<OpInfo | null> {
  const fits = matcher(d, query)
  if (!d.defs.some((_, i) => fits(i))) return null
  const order = d.chunks.map((_, i) => i).filter((i) => d.chunks[i].kind === 'ops' && d.chunks[i].kept)
  order.sort((x, y) => d.chunks[x].start_ns - d.chunks[y].start_ns)
  if (dir < 0) order.reverse()
  for (const i of order) {
    const info = d.chunks[i]
    if (dir > 0 ? info.start_ns + info.dur_ns < time : info.start_ns > time) continue
    const c = await ops(d, i)
    if (!c) continue
    let best = -1
    for (let k = 0; k < c.n; k++) {
      if (!fits(c.def[k]) || c.id[k] === after) continue
      const t = c.start[k]
      if (dir > 0 ? t < time : t > time) continue
      if (best < 0 || (dir > 0 ? t < c.start[best] : t > c.start[best])) best = k
    }
    if (best >= 0) return d.op(i, c, best)
  }
  return null
}
