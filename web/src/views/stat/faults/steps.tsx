// SPDX-License-Identifier: Apache-2.0

// Steps over the run: how long each was, how much of it a thread was in a page fault, what was read
// meanwhile.
import { useMemo } from 'preact/hooks'
import type { MemoryFaultPoint, MemorySeries } from '../../../api/types'
import type { Theme } from '../../../lib/color'
import { bytes, clean, count, dur, plural, share } from '../../../lib/format'
import { runColors } from '../../../lib/palette'
import { axisFmt, unitOf } from '../../../lib/units'
import { Plot, type Layer } from '../../../ui/plot'
import { useTheme } from '../../../ui/theme'
import { runNames, stepLink, type TabContext } from '../context'
import { faultColors } from './colors'

type Against = 'step' | 'time'

interface Spot {
  x: number
  p: MemoryFaultPoint
}

export function FaultSteps({ ctx, data }: { ctx: TabContext; data: (MemorySeries | null)[] }) {
  const theme = useTheme()
  const names = runNames(ctx)
  const phases = [...new Set(data.flatMap((d) => (d?.phases ?? []).map((p) => p.phase)))]
  const phase = phases.includes(ctx.params.phase ?? '')
    ? ctx.params.phase!
    : phases.includes('decode')
      ? 'decode'
      : (phases[0] ?? '')
  const x: Against = ctx.params.x === 'time' ? 'time' : 'step'
  const d = useMemo(() => build(data, phase, x, theme, names), [data, phase, x, theme])
  if (phases.length === 0) return <p class="dim">No step was seen.</p>
  const pick = (l: number, i: number) =>
    d.at[l] && (location.hash = stepLink(ctx, d.runs[l], d.at[l]![i].p.worst))
  const readout = (l: number, i: number) =>
    d.at[l] ? read(d.at[l]![i], data.length > 1 ? names[d.runs[l]] : '') : ''
  const axis = {
    label: x === 'step' ? 'step (number in the recording)' : 'time since the first step shown (s)',
    fmt: axisFmt({ name: '', div: 1, digits: 0 }),
    whole: x === 'step',
  }
  return (
    <section>
      <h2>Slow steps and reads</h2>
      <div class="tools">
        <span class="choice" role="group" aria-label="phase of the steps">
          {phases.map((p) => (
            <button
              key={p}
              aria-pressed={p === phase}
              onClick={() => ctx.set({ phase: p || undefined }, true)}
            >
              {p ? clean(p) : 'phase not known'}
            </button>
          ))}
        </span>
        <span class="choice" role="group" aria-label="against">
          {(['step', 'time'] as const).map((k) => (
            <button
              key={k}
              aria-pressed={k === x}
              onClick={() => ctx.set({ x: k === 'time' ? k : undefined }, true)}
            >
              {k}
            </button>
          ))}
        </span>
      </div>
      <Plot
        id="fault-steps"
        title={`Duration of a step, and how long a thread was in a page fault, ${phase || 'phase not known'}`}
        about={d.about}
        x={axis}
        y={{ label: `duration of a step (${d.time.name})`, fmt: axisFmt(d.time), zero: true }}
        layers={d.steps}
        height={240}
        readout={readout}
        pick="to the step in ProfTime"
        onPick={pick}
      />
      {d.reads.length > 0 ? (
        <Plot
          id="fault-reads"
          title="What page faults read from disk in it"
          about="Read-ahead included: one fault can read more than it needs, which later faults find in memory."
          x={axis}
          y={{
            label: `read in a step (${d.size.name})`,
            fmt: axisFmt({ name: '', div: 1, digits: 0 }),
            zero: true,
          }}
          layers={d.reads}
          height={170}
          readout={readout}
          pick="to the step in ProfTime"
          onPick={(l, i) => pick(l, i)}
        />
      ) : (
        <p class="dim">No page fault in these steps read from disk.</p>
      )}
    </section>
  )
}

function read(s: Spot | undefined, name: string): string {
  if (!s) return ''
  const p = s.p
  const parts = [
    name,
    p.n > 1
      ? `steps ${p.step} and ${p.n - 1} more, on average ${dur(p.dur_ns / p.n)}`
      : `step ${p.step}: ${dur(p.dur_ns)}`,
  ]
  if (p.wall_ns != null)
    parts.push(
      `a thread in a fault ${dur(p.wall_ns / p.n)} (${share(p.dur_ns > 0 ? p.wall_ns / p.dur_ns : null)})`,
    )
  if (p.wait_ns != null) parts.push(`thread time ${dur(p.wait_ns / p.n)}`)
  parts.push(plural(p.major, 'major fault'), `${bytes(p.read_bytes)} read`)
  return parts.filter(Boolean).join(' · ')
}

function build(
  data: (MemorySeries | null)[],
  phase: string,
  x: Against,
  theme: Theme,
  names: [string, string],
) {
  const lists = data.map((d) => d?.phases.find((p) => p.phase === phase))
  const runs: Spot[][] = lists.map((l) => {
    const first = l?.steps[0]?.start_ns ?? 0
    return (l?.steps ?? [])
      .map((p) => ({ x: x === 'step' ? p.step : (p.start_ns - first) / 1e9, p }))
      .sort((a, b) => a.x - b.x)
  })
  const all = runs.flat()
  const c = faultColors(theme)
  const rc = runColors(theme)
  const steps: Layer[] = []
  const reads: Layer[] = []
  const at: (Spot[] | null)[] = []
  const of: number[] = []
  const two = data.length > 1
  const size = unitOf(
    'bytes',
    all.map((s) => s.p.read_bytes / s.p.n),
  ) // ticks are round in it, not in bytes
  const any = all.some((s) => s.p.read_bytes > 0)
  const timed = all.some((s) => s.p.wall_ns != null)
  // Both plots have layers in the same order, so that what belongs to a point is found in either.
  runs.forEach((spots, run) => {
    if (spots.length === 0) return
    const xs = spots.map((s) => s.x)
    const mean = spots.map((s) => s.p.dur_ns / s.p.n)
    const wall = spots.map((s) => (s.p.wall_ns == null ? null : s.p.wall_ns / s.p.n))
    const sum = spots.map((s) => s.p.read_bytes / s.p.n / size.div)
    const width = Math.max(1.5, Math.min(22, 700 / spots.length))
    const dot = spots.length > 800 ? 1.3 : spots.length > 200 ? 1.8 : 2.6
    const color = two ? rc[run] : theme === 'dark' ? '#e4e7eb' : '#1b1f24'
    const push = (l: Layer, r: Layer, s: Spot[] | null) => {
      steps.push(l)
      if (any) reads.push(r)
      at.push(s)
      of.push(run)
    }
    if (!two && timed) {
      push(
        { name: 'no thread in a page fault', color: c.rest, kind: 'bars', width, xs, ys: mean, base: wall },
        { name: 'read', color: c.read, kind: 'bars', width, xs, ys: sum },
        null,
      )
      push(
        { name: 'a thread in a page fault', color: c.major, kind: 'bars', width, xs, ys: wall },
        { name: '', color, kind: 'points', xs: [], ys: [], legend: false },
        null,
      )
    }
    const named = two ? names[run] : spots.some((s) => s.p.n > 1) ? 'steps, some together' : 'one step'
    push(
      {
        name: named,
        color,
        kind: 'points',
        shape: run ? 'triangle' : 'circle',
        size: dot,
        xs,
        ys: mean,
        hover: true,
      },
      {
        name: named,
        color,
        kind: 'points',
        shape: run ? 'triangle' : 'circle',
        size: dot,
        xs,
        ys: sum,
        hover: true,
        legend: two || !timed,
      },
      spots,
    )
    if (two && timed) {
      push(
        {
          name: `${names[run]}: a thread in a page fault`,
          color,
          kind: 'points',
          shape: run ? 'open-triangle' : 'open-circle',
          size: dot,
          xs,
          ys: wall,
          hover: true,
        },
        { name: '', color, kind: 'points', xs: [], ys: [], legend: false },
        spots,
      )
    }
  })
  const per = Math.max(1, ...lists.map((l) => l?.steps_per_point ?? 1))
  const n = all.reduce((v, s) => v + s.p.n, 0)
  const fault = all.reduce((v, s) => v + (s.p.wall_ns ?? 0), 0)
  const whole = all.reduce((v, s) => v + s.p.dur_ns, 0)
  return {
    steps,
    reads,
    at,
    runs: of,
    time: unitOf(
      'time',
      all.map((s) => s.p.dur_ns / s.p.n),
    ),
    size,
    about:
      `${plural(n, 'step')}.` +
      (timed
        ? two
          ? ''
          : ` In ${share(whole > 0 ? fault / whole : null)} of their time at least one thread was in a major fault, or in one that read.`
        : ' How long faults took is not known: that kernel does not report it.') +
      (per > 1
        ? ` A point stands for up to ${count(per)} steps in succession, drawn at their mean; a click goes to the one that was longest in faults.`
        : ''),
  }
}
