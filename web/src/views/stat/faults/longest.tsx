// SPDX-License-Identifier: Apache-2.0

// The longest page faults one by one, as links into ProfTime.
import { useMemo } from 'preact/hooks'
import type { Run } from '../../../api/load'
import type { MemoryFaultMarks } from '../../../api/types'
import { memoryClassName } from '../../../lib/faults'
import { bytes, clean, count } from '../../../lib/format'
import { moment } from '../../../lib/time-scale'
import { inUnit, unitOf } from '../../../lib/units'
import { Name } from '../../../ui/charts'
import { Fig } from '../../../ui/figure'
import { href } from '../../../ui/route'
import { Table, type Column } from '../../../ui/table'
import { useSectionsIfAny } from '../../../ui/use-section'
import type { TabContext } from '../context'

const listed = 60

export function Longest({ ctx, run, at }: { ctx: TabContext; run: Run; at: number }) {
  const { data, error } = useSectionsIfAny('faults/marks', [run])
  const m = data?.[0]
  const rows = useMemo(() => {
    if (!m) return []
    const all = m.start_ns.map((_, i) => i)
    all.sort(
      (a, b) =>
        m.dur_ns[b] - m.dur_ns[a] || m.major[b] - m.major[a] || m.read_bytes[b] - m.read_bytes[a] || a - b,
    )
    return all.slice(0, listed)
  }, [m])
  if (error) return <p class="dim">Single faults cannot be shown: {error}.</p>
  if (!m || rows.length === 0) return null
  const time = unitOf(
    'time',
    rows.map((i) => (m.dur_ns[i] < 0 ? null : m.dur_ns[i])),
  )
  const cols: Column<number>[] = [
    {
      key: 'at',
      head: 'at',
      text: true,
      value: (i) => m.start_ns[i],
      cell: (i) => <a href={markLink(ctx, at, m, i)}>{moment(m.start_ns[i])}</a>,
    },
    {
      key: 'dur',
      head: (
        <>
          took <span class="unit">{time.name}</span>
        </>
      ),
      value: (i) => (m.dur_ns[i] < 0 ? null : m.dur_ns[i]),
      cell: (i) => <Fig v={m.dur_ns[i] < 0 ? null : m.dur_ns[i]} f={inUnit(time)} />,
    },
    {
      key: 'major',
      head: '',
      text: true,
      value: (i) => m.major[i],
      cell: (i) => (m.major[i] ? 'major' : 'minor'),
    },
    {
      key: 'read',
      head: 'read',
      value: (i) => m.read_bytes[i],
      cell: (i) => <Fig v={m.read_bytes[i]} f={bytes} />,
    },
    {
      key: 'what',
      head: 'hit',
      text: true,
      value: (i) => m.strings[m.tensor[i]],
      cell: (i) => (
        <>
          {m.tensor[i] ? (
            <>
              <Name text={m.strings[m.tensor[i]]} />{' '}
              <span class="dim">{clean(m.strings[m.type[i]] ?? '')}</span>
            </>
          ) : (
            <span class="dim">{memoryClassName(m.strings[m.class[i]] ?? '')}</span>
          )}
        </>
      ),
    },
    {
      key: 'expert',
      head: 'expert',
      value: (i) => (m.expert[i] < 0 ? null : m.expert[i]),
      cell: (i) => (m.expert[i] < 0 ? '' : <Fig v={m.expert[i]} f={count} />),
    },
    {
      key: 'address',
      head: 'address',
      text: true,
      value: (i) => m.address[i],
      cell: (i) => <span class="mono">{clean(m.address[i])}</span>,
    },
    { key: 'tid', head: 'thread', value: (i) => m.tid[i], cell: (i) => m.tid[i] },
    {
      key: 'step',
      head: 'step',
      value: (i) => m.step[i] || null,
      cell: (i) => (m.step[i] ? count(m.step[i]) : <span class="dim">none</span>),
    },
  ]
  return (
    <section>
      <h3>The longest page faults</h3>
      <Table rows={rows} columns={cols} id={String} label="the longest page faults" limit={10} sort="dur" />
      {m.left_out > 0 && (
        <p class="note">
          {count(m.left_out)} shorter faults are in the sums only, and not in ProfTime: there are too many.
        </p>
      )}
    </section>
  )
}

/** The link to a fault in ProfTime. */
function markLink(ctx: TabContext, run: number, m: MemoryFaultMarks, i: number): string {
  const d = Math.max(m.dur_ns[i], 20_000)
  const { run: ra, with: wa } = ctx.params
  const where = ctx.b && run === 1 ? { run: ctx.b.index, with: ctx.a.index } : { run: ra, with: wa }
  return href('time', {
    ...where,
    t0: Math.round(m.start_ns[i] - d),
    t1: Math.round(m.start_ns[i] + 2 * d),
    fault: i,
  })
}
