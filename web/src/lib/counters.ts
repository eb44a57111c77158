// SPDX-License-Identifier: Apache-2.0

// Counters that were read at operators: which of them say something, and what follows from two of them.
// Nothing here is shown of a counter that a CPU does not count, or that stayed at 0 in every operator.
import type { SummaryCount, SummaryCounter } from '../api/types'
import { clean, num, share, unknown } from './format'

/** Something that counters tell of a group of operators. */
export interface Metric {
  id: string
  /** As a column's head, without what the unit says. */
  head: string
  unit: string
  help: string
  kind: 'count' | 'ratio' | 'share' | 'mpki'
  /**
   * Of a count: its place among the counters. Of others: those that are divided, added up, over that which
   * divides, times a constant.
   */
  over: number[]
  by: number
  times: number
  scaled: boolean
  /** More of it is better. */
  good?: boolean
}

const stalls: Record<string, [string, string]> = {
  'stall-frontend': ['stalled, front end', 'in which nothing arrived to be issued'],
  'stall-backend': ['stalled, back end', 'in which nothing could be issued'],
  stall: ['stalled', 'in which nothing was issued'],
  'stall-memory': ['stalled on memory', 'waiting for loads, from any level'],
  'stall-store': ['stalled on stores', 'waiting for stores'],
  'stall-interlock': ['stalled on results', 'waiting for a result that is being computed'],
  'stall-l2-miss': ['stalled past L2', 'with a load past the second level under way'],
  'stall-l3-miss': ['stalled past L3', 'with a load past the third level under way'],
}
/** Top-down: parts of the slots in which an instruction could have been issued. */
const slots: Record<string, [string, string]> = {
  'be-bound': ['back-end bound', 'in which nothing could be issued'],
  'fe-bound': ['front-end bound', 'in which nothing arrived'],
  'mem-bound': ['memory bound', 'in which nothing could be issued because of memory'],
  retiring: ['retiring', 'that did useful work'],
  'bad-spec': ['bad speculation', 'whose work was thrown away'],
}
const misses: Record<string, string> = {
  'l1-refill': 'L1 refills',
  'l2-refill': 'L2 refills',
  'l2-miss': 'L2 misses',
  'l3-refill': 'L3 refills',
  'l3-miss': 'L3 misses',
  'llc-miss': 'LLC misses',
  'mem-fill': 'fills from memory',
  'branch-misses': 'branch misses',
  'tlb-refill': 'TLB refills',
  'tlb-miss': 'TLB misses',
}

type Counted = { counts?: SummaryCount[] | null } | null | undefined

/** The counters that say something: not void, and more than 0 in some of the rows. */
export function countersWithValues(counters: SummaryCounter[] | null | undefined, rows: Counted[]): number[] {
  return (counters ?? []).flatMap((c, i) =>
    !c.void && rows.some((r) => (r?.counts?.[i]?.sum ?? 0) > 0) ? [i] : [],
  )
}

/** A counter of that role that was counted as another one: of user space, or of all. */
function partner(counters: SummaryCounter[], has: number[], role: string, like: SummaryCounter): number {
  return has.find((i) => counters[i].role === role && counters[i].user === like.user) ?? -1
}

/** What the counters of a run tell: first what follows from them, then each by itself. */
export function metricsOf(counters: SummaryCounter[] | null | undefined, rows: Counted[]): Metric[] {
  const cs = counters ?? []
  const has = countersWithValues(cs, rows)
  const out: Metric[] = []
  // Where both ways were counted, user space's: what a probe does in the kernel is no operator's.
  const first = [...has].sort((a, b) => Number(cs[b].user) - Number(cs[a].user) || a - b)
  const once = (id: string) => !out.some((m) => m.id === id)
  for (const i of first) {
    const c = cs[i]
    const name = clean(c.name)
    const cycles = partner(cs, has, 'cycles', c)
    const all = partner(cs, has, 'slots', c)
    const instructions = partner(cs, has, 'instructions', c)
    const scaled = (j: number) => c.scaled || cs[j].scaled
    if (c.role === 'instructions' && cycles >= 0 && once('ipc')) {
      out.push({
        id: 'ipc',
        head: 'IPC',
        unit: '',
        kind: 'ratio',
        help: 'instructions / cycles',
        over: [i],
        by: cycles,
        times: 1,
        scaled: scaled(cycles),
        good: true,
      })
    } else if (Object.hasOwn(stalls, c.role) && cycles >= 0 && once(c.role)) {
      const [head, what] = stalls[c.role]
      out.push({
        id: c.role,
        head,
        unit: 'of cycles',
        kind: 'share',
        help: `${name} / cycles: share of the cycles ${what}`,
        over: [i],
        by: cycles,
        times: 1,
        scaled: scaled(cycles),
      })
    } else if (Object.hasOwn(slots, c.role) && all >= 0 && once(c.role)) {
      const [head, what] = slots[c.role]
      out.push({
        id: c.role,
        head,
        unit: 'of slots',
        kind: 'share',
        help: `${name} / slots: share of the slots ${what}`,
        over: [i],
        by: all,
        times: 1,
        scaled: scaled(all),
        good: c.role === 'retiring',
      })
    } else if (Object.hasOwn(slots, c.role) && cycles >= 0 && (c.slots ?? 0) > 0 && once(c.role)) {
      const [head, what] = slots[c.role]
      out.push({
        id: c.role,
        head,
        unit: 'of slots',
        kind: 'share',
        help: `${name} / (cycles × ${c.slots}): share of the slots ${what}; this CPU has ${c.slots} a cycle`,
        over: [i],
        by: cycles,
        times: c.slots!,
        scaled: scaled(cycles),
        good: c.role === 'retiring',
      })
    } else if (Object.hasOwn(misses, c.role) && instructions >= 0 && once(c.role)) {
      // Lines from this node's memory and from others' are parts of one figure.
      const over =
        c.role === 'mem-fill' ? has.filter((j) => cs[j].role === c.role && cs[j].user === c.user) : [i]
      out.push({
        id: c.role,
        head: misses[c.role],
        unit: 'per 1000 instr.',
        kind: 'mpki',
        help: `${over.map((j) => clean(cs[j].name)).join(' + ')} for each 1000 instructions`,
        over,
        by: instructions,
        times: 1,
        scaled: scaled(instructions) || over.some((j) => cs[j].scaled),
      })
    }
  }
  out.sort(
    (a, b) =>
      Number(b.id === 'ipc') - Number(a.id === 'ipc') ||
      (a.kind === b.kind ? 0 : a.kind === 'share' ? -1 : 1),
  )
  for (const i of has) {
    out.push({
      id: `counter:${cs[i].name}${cs[i].user && has.some((j) => j !== i && cs[j].name === cs[i].name) ? ':u' : ''}`,
      head: clean(cs[i].name),
      unit: cs[i].unit ? clean(cs[i].unit) : '',
      kind: 'count',
      help: `counted in these operators${cs[i].user ? ', of user space alone' : ''}`,
      over: [i],
      by: -1,
      times: 1,
      scaled: cs[i].scaled,
    })
  }
  return out
}

/** The mean of a counter a call: over operators of which it is known. null: of none. */
export function meanCount(counts: SummaryCount[] | null | undefined, i: number): number | null {
  const c = counts?.[i]
  return c?.sum == null || c.calls <= 0 ? null : c.sum / c.calls
}

/** What of a metric is divided: the first counter's mean per call, with those of the others that are known. */
function divided(m: Metric, counts: SummaryCount[] | null | undefined): number | null {
  const first = meanCount(counts, m.over[0])
  return first == null ? null : m.over.slice(1).reduce((n, i) => n + (meanCount(counts, i) ?? 0), first)
}

/**
 * What a metric is of a row: of a count the mean per call, of others the ratio of means, as one counter can be known of fewer operators
 * than the other (profile.Stat.Ratios).
 */
export function valueOf(m: Metric, counts: SummaryCount[] | null | undefined): number | null {
  const a = divided(m, counts)
  if (m.kind === 'count' || a == null) return a
  const b = meanCount(counts, m.by)
  return b == null || b <= 0 ? null : (a / (b * m.times)) * (m.kind === 'mpki' ? 1000 : 1)
}

/** A number of events, with a power of 1000: 5.70 M. */
export function eventCount(v: number | null | undefined): string {
  if (v == null || !Number.isFinite(v)) return unknown
  for (const [u, name] of [
    [1e12, ' T'],
    [1e9, ' G'],
    [1e6, ' M'],
    [1e3, ' k'],
  ] as const)
    if (Math.abs(v) >= u * 0.9995) return num(v / u) + name
  return num(v)
}

/** Two decimals, as IPC is written everywhere. */
export const twoDecimals = (v: number | null | undefined): string =>
  v == null || !Number.isFinite(v) ? unknown : v.toFixed(2)

const formats: Record<Metric['kind'], (v: number | null | undefined) => string> = {
  ratio: twoDecimals,
  share,
  mpki: num,
  count: eventCount,
}

export const formatOf = (m: Metric): ((v: number | null | undefined) => string) => formats[m.kind]

/** What kind a metric is, by its id; null: it is none of counters. */
export function kindOfMetric(id: string): Metric['kind'] | null {
  if (id === 'ipc') return 'ratio'
  if (id.startsWith('counter:')) return 'count'
  return Object.hasOwn(stalls, id) || Object.hasOwn(slots, id)
    ? 'share'
    : Object.hasOwn(misses, id)
      ? 'mpki'
      : null
}

/** A value of a metric that is known by its id, with its unit. */
export function metricText(id: string, v: number | null | undefined): string {
  const k = kindOfMetric(id)
  return k == null ? '' : formats[k](v) + (k === 'mpki' && v != null ? ' / 1000 instr.' : '')
}

/**
 * What metrics are of several groups together: where both counters are known, each as its mean times the
 * calls.
 */
export function metricsOfGroups(
  metrics: Metric[],
  rows: { calls: number; counts?: SummaryCount[] | null }[],
): Map<string, number | null> {
  const out = new Map<string, number | null>()
  for (const m of metrics) {
    let a = 0
    let b = 0
    let known = false
    for (const r of rows) {
      const x = divided(m, r.counts)
      const y = m.kind === 'count' ? 0 : meanCount(r.counts, m.by)
      if (x == null || y == null) continue
      known = true
      a += x * r.calls
      b += y * r.calls
    }
    out.set(
      m.id,
      !known
        ? null
        : m.kind === 'count'
          ? a
          : b > 0
            ? (a / (b * m.times)) * (m.kind === 'mpki' ? 1000 : 1)
            : null,
    )
  }
  return out
}

/** What a reader has to know of scaled ones. */
export const scaledHelp = 'The event shared a hardware counter with others: its values are estimates.'
