// SPDX-License-Identifier: Apache-2.0

// What a picked thing is, in a few lines, for the tooltip and for who cannot see the canvas.
import { states } from '../../api/timeline'
import { formatOf, valueOf, type Metric } from '../../lib/counters'
import { bytes, clean, count, dims, dur, gbps, num } from '../../lib/format'
import { moment } from '../../lib/time-scale'
import { endToEnd, stepDuration, type OpInfo, type TimeData } from './data'
import { copyKinds } from './devices'
import { describeFault } from './faults'
import type { Picked } from './pick'
import { forWhom } from './remote'
import { rateOf, runnerName, stepLabel } from './steps'

/** Achieved bandwidth in GB/s, without what the probes took. null: not known. */
export function bandwidth(o: OpInfo): number | null {
  return o.def.bytes != null && o.dur > o.probe ? o.def.bytes / (o.dur - o.probe) : null
}

export function flopsPerNs(o: OpInfo): number | null {
  return o.def.flops != null && o.dur > o.probe ? o.def.flops / (o.dur - o.probe) : null
}

/** max busy / mean busy - 1 over threads, the probes' part left out (profile.Op.Imbalance). */
export function imbalance(o: OpInfo): number | null {
  const n = o.spans.length
  const busy = o.spans.reduce((v, s) => v + s.busy, 0)
  if (!n || busy <= 0 || o.incomplete) return null
  const most = Math.max(...o.spans.map((s) => s.busy))
  const rest = busy - n * o.probe
  if (o.probe > 0 && (rest <= 0 || most - o.probe - rest / n <= o.probe)) return 0
  return ((most - o.probe) * n) / rest - 1
}

/**
 * What counters counted in an operator, over its threads; of one alone, if it is given. null: not known on
 * some of them.
 */
export function countersOf(
  d: TimeData,
  o: OpInfo,
  thread?: OpInfo['spans'][number],
): { m: Metric; v: number | null }[] {
  const spans = thread ? [thread] : o.spans
  if (!d.metrics.length || spans.every((s) => s.counts.length === 0)) return []
  const sums = (d.index.counters ?? []).map((_, i) => ({
    sum: spans.every((s) => (s.counts[i] ?? -1) >= 0) ? spans.reduce((n, s) => n + s.counts[i], 0) : null,
    calls: 1,
  }))
  return d.metrics.map((m) => ({ m, v: valueOf(m, sums) }))
}

export function threadName(d: TimeData, i: number): string {
  const t = d.index.threads?.[i]
  return t ? `${t.role === 'other' ? 'thread' : t.role} ${t.tid}` : 'thread'
}

/** One line, then lines of detail. thread: that of the row pointed at. */
export function describe(d: TimeData, p: Picked, thread = -1): string[] {
  switch (p.what) {
    case 'op': {
      const o = p.op
      const def = o.def
      const out = [`${clean(def.op)}  ${clean(def.name)}`]
      const where = [
        def.layer != null ? `layer ${def.layer}` : '',
        def.block,
        def.type ? `${clean(def.type)} ${dims(def.ne)}` : '',
      ].filter(Boolean)
      if (where.length) out.push(where.join(' · '))
      if (def.weight)
        out.push(`weight ${clean(def.weight)}${def.weight_type ? ` (${clean(def.weight_type)})` : ''}`)
      const b = bandwidth(o)
      out.push(
        `${dur(o.dur)} on ${o.spans.length} thread${o.spans.length === 1 ? '' : 's'}${b != null ? ` · ${def.bytes_at_most ? '≤' : ''}${gbps(b)}` : ''}`,
      )
      const s = o.spans.find((s) => s.thread === thread)
      if (s) {
        if (s.busy + s.off + s.wait === 0) out.push(`${threadName(d, s.thread)} was not seen to arrive`)
        else
          out.push(
            `${threadName(d, s.thread)}, CPU ${s.cpu}: busy ${dur(s.busy)} · wait ${dur(s.wait)} · off-CPU ${dur(s.off)}`,
          )
      }
      const counted = countersOf(d, o)
      if (counted.length)
        out.push(
          counted
            .map(
              ({ m, v }) => `${m.head} ${formatOf(m)(v)}${m.unit && m.kind !== 'count' ? ' ' + m.unit : ''}`,
            )
            .join(' · '),
        )
      if (o.step >= 0) out.push(stepLabel(d, o.step))
      out.push(...forWhom(d, o.graph))
      out.push(`starts at ${moment(o.start)}`)
      return out
    }
    case 'step': {
      const s = d.steps
      const i = p.step
      const out = [stepLabel(d, i), dur(stepDuration(d, i))]
      if (endToEnd(d, i) == null) out.push('its call alone: when its results were there was not seen')
      else if (s.late[i] > 0) out.push(`until its results were there; its call alone ${dur(s.dur[i])}`)
      const r = rateOf(d, i)
      if (s.tokens[i] >= 0)
        out.push(
          `${count(s.tokens[i])} token${s.tokens[i] === 1 ? '' : 's'}${s.seqs[i] > 1 ? ` of ${s.seqs[i]} sequences` : ''}${r != null ? ` · ${num(r)} tokens/s` : ''}${s.pos[i] >= 0 ? ` · from position ${count(s.pos[i])}` : ''}`,
        )
      out.push(`${count(s.ops[i])} operators in ${count(s.graphs[i])} graphs`)
      const inc = d.text(s.incomplete[i])
      const un = d.text(s.untraced[i])
      if (inc) out.push(`incomplete: ${clean(inc)}`)
      if (un) out.push(`operators not recorded: ${clean(un)}`)
      out.push(`starts at ${moment(s.start[i])}`)
      return out
    }
    case 'graph': {
      const g = d.graphs
      const i = p.graph
      const out = [
        `graph ${g.id[i]}${d.text(g.backend[i]) ? ` on ${clean(d.text(g.backend[i]))}` : ''}`,
        `${dur(g.dur[i])} · ${count(g.nodes[i])} nodes · ${count(g.ops[i])} operators`,
      ]
      out.push(
        [
          `split ${g.split[i]}`,
          g.shape[i] > 0 ? `shape ${g.shape[i]}` : 'shape not known',
          g.flags[i] & 1 ? 'the same as before' : '',
          g.flags[i] & 2 ? 'ended early' : '',
        ]
          .filter(Boolean)
          .join(' · '),
      )
      out.push(...forWhom(d, i))
      const w = d.waits.get(i)
      if (w) {
        out.push(
          `the host had waited for it after ${dur(g.dur[i] + Math.max(0, w.tail))}: at least what it took; waited ${dur(w.waited)} at the end`,
        )
        if (w.busy >= 0)
          out.push(
            `the device’s queue had work of it for ${dur(w.busy)}, from ${dur(w.begin)} after its begin`,
          )
        if (w.before > 0)
          out.push(
            `${count(w.before)} graph${w.before === 1 ? '' : 's'} of this backend under way before it, not waited for by themselves`,
          )
      }
      const un = d.text(g.untraced[i])
      if (un) out.push(`operators not recorded: ${clean(un)}`)
      out.push(`starts at ${moment(g.start[i])}`)
      return out
    }
    case 'copy': {
      const c = d.copies
      const i = p.copy
      const side = (s: string) => clean(s) || 'memory that is not known'
      const out = [
        `${copyKinds[c.kind[i]] ?? 'copied'}: ${clean(d.text(c.tensor[i])) || 'a tensor that no graph has'}`,
        `${c.bytes[i] >= 0 ? bytes(c.bytes[i]) : 'size not known'}${d.text(c.type[i]) ? ` ${clean(d.text(c.type[i]))}` : ''} · ${side(d.text(c.from[i]))} to ${side(d.text(c.to[i]))}`,
      ]
      out.push(
        c.dur[i] >= 0
          ? `the call took ${dur(c.dur[i])}${c.flags[i] & 1 ? ', and may have returned before the data were there' : ''}`
          : 'its end is not probed: how long it took is not known',
      )
      const step = d.steps.byId.get(c.step[i])
      out.push(
        step !== undefined
          ? `${stepLabel(d, step)}${c.split[i] >= 0 ? `, before split ${c.split[i]}` : ''}`
          : 'in no step',
      )
      out.push(`starts at ${moment(c.start[i])}`)
      return out
    }
    case 'cpu':
      return [
        p.runner === 0 ? 'not seen: a switch is missing' : runnerName(d, p.runner),
        `on CPU ${p.cpu} for ${dur(p.end - p.start)}`,
        `starts at ${moment(p.start)}`,
      ]
    case 'loss': {
      const l = d.index.losses![p.loss]
      return [
        `incomplete: ${clean(l.why)}`,
        `${l.events > 0 ? `${count(l.events)} ` : ''}${clean(l.what)}${l.cpu >= 0 ? ` of CPU ${l.cpu}` : ''} · ${dur(l.dur_ns)}`,
        `starts at ${moment(l.start_ns)}`,
      ]
    }
    case 'fault':
      return describeFault(d.faults!, p.fault)
    case 'state':
      return [
        `${threadName(d, p.thread)}: ${states[p.state] ?? 'off its CPU'}`,
        `for ${dur(p.end - p.start)} · CPU ${p.cpu}`,
        `starts at ${moment(p.start)}`,
      ]
  }
}
