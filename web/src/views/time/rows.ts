// SPDX-License-Identifier: Apache-2.0

// Which tracks there are, from top to bottom.
import { clean, num, share } from '../../lib/format'
import { contextRole } from '../../lib/speculation'
import type { TimeData } from './data'
import { maxRate } from './steps'
import type { Group } from './tracks'

export interface Row {
  key: string
  kind: 'run' | 'group' | 'steps' | 'rate' | 'graphs' | 'device' | 'copies' | 'thread' | 'cpu'
  run: number
  y: number
  h: number
  label: string
  /** Further words, for whoever points at the label. */
  title: string
  group?: Group
  /** Index of the thread, or the CPU's number. */
  index: number
  folded?: boolean
}

const heights: Record<Row['kind'], number> = {
  run: 24,
  group: 22,
  steps: 22,
  rate: 36,
  graphs: 16,
  device: 24,
  copies: 14,
  thread: 34,
  cpu: 18,
}
/** What they grow to where there is room. */
const most: Record<Row['kind'], number> = {
  run: 24,
  group: 22,
  steps: 26,
  rate: 56,
  graphs: 20,
  device: 44,
  copies: 18,
  thread: 76,
  cpu: 34,
}

/** Lays out tracks. folded holds keys of groups that are closed; room is how high the view is. */
export function layout(datas: TimeData[], folded: Set<string>, room: number): Row[] {
  const out: Row[] = []
  let y = 0
  const add = (r: Omit<Row, 'y' | 'h'>) => {
    const h = heights[r.kind]
    out.push({ ...r, y, h })
    y += h
  }
  datas.forEach((d, run) => {
    const x = d.index
    if (datas.length > 1)
      add({
        key: `r${run}`,
        kind: 'run',
        run,
        label: run === 0 ? 'first run' : 'second run',
        title: [clean(d.run.file), clean(d.run.label)].filter(Boolean).join(' · '),
        index: -1,
      })
    const threads = (x.threads ?? []).map((t, index) => ({ t, index }))
    const pids = [...new Set([...threads.map((e) => e.t.pid), ...(x.processes ?? []).map((p) => p.pid)])]
    for (const pid of pids) {
      const own = threads
        .filter((e) => e.t.pid === pid && (e.t.operators > 0 || e.t.role !== 'other'))
        .sort((a, b) => rank(a.t.role) - rank(b.t.role) || a.t.tid - b.t.tid)
      const steps = d.stepRows.filter((g) => g.pid === pid)
      const graphs = d.graphRows.filter((g) => g.pid === pid)
      if (!own.length && !steps.length && !graphs.length) continue
      const comm = clean(x.processes?.find((p) => p.pid === pid)?.comm || own[0]?.t.comm || 'process')
      const key = `${run}p${pid}`
      const closed = folded.has(key)
      add({
        key,
        kind: 'group',
        run,
        label: `${comm} ${pid}`,
        title: `process ${pid}`,
        index: pid,
        folded: closed,
      })
      if (closed) continue
      for (const [n, g] of steps.entries()) {
        const name =
          steps.length > 1 ? `, ${contextRole(d.run.stats.weight, pid, g.name) || `context ${n + 1}`}` : ''
        add({
          key: `${key}s${g.name}`,
          kind: 'steps',
          run,
          label: `steps${name}`,
          title: `calls of the engine that compute a batch, then, hatched, until their results were there; context ${clean(g.name)}`,
          group: g,
          index: -1,
        })
        if (g.set.kind.includes(2))
          add({
            key: `${key}t${g.name}`,
            kind: 'rate',
            run,
            label: `tokens/s 0–${num(maxRate(d, g.set))}`,
            title: `tokens of a decode step over the time until its results were there${name}`,
            group: g,
            index: -1,
          })
      }
      for (const g of graphs) {
        const title = g.device
          ? `graphs on ${clean(g.name)}: the call that computes or submits each, then, hatched, until the host synchronised with it`
          : 'computation graphs by backend'
        add({
          key: `${key}g${g.name}`,
          kind: g.device ? 'device' : 'graphs',
          run,
          label: g.device ? clean(g.name) : `graphs ${clean(g.name)}`,
          title,
          group: g,
          index: -1,
        })
      }
      for (const g of d.copyRows.filter((g) => g.pid === pid))
        add({
          key: `${key}y`,
          kind: 'copies',
          run,
          label: 'copies',
          title: 'calls that move a tensor’s data between memories',
          group: g,
          index: -1,
        })
      for (const { t, index } of own) {
        add({
          key: `${key}h${t.tid}`,
          kind: 'thread',
          run,
          label: `${t.role === 'other' ? 'thread' : t.role} ${t.tid}`,
          title: `thread ${t.tid} (${clean(t.comm)}), ${t.role}: its operators; below them its state: Running, Runnable, Sleeping, Uninterruptible Sleep`,
          index,
        })
      }
    }
    const cpus = x.cpus ?? []
    if (cpus.length) {
      const key = `${run}c`
      const closed = folded.has(key)
      add({
        key,
        kind: 'group',
        run,
        label: `CPUs (${cpus.length})`,
        title: 'what ran on each CPU whose switches were recorded',
        index: -1,
        folded: closed,
      })
      if (!closed)
        for (const c of cpus)
          add({
            key: `${key}${c}`,
            kind: 'cpu',
            run,
            label: `CPU ${c}${used(d, c)}`,
            title:
              'CPU utilisation in steps: engine and others; threads of the engine in the colour of their row, others by name',
            index: c,
          })
    }
  })
  grow(out, room - y)
  return out
}

/** Gives rows of what room is left. */
function grow(rows: Row[], left: number): void {
  const wish = rows.reduce((n, r) => n + most[r.kind] - r.h, 0)
  const f = Math.max(0, Math.min(1, left / Math.max(1, wish)))
  let y = 0
  for (const r of rows) {
    r.y = y
    r.h += Math.floor((most[r.kind] - r.h) * f)
    y += r.h
  }
}

/** How much of the time in steps a CPU was used. */
function used(d: TimeData, cpu: number): string {
  const u = d.run.stats.weight.cpu_use?.each?.find((e) => e.cpu === cpu)
  return u?.others_share == null ? '' : ` · ${share(u.engine_share + u.others_share)} used`
}

const rank = (role: string): number => (role === 'main' ? 0 : role === 'worker' ? 1 : 2)
