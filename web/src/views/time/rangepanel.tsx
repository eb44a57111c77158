// SPDX-License-Identifier: Apache-2.0

// Statistics of the selected range.
import { useEffect, useState } from 'preact/hooks'
import { phases } from '../../api/timeline'
import { kindColors, type Kind } from '../../lib/color'
import { clean, count, dur, share } from '../../lib/format'
import { moment } from '../../lib/time-scale'
import { Fig } from '../../ui/figure'
import { Table, type Column } from '../../ui/table'
import { theme } from '../../ui/theme'
import type { Actions } from './actions'
import type { TimeData } from './data'
import { threadName } from './describe'
import { Swatch } from './legend'
import { rangeStats, type RangeRow, type RangeStats, type RangeThread } from './range'

interface Props {
  d: TimeData
  from: number
  to: number
  actions: Actions
  head: string
}

export function RangePanel({ d, from, to, actions, head }: Props) {
  const [stats, set] = useState<RangeStats | null>(null)
  const [by, setBy] = useState<'ops' | 'kinds'>('ops')
  useEffect(() => {
    let gone = false
    const timer = setTimeout(
      () => void rangeStats(d, from, to, () => gone).then((r) => r && !gone && set(r)),
      60,
    )
    return () => {
      gone = true
      clearTimeout(timer)
    }
  }, [d, from, to])
  const span = to - from
  const fresh = stats && stats.from === from && stats.to === to
  const columns: Column<RangeRow>[] = [
    {
      key: 'key',
      head: by === 'ops' ? 'operator' : 'kind',
      text: true,
      value: (r) => r.key,
      cell: (r) => (
        <>
          <Swatch color={kindColors[r.kind as Kind][theme() === 'dark' ? 1 : 0]} />
          {r.key}
        </>
      ),
    },
    {
      key: 'count',
      head: 'count',
      help: 'operators that reach into the range',
      value: (r) => r.count,
      cell: (r) => <Fig v={r.count} f={count} />,
    },
    {
      key: 'time',
      head: 'time',
      help: 'the part of their durations that lies in the range',
      value: (r) => r.time,
      cell: (r) => <Fig v={r.time} f={dur} />,
    },
    {
      key: 'share',
      head: 'share',
      help: 'of the range',
      value: (r) => r.time,
      cell: (r) => share(r.time / span),
    },
    {
      key: 'mean',
      head: 'mean',
      help: 'their mean duration, whole',
      value: (r) => r.whole / r.count,
      cell: (r) => <Fig v={r.whole / r.count} f={dur} />,
    },
  ]
  const threads: Column<RangeThread>[] = [
    {
      key: 'thread',
      head: 'thread',
      text: true,
      value: (r) => r.thread,
      cell: (r) => threadName(d, r.thread),
    },
    { key: 'ops', head: 'operators', value: (r) => r.ops, cell: (r) => <Fig v={r.ops} f={count} /> },
    {
      key: 'busy',
      head: 'busy',
      value: (r) => r.busy,
      cell: (r) => (
        <>
          <Fig v={r.busy} f={dur} /> <span class="dim">{share(r.busy / span)}</span>
        </>
      ),
    },
    {
      key: 'wait',
      head: 'barrier wait',
      value: (r) => r.wait,
      cell: (r) => (
        <>
          <Fig v={r.wait} f={dur} /> <span class="dim">{share(r.wait / span)}</span>
        </>
      ),
    },
    {
      key: 'off',
      head: 'off-CPU',
      value: (r) => r.off,
      cell: (r) => (
        <>
          <Fig v={r.off} f={dur} /> <span class="dim">{share(r.off / span)}</span>
        </>
      ),
    },
  ]
  return (
    <div data-range={fresh ? 'ready' : 'busy'}>
      <div class="time-rangehead">
        <h3>
          {head} <Fig v={span} f={dur} class="time-span" />
        </h3>
        <span class="dim">
          {moment(from)} to {moment(to)}
        </span>
        {stats?.steps.map((s) => (
          <span key={s.phase}>
            <Fig v={s.count} f={count} /> {phases[s.phase] || 'unknown'} step{s.count === 1 ? '' : 's'} begin
            in it
          </span>
        ))}
        <span class="time-buttons">
          <button aria-pressed={by === 'ops'} onClick={() => setBy('ops')}>
            by operator
          </button>
          <button aria-pressed={by === 'kinds'} onClick={() => setBy('kinds')}>
            by kind
          </button>
          <button onClick={actions.fit} title="f">
            zoom to it
          </button>
          <button onClick={actions.clear} title="Esc">
            close
          </button>
        </span>
        {!fresh && (
          <span class="dim" role="status">
            computing …
          </span>
        )}
      </div>
      {stats && stats.missing > 0 && (
        <p class="note">
          {stats.missing} of {stats.parts} parts of this range are not in this file: the figures are of the
          rest. All of it: <code>profinfer serve -i {clean(d.run.file)}</code>
        </p>
      )}
      {stats && (
        <div class="time-cols">
          <Table
            label={`range by ${by}`}
            rows={stats[by]}
            columns={columns}
            id={(r) => r.key}
            sort="time"
            limit={40}
          />
          <div>
            <Table
              label="range by thread"
              rows={stats.threads}
              columns={threads}
              id={(r) => String(d.index.threads?.[r.thread]?.tid)}
              limit={40}
            />
            {d.index.has_sched && stats.missing === 0 && (
              <p>
                Engine threads were runnable for <Fig v={stats.runnable} f={dur} class="time-runnable" />.
              </p>
            )}
            {stats.instead.length > 0 && (
              <Table
                label="preempted by"
                rows={stats.instead}
                id={(r) => r.name}
                limit={12}
                sort="time"
                columns={[
                  {
                    key: 'name',
                    head: 'preempted by',
                    text: true,
                    value: (r) => r.name,
                    cell: (r) => r.name,
                  },
                  {
                    key: 'time',
                    head: 'time',
                    value: (r) => r.time,
                    cell: (r) => <Fig v={r.time} f={dur} />,
                  },
                  {
                    key: 'count',
                    head: 'times',
                    value: (r) => r.count,
                    cell: (r) => <Fig v={r.count} f={count} />,
                  },
                ]}
              />
            )}
          </div>
        </div>
      )}
    </div>
  )
}
