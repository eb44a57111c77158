// SPDX-License-Identifier: Apache-2.0

// What an excess is made of: causes in words and colours, and as a bar whose parts add up to it.
import type { Slow, SlowStep } from '../../../api/types'
import type { Theme } from '../../../lib/color'
import { clean, dur, share } from '../../../lib/format'
import { seriesColor } from '../../../lib/palette'
import { Swatch } from '../../../ui/plot-legend'
import { useTheme } from '../../../ui/theme'

/** What a cause is: in a table, and beside a step. */
export const words: Record<string, [string, string]> = {
  other_process: ['CPU contention: another process ran on a thread’s CPU', 'another process'],
  own_threads: ['Oversubscription: engine threads shared a CPU', 'own threads'],
  cpu_not_seen: ['A thread was runnable: what ran on its CPU was not seen', 'no CPU'],
  disk: ['Disk: a thread was in uninterruptible sleep, reading', 'disk'],
  sleep: ['A thread slept: a lock, or woken late', 'asleep'],
  faults: ['Page faults', 'faults'],
  experts: ['Experts not used lately', 'experts'],
  imbalance: ['Load imbalance: a thread arrived late at the barrier, on its CPU', 'load imbalance'],
  kv_growth: ['Attention reads more of the KV cache', 'KV cache'],
  graph_rebuilt: ['Graph rebuilt', 'new graph'],
  backend: ['Graphs of other backends', 'backend'],
  copies: ['Between graphs: copies', 'copies'],
  recording: ['The recording: a new graph was copied', 'recording'],
  steal: ['Steal time (hypervisor)', 'steal time'],
  unattributed: ['Unattributed', 'unattributed'],
}
export const causeName = (c: string): string => words[c]?.[0] ?? clean(c)
export const causeShortName = (c: string): string => words[c]?.[1] ?? clean(c)

const told = 6 // causes with a colour of their own; what is unexplained has one always

/** A cause's colour: those that cost most have their own, the rest share one. */
export type Colors = (cause: string) => { color: string; rest: boolean }

export function colorsOf(theme: Theme, slow: (Slow | null)[]): Colors {
  const sums = new Map<string, number>()
  for (const s of slow)
    for (const c of s?.causes ?? []) sums.set(c.cause, (sums.get(c.cause) ?? 0) + Math.max(0, c.ns))
  const order = [...sums]
    .filter(([c, ns]) => c !== 'unattributed' && ns > 0)
    .sort((a, b) => b[1] - a[1])
    .map(([c]) => c)
  const grey = seriesColor(theme, 6)
  const rest = theme === 'dark' ? '#59626e' : '#b9bfc7'
  return (cause) => {
    if (cause === 'unattributed') return { color: grey, rest: false }
    const i = order.indexOf(cause)
    return i < 0 || i >= told ? { color: rest, rest: true } : { color: seriesColor(theme, i), rest: false }
  }
}

/** The colours of a run's causes. */
export function CauseLegend({ s, of }: { s: Slow; of: Colors }) {
  const listed = new Set(s.listed.flatMap((x) => x.parts.filter((p) => p.ns > 0).map((p) => p.cause)))
  const own = s.causes.map((c) => c.cause).filter((c) => listed.has(c) && !of(c).rest)
  const more = [...listed].filter((c) => of(c).rest)
  useTheme()
  return (
    <div class="legend">
      {own.map((c) => (
        <Swatch key={c} shape="area" color={of(c).color} name={causeShortName(c)} />
      ))}
      {more.length > 0 && (
        <Swatch shape="area" color={of(more[0]).color} name={more.map(causeShortName).join(', ')} />
      )}
      {s.listed.some((x) => x.parts.some((p) => p.ns < 0)) && (
        <span class="swatch">
          <i class="excess-less" />
          less than usual
        </span>
      )}
      <span class="swatch">
        <i class="excess-end" />
        excess latency
      </span>
    </div>
  )
}

/** The most that the parts of a step add up to before what is negative is taken off. */
export const reach = (x: SlowStep): number => x.parts.reduce((n, p) => n + Math.max(0, p.ns), 0)

/**
 * A step's parts in a row; what it had less of than usual is taken off at the end, and where that ends is the
 * excess. of is the full width.
 */
export function Excess({ x, of, colors }: { x: SlowStep; of: number; colors: Colors }) {
  const pct = (ns: number) => `${of > 0 ? Math.max(0, Math.min(100, (ns / of) * 100)) : 0}%`
  const more = x.parts.filter((p) => p.ns > 0)
  const all = reach(x)
  const text = [...x.parts].map((p) => `${causeName(p.cause)} ${dur(p.ns)} (${share(p.share)})`)
  return (
    <div
      class="excess"
      role="img"
      aria-label={`step ${x.step}: ${text.join(', ')}`}
      title={`step ${x.step}: ${dur(x.excess_ns)} above its local baseline\n${text.join('\n')}`}
      data-v={x.excess_ns}
    >
      {more.map((p) => (
        <span
          key={p.cause}
          class="part"
          data-cause={p.cause}
          data-v={p.ns}
          style={{ width: pct(p.ns), background: colors(p.cause).color }}
        />
      ))}
      {all > x.excess_ns && (
        <span
          class="less"
          data-v={x.excess_ns - all}
          style={{ left: pct(x.excess_ns), width: pct(all - x.excess_ns) }}
        />
      )}
      <span class="end" style={{ left: pct(x.excess_ns) }} />
    </div>
  )
}
