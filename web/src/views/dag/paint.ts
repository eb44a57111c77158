// SPDX-License-Identifier: Apache-2.0

// What a node is coloured by: sums over the nodes that an item stands for, and scales.
import { operatorKinds, type DagRun } from '../../api/types'
import { backendColor } from '../../lib/backend-color'
import { diverge, ink, kindColors, type Kind as OpKind, type Theme } from '../../lib/color'
import { kindOfMetric, metricText, metricsOfGroups } from '../../lib/counters'
import { dur, gbps, intensity, share, unknown } from '../../lib/format'
import type { CountedDAG } from './data'
import type { Item } from './graph'

/** Counters go by their metric's id: ipc, counter:NAME. */
export type Metric =
  | 'time'
  | 'share'
  | 'bandwidth'
  | 'intensity'
  | 'wait'
  | 'imbalance'
  | 'kind'
  | 'diff'
  | 'ipc'
  | `counter:${string}`
  | (string & {})

export const metrics: { id: Metric; name: string; unit: string }[] = [
  { id: 'share', name: 'share of time', unit: 'of the time in steps' },
  { id: 'bandwidth', name: 'bandwidth', unit: 'GB/s: bytes moved (minimum) / time' },
  { id: 'time', name: 'time per step', unit: 'per step, without probe overhead' },
  { id: 'intensity', name: 'arithmetic intensity', unit: 'FLOP/byte' },
  { id: 'wait', name: 'barrier wait', unit: 'of thread time' },
  { id: 'imbalance', name: 'load imbalance', unit: 'max busy / mean busy − 1' },
  { id: 'kind', name: 'kind of operator', unit: '' },
  { id: 'backend', name: 'backend', unit: '' },
]

/** What was measured of all the operators that an item stands for. Times in ns, of all runs. */
export interface ItemSum {
  ops: number // operators
  timed: number // of these, those with a time
  calls: number
  net: number
  probe: number
  perStep: number | null
  share: number | null
  bytes: number
  bytesNs: number
  atMost: boolean
  flops: number
  both: number // flops and bytes of those that have both
  bothBytes: number
  busy: number
  wait: number
  off: number
  balanced: number // busy of those whose imbalance is known
  unbalanced: number
  counted: Map<string, number | null> // by metric; counts are a step
}

export function sumOf(d: CountedDAG, ids: number[]): ItemSum {
  const s: ItemSum = {
    ops: 0,
    timed: 0,
    calls: 0,
    net: 0,
    probe: 0,
    perStep: null,
    share: null,
    bytes: 0,
    bytesNs: 0,
    atMost: false,
    flops: 0,
    both: 0,
    bothBytes: 0,
    busy: 0,
    wait: 0,
    off: 0,
    balanced: 0,
    unbalanced: 0,
    counted: new Map(),
  }
  const runs: DagRun[] = []
  for (const i of ids) {
    const n = d.nodes[i]
    if (n.kind !== 'op' || n.fused_into >= 0) continue
    s.ops++
    const r = n.run
    if (!r) continue
    const net = r.dur_ns - r.probe_ns
    runs.push(r)
    s.timed++
    s.calls += r.calls
    s.net += net
    s.probe += r.probe_ns
    s.busy += r.busy_ns
    s.wait += r.wait_ns
    s.off += r.off_cpu_ns
    if (r.bytes != null && r.gb_per_s) {
      const b = r.bytes * r.calls
      s.bytes += b
      s.bytesNs += b / r.gb_per_s
      s.atMost ||= r.bytes_at_most
      if (r.flops != null) {
        s.both += r.flops * r.calls
        s.bothBytes += b
      }
    }
    if (r.flops != null) s.flops += r.flops * r.calls
    if (r.imbalance != null) {
      s.balanced += r.busy_ns
      s.unbalanced += r.imbalance * r.busy_ns
    }
  }
  if (d.counted?.length) {
    s.counted = metricsOfGroups(d.counted, runs)
    for (const m of d.counted)
      if (m.kind === 'count')
        s.counted.set(
          m.id,
          s.counted.get(m.id) != null && d.traced_steps > 0 ? s.counted.get(m.id)! / d.traced_steps : null,
        )
  }
  if (s.timed) {
    if (d.traced_steps > 0) s.perStep = s.net / d.traced_steps
    if (d.traced_ns > 0) s.share = s.net / d.traced_ns
  }
  return s
}

export function value(s: ItemSum, m: Metric): number | null {
  if (!s.timed) return null
  switch (m) {
    case 'time':
      return s.perStep
    case 'share':
      return s.share
    case 'bandwidth':
      return s.bytesNs > 0 ? s.bytes / s.bytesNs : null
    case 'intensity':
      return s.bothBytes > 0 ? s.both / s.bothBytes : null
    case 'wait':
      return s.busy + s.wait + s.off > 0 ? s.wait / (s.busy + s.wait + s.off) : null
    case 'imbalance':
      return s.balanced > 0 ? s.unbalanced / s.balanced : null
  }
  return s.counted.get(m) ?? null
}

export function text(m: Metric, v: number | null, atMost = false): string {
  switch (m) {
    case 'time':
      return dur(v)
    case 'bandwidth':
      return v == null ? unknown : (atMost ? '≤ ' : '') + gbps(v)
    case 'intensity':
      return intensity(v)
    case 'diff':
      return v == null ? unknown : `${v >= 0 ? '+' : '−'}${Math.abs(v * 100).toFixed(1)} %`
    case 'share':
    case 'wait':
    case 'imbalance':
      return share(v)
  }
  return metricText(m, v) + (kindOfMetric(m) === 'count' && v != null ? ' per step' : '')
}

type RGB = [number, number, number]
// One hue from the ground upwards: what costs most stands out most. Costs are orange, rates blue.
const ramps: Record<'cost' | 'rate', Record<Theme, RGB[]>> = {
  cost: {
    light: [
      [250, 250, 251],
      [254, 232, 200],
      [253, 190, 133],
      [240, 128, 48],
      [176, 64, 4],
    ],
    dark: [
      [34, 39, 46],
      [74, 48, 24],
      [130, 72, 20],
      [205, 112, 24],
      [255, 190, 110],
    ],
  },
  rate: {
    light: [
      [250, 250, 251],
      [216, 230, 245],
      [152, 196, 228],
      [66, 142, 200],
      [8, 72, 140],
    ],
    dark: [
      [34, 39, 46],
      [24, 52, 84],
      [26, 86, 140],
      [56, 140, 206],
      [170, 216, 250],
    ],
  },
}

function mix(colors: RGB[], v: number): string {
  const x = Math.min(1, Math.max(0, v)) * (colors.length - 1)
  const i = Math.min(colors.length - 2, Math.floor(x))
  const f = x - i
  return `rgb(${[0, 1, 2].map((k) => Math.round(colors[i][k] + (colors[i + 1][k] - colors[i][k]) * f)).join(',')})`
}

/** From a metric's values to colours. */
export interface Scale {
  metric: Metric
  min: number
  max: number
  log: boolean
  theme: Theme
}

export function scaleOf(metric: Metric, values: (number | null)[], theme: Theme): Scale {
  const known = values.filter((v): v is number => v != null && Number.isFinite(v))
  const log = metric === 'intensity'
  const some = log ? known.filter((v) => v > 0) : known
  let max = some.length ? some.reduce((a, b) => Math.max(a, b), -Infinity) : 0
  let min = log && some.length ? some.reduce((a, b) => Math.min(a, b), Infinity) : 0
  if (metric === 'diff') {
    max = Math.max(
      0.05,
      known.reduce((a, b) => Math.max(a, Math.abs(b)), 0),
    )
    max = Math.min(max, 2)
    min = -max
  }
  return { metric, min, max, log, theme }
}

/** 0 to 1 of a value on its scale. */
export function at(s: Scale, v: number): number {
  if (s.log) return v <= 0 || s.max <= s.min ? 0 : Math.log(v / s.min) / Math.log(s.max / s.min)
  return s.max <= 0 ? 0 : v / s.max
}

export function colorAt(s: Scale, x: number): string {
  if (s.metric === 'diff') return diverge(x)
  return mix(
    ramps[s.metric === 'bandwidth' || s.metric === 'intensity' || s.metric === 'ipc' ? 'rate' : 'cost'][
      s.theme
    ],
    x,
  )
}

export interface Paint {
  fill: string
  ink: string
}

/** The colour of an item; a group is coloured as the sum of what is in it. null: nothing is known. */
export function paintItem(d: CountedDAG, x: Item, s: Scale, v: number | null): Paint | null {
  if (s.metric === 'kind') {
    if (x.kind !== 'op') return null
    const fill = kindColors[opKind(d, x.rep)][s.theme === 'dark' ? 1 : 0]
    return { fill, ink: ink(fill) }
  }
  if (s.metric === 'backend') {
    const name = backendOf(d, x.ids)
    if (name == null) return null
    const fill = backendColor(name, s.theme)
    return { fill, ink: ink(fill) }
  }
  if (v == null) return null
  const fill = s.metric === 'diff' ? diverge(v / s.max) : colorAt(s, at(s, v))
  return { fill, ink: rgbInk(fill) }
}

/** The backend that computes all operators of an item; null: there are several, or none. */
export function backendOf(d: CountedDAG, ids: number[]): string | null {
  let name: string | null = null
  for (const i of ids) {
    const n = d.nodes[i]
    if (n.kind !== 'op') continue
    const b = d.parts[n.part]?.backend ?? ''
    if (name != null && name !== b) return null
    name = b
  }
  return name
}

function rgbInk(c: string): string {
  return ink(c) === '#000' ? '#14171b' : '#fff'
}

export function opKind(d: CountedDAG, i: number): OpKind {
  return operatorKinds[d.nodes[i].op_kind]
}
