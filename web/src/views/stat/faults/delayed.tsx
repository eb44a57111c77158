// SPDX-License-Identifier: Apache-2.0

// Operators that lasted longer for page faults of their threads.
import type { MemoryDelayedOperator, MemorySeries } from '../../../api/types'
import { clean, count, plural, share } from '../../../lib/format'
import { sortOrder } from '../../../lib/sort'
import { inUnit, unitOf } from '../../../lib/units'
import { Meter, Name } from '../../../ui/charts'
import { Fig } from '../../../ui/figure'
import { Table, type Column } from '../../../ui/table'
import type { TabContext } from '../context'

export function Delayed({ ctx, d }: { ctx: TabContext; d: MemorySeries }) {
  const rows = d.operators
  if (rows.length === 0)
    return <p class="dim">No page fault was seen within an operator, before its thread arrived.</p>
  const time = unitOf(
    'time',
    rows.flatMap((r) => [r.delay_ns, r.wait_ns]),
  )
  const whole = unitOf(
    'time',
    rows.map((r) => r.dur_ns),
  )
  const size = unitOf(
    'bytes',
    rows.map((r) => r.read_bytes),
  )
  const most = Math.max(1, ...rows.map((r) => r.delay_ns ?? r.major))
  const id = (r: MemoryDelayedOperator) => `${r.in_step} ${r.phase} ${r.key} ${r.type} ${r.weight}`
  const cols: Column<MemoryDelayedOperator>[] = [
    {
      key: 'op',
      head: 'operators',
      text: true,
      value: (r) => r.key,
      cell: (r) => (
        <>
          <Name text={r.key} /> {r.type && <span class="dim">{clean(r.type)}</span>}
        </>
      ),
    },
    {
      key: 'phase',
      head: 'phase',
      text: true,
      value: (r) => r.phase,
      cell: (r) => (r.in_step ? r.phase || 'not known' : 'in no step'),
    },
    {
      key: 'delay_ns',
      head: (
        <>
          lost <span class="unit">{time.name}</span>
        </>
      ),
      help: 'how much earlier their last threads would have arrived without their faults',
      value: (r) => r.delay_ns ?? (d.timed ? null : r.major),
      cell: (r) => (
        <>
          <Meter part={(r.delay_ns ?? r.major) / most} /> <Fig v={r.delay_ns} f={inUnit(time)} />
        </>
      ),
    },
    {
      key: 'share',
      head: 'of their time',
      help: 'what was lost of the duration of all calls',
      value: (r) => r.share,
      cell: (r) => <Fig v={r.share} f={share} />,
    },
    {
      key: 'dur_ns',
      head: (
        <>
          all calls <span class="unit">{whole.name}</span>
        </>
      ),
      help: 'duration of all calls, with or without faults',
      value: (r) => r.dur_ns,
      cell: (r) => <Fig v={r.dur_ns} f={inUnit(whole)} />,
    },
    {
      key: 'faulted',
      head: 'calls with faults',
      help: 'with a major fault, or one that read',
      value: (r) => r.faulted,
      cell: (r) => (
        <>
          <Fig v={r.faulted} f={count} /> <span class="dim">of {count(r.calls)}</span>
        </>
      ),
    },
    { key: 'major', head: 'major', value: (r) => r.major, cell: (r) => <Fig v={r.major} f={count} /> },
    {
      key: 'wait_ns',
      head: (
        <>
          thread time <span class="unit">{time.name}</span>
        </>
      ),
      help: 'sum of the faults’ durations over threads',
      value: (r) => r.wait_ns,
      cell: (r) => <Fig v={r.wait_ns} f={inUnit(time)} />,
    },
    {
      key: 'read_bytes',
      head: (
        <>
          read <span class="unit">{size.name}</span>
        </>
      ),
      value: (r) => r.read_bytes,
      cell: (r) => <Fig v={r.read_bytes} f={inUnit(size)} />,
    },
  ]
  const lost = rows.reduce((n, r) => n + (r.delay_ns ?? 0), 0)
  const sort = sortOrder(ctx.params.sort)
  return (
    <>
      <p class="dim">
        {d.timed
          ? `${plural(
              rows.reduce((n, r) => n + r.faulted, 0),
              'operator',
            )} lost ${inUnit(time)(lost)} ${time.name} in all. `
          : 'How long faults took is not known: that kernel does not report it, so what operators lost is not known. '}
        An operator loses what its last thread would have arrived earlier; a fault of a thread that would have
        waited at the barrier anyway costs nothing.
      </p>
      <Table
        rows={rows}
        columns={cols}
        id={id}
        label="operators that lost time to page faults"
        limit={15}
        sort={sort && cols.some((c) => c.key === sort.key) ? sort.key : 'delay_ns'}
        up={sort?.up ?? false}
        onSort={(key, up) => ctx.set({ sort: (up ? 'up:' : '') + key }, true)}
      />
      {d.operators_left_out > 0 && (
        <p class="note">{count(d.operators_left_out)} further rows are left out: there are too many.</p>
      )}
    </>
  )
}
