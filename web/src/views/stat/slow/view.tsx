// SPDX-License-Identifier: Apache-2.0

// Slow steps: what took longer than its neighbours, what that went to, and who took CPUs.
import './slow.css'
import type { Run } from '../../../api/load'
import type { Slow, SlowPart, SlowStep } from '../../../api/types'
import { clean, count, dur, named, num, plural, share } from '../../../lib/format'
import { sortOrder } from '../../../lib/sort'
import { inUnit, unitOf } from '../../../lib/units'
import { Meter, Name } from '../../../ui/charts'
import { Empty, Fig } from '../../../ui/figure'
import { Table, type Column } from '../../../ui/table'
import { useTheme } from '../../../ui/theme'
import { useSectionsIfAny } from '../../../ui/use-section'
import { runNames, stepLink, type TabContext } from '../context'
import { Interference } from './interference'
import { CauseLegend, colorsOf, Excess, causeName, reach, causeShortName, type Colors } from './parts'

export function SlowSteps(ctx: TabContext) {
  const theme = useTheme()
  const runs = ctx.b ? [ctx.a, ctx.b] : [ctx.a]
  const { data, error } = useSectionsIfAny('slow', runs)
  if (error) return <Empty>Slow steps of this recording cannot be shown: {error}.</Empty>
  if (!data) return <Empty>Loading …</Empty>
  const names = runNames(ctx)
  const colors = colorsOf(theme, data)
  return (
    <>
      <p class="dim">
        A step is compared with those of its kind within 10 s before and after: the mean of the quarter of
        them that lies around the median is its local baseline. The time beyond it is the excess latency; the
        parts add up to it.
      </p>
      {data.map((s, i) => (
        <section key={i} data-slow={i}>
          {ctx.b && <h2>{names[i]}</h2>}
          {s ? (
            <One s={s} run={runs[i]} index={i} ctx={ctx} colors={colors} />
          ) : (
            <p class="dim">This recording’s page has no slow steps: it was made by an older profinfer.</p>
          )}
        </section>
      ))}
    </>
  )
}

function One({
  s,
  run,
  index,
  ctx,
  colors,
}: {
  s: Slow
  run: Run
  index: number
  ctx: TabContext
  colors: Colors
}) {
  return (
    <>
      <p class="facts">
        {s.slow_steps > 0 ? (
          <>
            <span>
              <Fig v={s.slow_steps} f={count} name="slow_steps" /> of {plural(s.steps, 'step')} took over{' '}
              {num(s.over_share * 100)} % longer than their local baseline:
            </span>
            <span>
              <Fig v={s.excess_ns} f={dur} name="excess_ns" /> in all,{' '}
              <Fig v={s.dur_ns > 0 ? s.excess_ns / s.dur_ns : null} f={share} /> of the time of all steps
            </span>
          </>
        ) : (
          <span>
            {s.steps > 0
              ? `No step is slower than its local baseline by more than ${num(s.over_share * 100)} %`
              : 'No step could be compared with a local baseline'}
            {s.next_share != null && s.next_share > 0 && (
              <>
                : the slowest by <Fig v={s.next_share} f={share} />
              </>
            )}
            .
          </span>
        )}
      </p>
      {s.steps_without_baseline > 0 && (
        <p class="note">
          {plural(s.steps_without_baseline, 'step')} had fewer than four comparable steps nearby and{' '}
          {s.steps_without_baseline === 1 ? 'is' : 'are'} not judged.
        </p>
      )}
      {s.partial_steps > 0 && <p class="note">{plural(s.partial_steps, 'step')} incomplete, not judged.</p>}
      {s.steps > 0 && !s.has_sched && (
        <p class="note">
          Scheduling was not recorded, so CPU contention cannot be separated from load imbalance.
        </p>
      )}
      {s.steps > 0 && !s.has_operators && (
        <p class="note">Operators were not recorded: little of a step can be explained.</p>
      )}
      {s.slow_steps > 0 && <Causes s={s} />}
      {s.listed.length > 0 && <Steps s={s} index={index} ctx={ctx} colors={colors} />}
      <Interference s={s} run={run} />
    </>
  )
}

function Causes({ s }: { s: Slow }) {
  const most = Math.max(...s.causes.map((c) => c.share), 0)
  const u = unitOf(
    'time',
    s.causes.map((c) => c.ns),
  )
  const cols: Column<SlowPart>[] = [
    {
      key: 'cause',
      head: 'cause of the excess latency',
      text: true,
      value: (c) => causeName(c.cause),
      cell: (c) => (
        <span title={causeName(c.cause)}>
          {causeName(c.cause)}
          {c.estimate && <span class="dim"> (an estimate)</span>}
        </span>
      ),
    },
    {
      key: 'ns',
      head: (
        <>
          time <span class="unit">{u.name}</span>
        </>
      ),
      value: (c) => c.ns,
      cell: (c) => <Fig v={c.ns} f={inUnit(u)} name={`cause.${c.cause}`} />,
    },
    {
      key: 'share',
      head: 'share',
      value: (c) => c.share,
      cell: (c) => (
        <>
          <Meter part={most > 0 ? c.share / most : 0} /> <Fig v={c.share} f={share} />
        </>
      ),
    },
    {
      key: 'who',
      head: 'who',
      text: true,
      value: (c) => c.who?.[0]?.comm,
      cell: (c) => <span title={whoText(c)}>{whoText(c)}</span>,
    },
  ]
  return <Table rows={s.causes} columns={cols} id={(c) => c.cause} label="causes of slow steps" />
}

/** Those behind a part; names of its own threads say nothing. */
function whoText(c: SlowPart): string {
  if (c.cause !== 'other_process' || !c.who) return ''
  const list = c.who.filter((w) => w.comm !== '' && w.ns * 100 >= c.ns)
  const rest = c.ns - list.reduce((n, w) => n + w.ns, 0)
  const out = list.map((w) => `${named(w.comm)} ${dur(w.ns)}`)
  if (rest * 100 >= c.ns) out.push(`others ${dur(rest)}`)
  return out.join(', ')
}

function Steps({ s, index, ctx, colors }: { s: Slow; index: number; ctx: TabContext; colors: Colors }) {
  const u = unitOf(
    'time',
    s.listed.map((x) => x.dur_ns),
  )
  const most = Math.max(...s.listed.map(reach))
  const time = (
    key: 'dur_ns' | 'baseline_ns' | 'excess_ns',
    head: string,
    help: string,
  ): Column<SlowStep> => ({
    key,
    help,
    head: (
      <>
        {head} <span class="unit">{u.name}</span>
      </>
    ),
    value: (x) => x[key],
    cell: (x) => <Fig v={x[key]} f={inUnit(u)} />,
  })
  const cols: Column<SlowStep>[] = [
    {
      key: 'step',
      head: 'step',
      value: (x) => x.step,
      cell: (x) => <a href={stepLink(ctx, index, x.step)}>{count(x.step)}</a>,
    },
    { key: 'phase', head: 'phase', text: true, value: (x) => x.phase, cell: (x) => clean(x.phase) },
    {
      key: 'position',
      head: 'position',
      help: 'behind its last token',
      value: (x) => x.position,
      cell: (x) => <Fig v={x.position} f={count} />,
    },
    time('dur_ns', 'took', 'the step’s duration'),
    time('baseline_ns', 'local baseline', 'mean of the middle quarter of comparable steps before and after'),
    time('excess_ns', 'excess latency', 'time beyond the local baseline'),
    {
      key: 'parts',
      head: 'causes',
      text: true,
      value: (x) => x.parts[0]?.cause,
      cell: (x) => (
        <>
          <Excess x={x} of={most} colors={colors} />
          <span title={partsText(x)}>{partsText(x)}</span>
          {x.doubts.length > 0 && (
            <div class="dim" title={clean(x.doubts.join(' '))}>
              partly unknown
            </div>
          )}
        </>
      ),
    },
    {
      key: 'ops',
      head: 'largest operator regressions',
      text: true,
      value: (x) => x.operators[0]?.name,
      cell: (x) =>
        x.operators.slice(0, 3).map((o, i) => (
          <div key={i}>
            <Name text={o.name + (o.layer == null ? '' : ' ' + o.layer)} /> +
            <Fig v={o.dur_ns - o.median_ns} f={dur} />
          </div>
        )),
    },
  ]
  const sort = sortOrder(ctx.params.sort) ?? { key: 'excess_ns', up: false }
  return (
    <>
      <h3>Slow steps</h3>
      {s.slow_steps > s.listed.length && (
        <p class="note">The {count(s.listed.length)} that lost most are listed.</p>
      )}
      <CauseLegend s={s} of={colors} />
      <Table
        rows={s.listed}
        columns={cols}
        id={(x) => String(x.step)}
        label="slow steps"
        sort={sort.key}
        up={sort.up}
        limit={30}
        onSort={(key, up) => ctx.set({ sort: (up ? 'up:' : '') + key }, true)}
      />
    </>
  )
}

/** A step's parts of a hundredth of the excess and more. */
function partsText(x: SlowStep): string {
  return x.parts
    .filter((p) => Math.abs(p.ns) * 100 >= x.excess_ns)
    .map((p) => {
      const who = p.cause === 'other_process' ? (p.who ?? []).filter((w) => w.comm !== '') : []
      const name =
        who.length > 0
          ? who
              .slice(0, 2)
              .map((w) => named(w.comm, 16))
              .join(' + ') + (who.length > 2 ? ` + ${who.length - 2}` : '')
          : causeShortName(p.cause)
      return `${name} ${share(p.share)}`
    })
    .join(', ')
}
