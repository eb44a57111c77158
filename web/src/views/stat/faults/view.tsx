// SPDX-License-Identifier: Apache-2.0

// Page faults, reads from disk, and what of the model is in memory.
import './faults.css'
import type { Run } from '../../../api/load'
import type { MemoryFaultPhase, MemorySeries, MemoryStat } from '../../../api/types'
import { bytes, clean, count, delta, dur, num, plural, share } from '../../../lib/format'
import { inUnit, unitOf } from '../../../lib/units'
import { Empty, Fig } from '../../../ui/figure'
import { Table, type Column } from '../../../ui/table'
import { useSectionsIfAny } from '../../../ui/use-section'
import { runNames, type TabContext } from '../context'
import { Delayed } from './delayed'
import { Files } from './files'
import { Classes, ExpertMap, LayerMap, Names } from './hits'
import { Longest } from './longest'
import { FaultSteps } from './steps'

const statOf = (r: Run): MemoryStat | null =>
  (r.stats.weight as { faults?: MemoryStat | null }).faults ?? null

/** How faults are recorded, where they were not. */
const how = 'profinfer record --faults -- COMMAND'

export function FaultsAndDisk(ctx: TabContext) {
  const runs = ctx.b ? [ctx.a, ctx.b] : [ctx.a]
  const { data, error } = useSectionsIfAny('faults', runs)
  if (error) return <Empty>Page faults of this recording cannot be shown: {error}.</Empty>
  if (!data) return <Empty>Loading …</Empty>
  const names = runNames(ctx)
  if (data.every((d) => d == null)) {
    return (
      <Empty>
        Page faults were not recorded, so waits for the disk and the part of the model in memory are unknown.{' '}
        <code>{how}</code> records them.
      </Empty>
    )
  }
  return (
    <>
      <p class="dim">
        A major fault stops a thread in the middle of an operator until the disk has answered: the page that
        it touched was not in memory. Thread time is the sum of faults over threads; the time in which at
        least one thread was in one is the most that a faster disk or more memory can give back.
      </p>
      {ctx.b && <Compared ctx={ctx} data={data} names={names} />}
      <FaultSteps ctx={ctx} data={data} />
      {runs.map((r, i) => {
        const d = data[i]
        const s = statOf(r)
        return (
          <section key={i} data-faults={i}>
            {ctx.b && <h2>{names[i]}</h2>}
            {d && s ? (
              <One ctx={ctx} d={d} s={s} run={r} at={i} />
            ) : (
              <p class="dim">
                Page faults of this recording are not known:{' '}
                {r.has('faults') ? (
                  <>
                    they were not recorded (<code>{how}</code>)
                  </>
                ) : (
                  'its page was made by an older profinfer'
                )}
                .
              </p>
            )}
          </section>
        )
      })}
    </>
  )
}

function One({
  ctx,
  d,
  s,
  run,
  at,
}: {
  ctx: TabContext
  d: MemorySeries
  s: MemoryStat
  run: Run
  at: number
}) {
  return (
    <>
      <h2>What they hit</h2>
      <Facts s={s} />
      <Account s={s} />
      <div class="pair">
        <div>
          <Classes s={s} />
        </div>
        <div>
          <PhaseTable s={s} />
        </div>
      </div>
      <Names d={d} s={s} />
      <LayerMap ctx={ctx} d={d} at={at} />
      <ExpertMap ctx={ctx} d={d} at={at} />
      <h2>Operators they delayed</h2>
      <Delayed ctx={ctx} d={d} />
      <Longest ctx={ctx} run={run} at={at} />
      <Files ctx={ctx} d={d} run={at} />
    </>
  )
}

function Facts({ s }: { s: MemoryStat }) {
  return (
    <p class="facts">
      <span>
        <Fig v={s.major} f={count} name="faults.major" /> major faults,{' '}
        <Fig v={s.minor} f={count} name="faults.minor" /> minor
      </span>
      {s.timed ? (
        <span>
          threads were in those recorded for <Fig v={s.wait_ns} f={dur} name="faults.wait_ns" /> in sum
        </span>
      ) : (
        <span class="warn">how long they took is not known: that kernel does not report it</span>
      )}
      <span>
        read from disk <Fig v={s.read_bytes} f={bytes} name="faults.read_bytes" />, by faults{' '}
        <Fig v={s.read_faults_bytes} f={bytes} name="faults.read_faults_bytes" />
      </span>
    </p>
  )
}

/** How the faults recorded one by one add up to what the kernel and the process counted. */
function Account({ s }: { s: MemoryStat }) {
  if (s.major == null || s.major_no_address == null)
    return (
      <p class="note">
        What the kernel counted for the threads is not in the recording: the{' '}
        <Fig v={s.major_seen} f={count} name="faults.major_seen" /> major faults below are those that were
        recorded one by one.
      </p>
    )
  const fits = s.major_seen + s.major_no_address === s.major
  const whole = s.own_major == null || s.major_before == null ? null : s.own_major - s.major_before - s.major
  return (
    <>
      <p class="dim">
        <Fig v={s.major_seen} f={count} name="faults.major_seen" /> major faults were recorded one by one
        {s.major_no_address > 0 && (
          <>
            , <Fig v={s.major_no_address} f={count} name="faults.major_no_address" /> have no address, as the
            kernel took them for a system call or their record found no room
          </>
        )}
        :
        {fits ? (
          <>
            {' '}
            together the <Fig v={s.major} f={count} /> that the kernel counted for these threads
          </>
        ) : (
          ' that is not what the kernel counted'
        )}
        .
        {whole === 0 && (
          <>
            {' '}
            With <Fig v={s.major_before} f={count} name="faults.major_before" /> before the recording they are
            the <Fig v={s.own_major} f={count} name="faults.own_major" /> that /proc says of the whole
            process.
          </>
        )}
        {whole == null && (
          <>
            {' '}
            What /proc says of the whole process could not be read
            {s.own_major == null ? ' at the end' : ' at the start'}.
          </>
        )}
      </p>
      {!fits && (
        <p class="note">
          The sums do not add up: {count(s.major_seen)} recorded and {count(s.major_no_address)} without an
          address, but the kernel counted {count(s.major)}.
        </p>
      )}
      {whole != null && whole !== 0 && (
        <p class="note">
          /proc says <Fig v={s.own_major} f={count} name="faults.own_major" /> major faults of the whole
          process, of them <Fig v={s.major_before} f={count} name="faults.major_before" /> before the
          recording:{' '}
          {whole > 0
            ? `${count(whole)} more than were counted, of threads that were not seen`
            : `${count(-whole)} fewer than were counted`}
          .
        </p>
      )}
    </>
  )
}

const phaseName = (p: MemoryFaultPhase): string =>
  p.in_step ? clean(p.phase) || 'phase not known' : 'in no step'

function PhaseTable({ s }: { s: MemoryStat }) {
  if (s.phases.length === 0) return null
  const time = unitOf(
    'time',
    s.phases.flatMap((p) => [p.wait_ns, p.wall_ns]),
  )
  const size = unitOf(
    'bytes',
    s.phases.map((p) => p.read_bytes),
  )
  const path = (p: MemoryFaultPhase) => `faults.phases.${s.phases.indexOf(p)}`
  const cols: Column<MemoryFaultPhase>[] = [
    { key: 'phase', head: 'page faults in', text: true, value: phaseName, cell: phaseName },
    {
      key: 'steps_with_major',
      head: 'steps with major',
      value: (p) => (p.in_step ? p.steps_with_major : null),
      cell: (p) =>
        p.in_step && (
          <>
            <Fig v={p.steps_with_major} f={count} name={`${path(p)}.steps_with_major`} />{' '}
            <span class="dim">of {count(p.steps)}</span>
          </>
        ),
    },
    {
      key: 'major',
      head: 'major',
      value: (p) => p.major,
      cell: (p) => <Fig v={p.major} f={count} name={`${path(p)}.major`} />,
    },
    {
      key: 'wait_ns',
      head: (
        <>
          thread time <span class="unit">{time.name}</span>
        </>
      ),
      value: (p) => p.wait_ns,
      cell: (p) => <Fig v={p.wait_ns} f={inUnit(time)} name={`${path(p)}.wait_ns`} />,
    },
    {
      key: 'wall_ns',
      head: (
        <>
          a thread in one <span class="unit">{time.name}</span>
        </>
      ),
      help: 'time in which at least one thread was in a major fault, or in one that read',
      value: (p) => p.wall_ns,
      cell: (p) => p.in_step && <Fig v={p.wall_ns} f={inUnit(time)} name={`${path(p)}.wall_ns`} />,
    },
    {
      key: 'share',
      head: 'of the steps',
      value: (p) => p.share,
      cell: (p) => p.in_step && <Fig v={p.share} f={share} name={`${path(p)}.share`} />,
    },
    {
      key: 'read_bytes',
      head: (
        <>
          read <span class="unit">{size.name}</span>
        </>
      ),
      value: (p) => p.read_bytes,
      cell: (p) => <Fig v={p.read_bytes} f={inUnit(size)} name={`${path(p)}.read_bytes`} />,
    },
  ]
  return (
    <Table
      rows={s.phases}
      columns={cols}
      id={(p) => `${p.in_step} ${p.phase}`}
      label="page faults by phase"
    />
  )
}

interface Line {
  what: string
  v: [number | null, number | null]
  f: (v: number | null | undefined) => string
}

/** How much the second differs: in percent, or how many times as much. */
const change = (a: number | null, b: number | null): string =>
  a && b && b / a >= 10 ? `${num(b / a)} times` : delta(a, b)

/** Two runs beside each other. */
function Compared({
  ctx,
  data,
  names,
}: {
  ctx: TabContext
  data: (MemorySeries | null)[]
  names: [string, string]
}) {
  const stats = [ctx.a, ctx.b!].map((r, i) => (data[i] ? statOf(r) : null))
  const two = (
    f: (s: MemoryStat, d: MemorySeries) => number | null | undefined,
  ): [number | null, number | null] =>
    [0, 1].map((i) => (stats[i] ? (f(stats[i]!, data[i]!) ?? null) : null)) as [number | null, number | null]
  const phase = (name: string) => (s: MemoryStat) => s.phases.find((p) => p.in_step && p.phase === name)
  const lines: Line[] = [
    { what: 'major faults', v: two((s) => s.major), f: count },
    { what: 'minor faults', v: two((s) => s.minor), f: count },
    { what: 'thread time in faults', v: two((s) => s.wait_ns), f: dur },
    { what: 'read from disk', v: two((s) => s.read_bytes), f: bytes },
    { what: 'read by faults', v: two((s) => s.read_faults_bytes), f: bytes },
  ]
  for (const p of ['encode', 'prefill', 'decode']) {
    if (stats.some((s) => s && phase(p)(s)))
      lines.push({
        what: `${p}: a thread in a fault, of its steps`,
        v: two((s) => phase(p)(s)?.share),
        f: share,
      })
  }
  const model = (d: MemorySeries) => d.files.find((f) => f.mapped) ?? d.files.find((f) => f.groups.length > 0)
  lines.push({
    what: 'of the model’s file in memory at the end',
    v: two((_, d) => {
      const m = model(d)
      return m && m.resident_end_bytes != null && m.bytes > 0 ? m.resident_end_bytes / m.bytes : null
    }),
    f: share,
  })
  const cols: Column<Line>[] = [
    { key: 'what', head: 'compared', text: true, value: (l) => l.what, cell: (l) => l.what },
    { key: 'a', head: names[0], value: (l) => l.v[0], cell: (l) => <Fig v={l.v[0]} f={l.f} /> },
    { key: 'b', head: names[1], value: (l) => l.v[1], cell: (l) => <Fig v={l.v[1]} f={l.f} /> },
    {
      key: 'd',
      head: '',
      value: (l) => (l.v[0] && l.v[1] != null ? l.v[1] / l.v[0] : null),
      cell: (l) => change(l.v[0], l.v[1]),
    },
  ]
  return (
    <section>
      <h2>Compared</h2>
      <Table rows={lines} columns={cols} id={(l) => l.what} label="page faults of two runs" />
      {stats.some((s) => !s) && (
        <p class="dim">
          {plural(stats.filter((s) => !s).length, 'recording')} of the two has no page faults.
        </p>
      )}
    </section>
  )
}
