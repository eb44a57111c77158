// SPDX-License-Identifier: Apache-2.0

// What the timeline's colours and patterns stand for.
import { operatorKinds } from '../../api/types'
import { backendColor } from '../../lib/backend-color'
import { kindColors } from '../../lib/color'
import { eventCount, formatOf, scaledHelp } from '../../lib/counters'
import { named } from '../../lib/format'
import { theme } from '../../ui/theme'
import { levelColors, marks, overviewColor } from './palette'
import type { Timeline } from './timeline'

const flag = () => (theme() === 'dark' ? 1 : 0)

export function Swatch({
  color,
  pattern,
}: {
  color: string
  pattern?: 'diagonal' | 'cross' | 'bars' | 'dots'
}) {
  const ink = theme() === 'dark' ? '#cfd5dc99' : '#30363d99'
  const image =
    pattern === 'diagonal'
      ? `repeating-linear-gradient(135deg, ${ink} 0 1px, transparent 1px 4px)`
      : pattern === 'cross'
        ? `repeating-linear-gradient(135deg, ${ink} 0 1px, transparent 1px 4px), repeating-linear-gradient(45deg, ${ink} 0 1px, transparent 1px 4px)`
        : pattern === 'bars'
          ? `repeating-linear-gradient(90deg, ${ink} 0 2px, transparent 2px 5px)`
          : pattern === 'dots'
            ? `radial-gradient(${ink} 1px, transparent 1.2px)`
            : 'none'
  return (
    <span
      class="time-swatch"
      style={{
        backgroundColor: color,
        backgroundImage: image,
        backgroundSize: pattern === 'dots' ? '4px 4px' : undefined,
      }}
    />
  )
}

export function Legend({
  sched,
  level,
  faults,
  backends,
}: {
  sched: boolean
  level: Timeline['level']
  faults: boolean
  backends: string[]
}) {
  const f = flag()
  return (
    <div class="time-legend">
      {level ? (
        <Levels level={level} />
      ) : (
        operatorKinds.map((k) => (
          <span key={k}>
            <Swatch color={kindColors[k][f]} />
            {k}
          </span>
        ))
      )}
      <span>
        <Swatch color={marks.wait[f]} pattern="diagonal" />
        barrier wait
      </span>
      <span>
        <Swatch color={marks.off[f]} pattern="cross" />
        off-CPU
      </span>
      {sched && (
        <>
          <span class="time-states">
            thread state:
            <span>
              <Swatch color={marks.running[f]} />
              Running
            </span>
            <span>
              <Swatch color={marks.runnable[f]} pattern="diagonal" />
              Runnable
            </span>
            <span>
              <Swatch color={marks.sleep[f]} />
              Sleeping
            </span>
            <span>
              <Swatch color={marks.blocked[f]} pattern="bars" />
              Uninterruptible Sleep
            </span>
          </span>
          <span>
            <Swatch color={marks.own[f]} />
            CPU: engine
          </span>
          <span>
            <Swatch color={marks.other[f]} />
            CPU: other process
          </span>
        </>
      )}
      {faults && (
        <>
          <span title="a band at the lower edge of the thread’s operators, drawn where one looks close enough">
            <Swatch color={marks.fault[f]} />
            major page fault
          </span>
          <span>
            <Swatch color={marks.fault[f]} pattern="diagonal" />
            minor fault that read or took long
          </span>
        </>
      )}
      {backends.slice(0, 6).map((b) => (
        <span key={b}>
          <Swatch color={backendColor(b, theme())} />
          {named(b, 20)}: call
        </span>
      ))}
      {backends.length > 0 && (
        <span>
          <Swatch color="transparent" pattern="diagonal" />
          until sync
        </span>
      )}
    </div>
  )
}

/** What the colours of levels stand for: from 0 to the highest of any row of the statistics. */
function Levels({ level }: { level: NonNullable<Timeline['level']> }) {
  const { metric: m, top } = level
  const colors = levelColors(flag())
  const n = colors.length - 1
  const value = (v: number) =>
    m.kind === 'count' ? eventCount(v) : formatOf(m)(m.kind === 'mpki' ? v * 1000 : v)
  return (
    <span data-levels={m.id} title={m.help + (m.scaled ? '. ' + scaledHelp : '')}>
      {m.head}
      {m.kind === 'count' ? ' per µs on a CPU' : m.unit ? ` ${m.unit}` : ''}
      {m.scaled && <span class="dim"> (scaled)</span>}:{' '}
      {colors.slice(0, n).map((c, i) => (
        <span key={i}>
          <Swatch color={c} />
          {i === n - 1 ? `from ${value((top * i) / n)}` : `to ${value((top * (i + 1)) / n)}`}{' '}
        </span>
      ))}
      <span>
        <Swatch color={colors[n]} />
        not known
      </span>{' '}
      <span title="From afar the timeline knows kinds of operators and not their counts: those are read where one looks closer.">
        <Swatch color={overviewColor()} />
        zoom in for counts
      </span>
    </span>
  )
}
