// SPDX-License-Identifier: Apache-2.0

// Pairs of the same operators on two sides: a side is a backend of a recording. Times are those of package
// profile; of a graph on one side the operators' times on the other are added up here where the other is
// another recording.
import type { OffloadBackendGraph, OffloadBackendOp, OffloadLayerSet, OffloadPhase } from '../../../api/types'
import { dimsText, looseKey, opKey, isUpperBound, timedWords } from './words'

export interface Side {
  /** Of the address: the run's number and the backend. */
  id: string
  run: number
  backend: string
  phase: OffloadPhase
}

export interface BackendTime {
  mean: number | null
  by: string
  layers: OffloadLayerSet | null
  rate: number | null
  note: string
}

export interface Row {
  id: string
  name: string
  op: string
  type: string
  dims: string
  a: BackendTime | null
  b: BackendTime | null
  ratio: number | null
  sign: string
  ratioNote: string
  graph: boolean
  known: number
  of: number
  work: number | null
  flops: number | null
  bytes: number | null
  all: string
}

/** The sides of one phase: CPUs first. */
export function operatorSides(phases: (OffloadPhase | null)[]): Side[] {
  return phases.flatMap((phase, run) => {
    if (!phase) return []
    const names = new Set(phase.operators_by_backend.flatMap((o) => o.backends.map((b) => b.backend)))
    return [...names]
      .sort((x, y) => Number(y === 'CPU') - Number(x === 'CPU') || (x < y ? -1 : 1))
      .map((backend) => ({ id: `${run}${backend}`, run, backend, phase }))
  })
}

const timeOn = (o: OffloadBackendOp, backend: string) => o.backends.find((b) => b.backend === backend) ?? null

function half(o: OffloadBackendOp, backend: string): BackendTime | null {
  const t = timeOn(o, backend)
  return (
    t && {
      mean: t.mean_ns,
      by: t.timed_by,
      layers: t.layers,
      rate: t.gflop_per_s,
      note: `${timedWords[t.timed_by]}${t.timed_calls > 0 ? `; ${t.timed_calls} calls` : ''}`,
    }
  )
}

/** Operators of one side by what they are; where types differ, without them. */
function index(s: Side): (o: OffloadBackendOp) => OffloadBackendOp | null {
  const exact = new Map<string, OffloadBackendOp>()
  const loose = new Map<string, OffloadBackendOp | null>()
  for (const o of s.phase.operators_by_backend) {
    if (!timeOn(o, s.backend)) continue
    exact.set(opKey(o), o)
    loose.set(looseKey(o), loose.has(looseKey(o)) ? null : o)
  }
  return (o) => exact.get(opKey(o)) ?? loose.get(looseKey(o)) ?? null
}

/** Operators that both sides ran, those whose time is known on both first, then graphs of several. */
export function compareOperators(a: Side, b: Side): Row[] {
  const other = index(b)
  const rows: Row[] = []
  for (const o of a.phase.operators_by_backend) {
    if (!timeOn(o, a.backend)) continue
    const p = other(o)
    if (!p) continue
    const [x, y] = [half(o, a.backend)!, half(p, b.backend)!]
    const ratio = x.mean != null && x.mean > 0 && y.mean != null ? y.mean / x.mean : null
    rows.push({
      id: opKey(o),
      name: o.key,
      op: o.op,
      type: o.type === p.type ? o.type : `${o.type}, ${p.type}`,
      dims: dimsText(o),
      a: x,
      b: y,
      ratio,
      sign: sign(x.by, y.by),
      ratioNote: ratioNote(x.by, y.by),
      graph: false,
      known: 1,
      of: 1,
      work: null,
      flops: o.flops,
      bytes: o.bytes,
      all: o.key,
    })
  }
  rows.push(...graphs(a, b, false), ...graphs(b, a, true))
  const rank = (r: Row) => (r.ratio != null ? 2 : r.graph ? 1 : 0)
  const cost = (r: Row) => Math.max(r.a?.mean ?? 0, r.b?.mean ?? 0)
  return rows
    .map((r, i) => ({ r, i }))
    .sort((p, q) => rank(q.r) - rank(p.r) || cost(q.r) - cost(p.r) || p.i - q.i)
    .map((x) => x.r)
}

/**
 * The sign of the other's time over the one's: at most where the other's, at least where the one's is more
 * than the truth.
 */
function sign(a: string, b: string): string {
  if (isUpperBound(a) && isUpperBound(b)) return '~ '
  return isUpperBound(b) ? '≤ ' : isUpperBound(a) ? '≥ ' : ''
}

const ratioNote = (a: string, b: string): string =>
  isUpperBound(a) || isUpperBound(b) ? 'a device’s time is known as at least what it took' : ''

/** Graphs of several operators on side g, beside what these take on side s. turned: g is the other side. */
function graphs(g: Side, s: Side, turned: boolean): Row[] {
  const other = index(s)
  return g.phase.graphs_by_backend
    .filter((x) => x.backend === g.backend && x.mean_ns != null)
    .map((x, i) => {
      let sum = 0
      let known = 0
      let work = 0
      let all = 0
      const names: string[] = []
      for (const { operator, count } of x.operators) {
        const o = g.phase.operators_by_backend[operator]
        if (!o) continue
        for (let k = 0; k < count && names.length < 40; k++) names.push(o.key)
        all += count * (o.flops ?? 0)
        const p = other(o)
        const t = p && timeOn(p, s.backend)
        if (t?.mean_ns == null) continue
        sum += count * t.mean_ns
        known += count
        work += count * (o.flops ?? 0)
      }
      // within one recording the figure is Go's
      const same = g.run === s.run ? x.others.find((o) => o.backend === s.backend) : undefined
      if (same) [sum, known] = [same.ns, same.operators]
      const mine: BackendTime = {
        mean: x.mean_ns,
        by: x.timed_by,
        layers: x.layers,
        rate: x.flops != null && x.mean_ns ? x.flops / x.mean_ns : null,
        note: `${timedWords[x.timed_by]}; ${x.timed_calls} graphs`,
      }
      const theirs: BackendTime | null =
        known > 0
          ? {
              mean: sum,
              by: 'operators',
              layers: null,
              rate: null,
              note: `the sum of the means of ${known} of its ${x.nodes} operators`,
            }
          : null
      const whole = known === x.nodes
      const most = all > 0 && work / all >= 0.5
      let ratio = theirs && sum > 0 && (whole || most) ? x.mean_ns! / sum : null
      if (ratio != null && turned === false) ratio = 1 / ratio
      const bound = !whole || isUpperBound(x.timed_by)
      return {
        id: `graph ${turned} ${i}`,
        name: graphName(x, names),
        op: '',
        type: '',
        dims: '',
        a: turned ? theirs : mine,
        b: turned ? mine : theirs,
        ratio,
        sign: bound ? (turned ? '≤ ' : '≥ ') : '',
        ratioNote: whole ? '' : 'not all of its operators are known on the other side',
        graph: true,
        known,
        of: x.nodes,
        work: all > 0 ? work / all : null,
        flops: x.flops,
        bytes: null,
        all: names.join(' + '),
      }
    })
    .filter((r) => r.known > 0)
}

function graphName(x: OffloadBackendGraph, names: string[]): string {
  if (x.nodes <= 3) return names.join(' + ')
  const l = x.layers
  return `graph of ${x.nodes} operators${l ? (l.first === l.last ? `, layer ${l.first}` : `, layers ${l.first} to ${l.last}`) : ''}`
}
