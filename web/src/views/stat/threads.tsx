// SPDX-License-Identifier: Apache-2.0

// Balance: what each thread did, in a phase and in each group of operators.
import type { Run } from '../../api/load'
import type { SeriesPhase, SummaryRow, SeriesThreadPart, SummaryThread } from '../../api/types'
import { clean, count, dur, share } from '../../lib/format'
import { threadColors } from '../../lib/palette'
import { sortOrder } from '../../lib/sort'
import { inUnit, unitOf } from '../../lib/units'
import { Name, StackBar, type Part } from '../../ui/charts'
import { Fig } from '../../ui/figure'
import { Swatch } from '../../ui/plot-legend'
import { Table, type Column } from '../../ui/table'
import { useTheme } from '../../ui/theme'
import { phaseOf, rowSeries, runNames, seriesOf, statBy, type TabContext } from './context'
import { Missing } from './missing'
import { filterRows, pairRows, type RowPair } from './rows'

const maxThreads = 64

export function Threads(ctx: TabContext) {
  const theme = useTheme()
  const names = runNames(ctx)
  const c = threadColors(theme)
  const runs: { run: Run; p: SeriesPhase | null; name: string }[] = [
    { run: ctx.a, p: seriesOf(ctx.sa, ctx), name: ctx.b ? names[0] : '' },
  ]
  if (ctx.b) runs.push({ run: ctx.b, p: seriesOf(ctx.sb, ctx), name: names[1] })
  if (runs.every((r) => !r.p?.threads.length)) {
    return (
      <p class="dim">
        No thread is drawn: operators were not recorded in phase {ctx.phase} (level{' '}
        {clean(ctx.a.stats.weight.run.level)}), so what its threads did is not known.
      </p>
    )
  }
  return (
    <>
      <Missing
        ctx={ctx}
        pa={phaseOf(statBy(ctx.a, 'weight'), ctx)}
        pb={ctx.b ? phaseOf(statBy(ctx.b, 'weight'), ctx) : null}
      />
      <div class="legend">
        <Swatch shape="area" color={c.busy} name="busy: on a CPU, computing" />
        <Swatch
          shape="area"
          color={c.wait}
          name="barrier wait: from its barrier arrival to the last thread’s"
        />
        <Swatch shape="area" color={c.off} name="off-CPU: descheduled before its barrier arrival" />
        <Swatch shape="area" color={c.idle} name="idle: in no operator" />
      </div>
      {!ctx.a.stats.weight.has_off_cpu && (
        <p class="note">Scheduling was not recorded: busy holds the time a thread was descheduled.</p>
      )}
      <div class="pair">
        {runs.map((r) => r.p && r.p.threads.length > 0 && <PhaseThreads key={r.name} {...r} ctx={ctx} />)}
      </div>
      <Balance ctx={ctx} names={names} />
      {runs.map((r) => (
        <Whole key={r.name} run={r.run} name={r.name} />
      ))}
    </>
  )
}

const parts = (t: SeriesThreadPart, c: ReturnType<typeof threadColors>, idle: boolean): Part[] => {
  const out = [
    { name: 'busy', value: t.busy_ns, color: c.busy },
    { name: 'barrier wait', value: t.wait_ns, color: c.wait },
    { name: 'off-CPU', value: t.off_cpu_ns, color: c.off },
  ]
  if (idle)
    out.push({
      name: 'idle',
      value: Math.max(0, (t.steps_ns ?? 0) - t.busy_ns - t.wait_ns - t.off_cpu_ns),
      color: c.idle,
    })
  return out
}

const nameOf = (run: Run, t: { pid: number; tid: number }): string => {
  const i = run.stats.thread.threads?.find((x) => x.tid === t.tid && x.pid === t.pid)
  return i ? `${i.comm} ${t.tid}${i.role ? ' ' + i.role : ''}` : String(t.tid)
}

/** Each thread's time in the steps that it took part in. */
function PhaseThreads({
  run,
  p,
  name,
  ctx,
}: {
  run: Run
  p: SeriesPhase | null
  name: string
  ctx: TabContext
}) {
  const c = threadColors(useTheme())
  const order = (t: SeriesThreadPart) =>
    (run.stats.thread.threads ?? []).findIndex((x) => x.tid === t.tid && x.pid === t.pid)
  const threads = [...p!.threads].sort((x, y) => order(x) - order(y))
  return (
    <section class="plot" data-plot="threads" data-points={threads.length}>
      <h3>
        Time of each thread, {ctx.phase}
        {name && `, ${name}`}
      </h3>
      <p class="dim">Shares of the duration of the steps that the thread took part in.</p>
      <table class="plain" aria-label={`threads in ${ctx.phase}`}>
        <thead>
          <tr>
            <th />
            <th class="wide" />
            <th>busy</th>
            <th>barrier wait</th>
            <th>off-CPU</th>
            <th>idle</th>
          </tr>
        </thead>
        <tbody>
          {threads.slice(0, maxThreads).map((t) => {
            const all = t.steps_ns ?? 0
            const of = (v: number) => (all > 0 ? v / all : null)
            return (
              <tr key={t.tid} data-id={t.tid}>
                <td class="text">
                  <Name text={nameOf(run, t)} />
                </td>
                <td class="wide">
                  <StackBar of={all} parts={parts(t, c, true)} label={nameOf(run, t)} />
                </td>
                <td data-col="busy_ns">
                  <Fig v={of(t.busy_ns)} f={share} />
                </td>
                <td data-col="wait_ns">
                  <Fig v={of(t.wait_ns)} f={share} />
                </td>
                <td data-col="off_cpu_ns">
                  <Fig v={run.stats.thread.has_off_cpu ? of(t.off_cpu_ns) : null} f={share} />
                </td>
                <td data-col="idle_ns">
                  <Fig v={of(Math.max(0, all - t.busy_ns - t.wait_ns - t.off_cpu_ns))} f={share} />
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
      {threads.length > maxThreads && <p class="dim">and {threads.length - maxThreads} more threads.</p>}
    </section>
  )
}

/** Groups of operators with each thread's part: balanced ones have bars of one length. */
function Balance({ ctx, names }: { ctx: TabContext; names: [string, string] }) {
  const c = threadColors(useTheme())
  const by = ctx.params.by === 'op' ? 'op' : 'weight'
  const pa = phaseOf(statBy(ctx.a, by), ctx)
  const pb = ctx.b ? phaseOf(statBy(ctx.b, by), ctx) : null
  const rows = filterRows(pairRows(pa?.rows ?? [], ctx.b ? (pb?.rows ?? []) : null), ctx.params.filter ?? '')
  const steps = (i: number) => (i ? pb : pa)?.traced_steps || 1
  const lost = (r: SummaryRow | null, i: number) => (r ? r.wait_ns / steps(i) : null)
  const series = (p: RowPair, i: number) => rowSeries(seriesOf(i ? ctx.sb : ctx.sa, ctx), by, i ? p.b : p.a)
  const used = ctx.b ? [0, 1] : [0]
  const unit = unitOf(
    'time',
    rows.flatMap((p) => [lost(p.a, 0), lost(p.b, 1)]),
  )
  const cols: Column<RowPair>[] = [
    {
      key: 'key',
      head: by === 'op' ? 'operator' : 'weight or operator',
      text: true,
      value: (p) => p.row.key,
      cell: (p) => <Name text={p.row.key} />,
    },
  ]
  for (const i of used) {
    const of = (p: RowPair) => (i ? p.b : p.a)
    const run = ctx.b && <span class="of">{names[i]}</span>
    const s = i ? '.b' : ''
    cols.push(
      {
        key: 'bars' + s,
        head: <>each thread{run}</>,
        text: true,
        help: 'busy, wait and off-CPU of each thread, as parts of the thread with most',
        value: (p) => of(p)?.imbalance,
        cell: (p) => <Bars parts={series(p, i)?.threads ?? []} name={p.row.key} c={c} />,
      },
      {
        key: 'imbalance' + s,
        head: <>load imbalance{run}</>,
        help: 'max busy / mean busy − 1 over an operator’s threads, weighted by time',
        value: (p) => of(p)?.imbalance,
        cell: (p) => <Fig v={of(p)?.imbalance} f={share} />,
      },
      {
        key: 'wait_share' + s,
        head: <>barrier wait{run}</>,
        help: 'share of the threads’ time in these operators',
        value: (p) => of(p)?.wait_share,
        cell: (p) => <Fig v={of(p)?.wait_share} f={share} />,
      },
      {
        key: 'wait_per_step_ns' + s,
        head: (
          <>
            waited <span class="unit">thread-{unit.name}/step</span>
            {run}
          </>
        ),
        help: 'time that threads waited in these operators, summed over threads, per step',
        value: (p) => lost(of(p), i),
        cell: (p) => <Fig v={lost(of(p), i)} f={inUnit(unit)} />,
      },
      {
        key: 'off_cpu_share' + s,
        head: <>off-CPU{run}</>,
        value: (p) => of(p)?.off_cpu_share,
        cell: (p) => <Fig v={of(p)?.off_cpu_share} f={share} />,
      },
      {
        key: 'share' + s,
        head: <>share{run}</>,
        help: 'of the phase’s time in steps',
        value: (p) => of(p)?.share,
        cell: (p) => <Fig v={of(p)?.share} f={share} />,
      },
    )
  }
  const sort = sortOrder(ctx.params.sort) ?? { key: 'wait_per_step_ns', up: false }
  return (
    <section>
      <h2>Balanced and unbalanced operators, {ctx.phase}</h2>
      <div class="tools">
        <span class="choice" role="group" aria-label="rows">
          {(['weight', 'op'] as const).map((k) => (
            <button key={k} aria-pressed={k === by} onClick={() => ctx.set({ by: k })}>
              by {k === 'op' ? 'operator' : k}
            </button>
          ))}
        </span>
        <input
          type="search"
          placeholder="filter rows"
          aria-label="filter rows"
          value={ctx.params.filter ?? ''}
          onInput={(e) => ctx.set({ filter: e.currentTarget.value }, true)}
        />
        <span class="dim">
          Bars of one length: all threads had the same work. Yellow: barrier wait. Sorted by barrier wait;
          times per step are thread-µs, summed over threads.
        </span>
      </div>
      {rows.length > 0 ? (
        <Table
          key={by}
          rows={rows}
          columns={cols}
          id={(p) => p.id}
          label="balance"
          sort={sort.key}
          up={sort.up}
          onSort={(key, up) => ctx.set({ sort: (up ? 'up:' : '') + key }, true)}
          onSelect={(p) => ctx.set({ tab: 'tables', by, sel: p.id, sort: undefined })}
        />
      ) : (
        <p class="dim">No row.</p>
      )}
    </section>
  )
}

/** One thin bar a thread; of many threads the one with least, the median and the one with most. */
function Bars({
  parts: list,
  name,
  c,
}: {
  parts: SeriesThreadPart[]
  name: string
  c: ReturnType<typeof threadColors>
}) {
  if (list.length === 0) return <span class="dim">–</span>
  const all = [...list]
  let shown = all
  let note = ''
  if (all.length > 8) {
    all.sort((x, y) => x.busy_ns - y.busy_ns)
    shown = [all[0], all[Math.floor(all.length / 2)], all[all.length - 1]]
    note = `${all.length} threads: least, median and most busy`
  }
  const of = Math.max(...list.map((t) => t.busy_ns + t.wait_ns + t.off_cpu_ns), 1)
  return (
    <div class="bars" title={note || undefined}>
      {shown.map((t) => (
        <StackBar
          key={t.tid}
          thin
          of={of}
          parts={parts(t, c, false)}
          label={`${clean(name)}, thread ${t.tid}`}
        />
      ))}
    </div>
  )
}

/** The threads over the whole recording, with what scheduling tells. */
function Whole({ run, name }: { run: Run; name: string }) {
  const s = run.stats.thread
  const rows = s.threads ?? []
  if (rows.length === 0) return null
  const list = (v: SummaryThread['preempted_by'], time: boolean) =>
    (v ?? [])
      .slice(0, 2)
      .map(
        (x) => `${x.own ? 'its team' : clean(x.comm)} ${time ? dur(x.dur_ns ?? null) : count(x.count) + '×'}`,
      )
      .join(', ')
  const of = (t: SummaryThread, v: number) => (t.steps_ns > 0 ? v / t.steps_ns : null)
  const cols: Column<SummaryThread>[] = [
    {
      key: 'tid',
      head: 'thread',
      text: true,
      value: (t) => t.tid,
      cell: (t) => <Name text={`${t.comm} ${t.tid} ${t.role}`} />,
    },
    {
      key: 'operators',
      head: 'operators',
      value: (t) => t.operators,
      cell: (t) => <Fig v={t.operators} f={count} />,
    },
    {
      key: 'busy_ns',
      head: 'busy',
      value: (t) => t.busy_ns,
      cell: (t) => (
        <>
          <Fig v={t.busy_ns} f={dur} /> <span class="dim">{share(t.utilisation)}</span>
        </>
      ),
    },
    {
      key: 'wait_ns',
      head: 'barrier wait',
      value: (t) => t.wait_ns,
      cell: (t) => (
        <>
          <Fig v={t.wait_ns} f={dur} /> <span class="dim">{share(of(t, t.wait_ns))}</span>
        </>
      ),
    },
    {
      key: 'off_cpu_ns',
      head: 'off-CPU',
      value: (t) => t.off_cpu_ns,
      cell: (t) => <Fig v={s.has_off_cpu ? t.off_cpu_ns : null} f={dur} />,
    },
    { key: 'idle_ns', head: 'idle', value: (t) => t.idle_ns, cell: (t) => <Fig v={t.idle_ns} f={dur} /> },
    {
      key: 'imbalance',
      head: 'load imbalance',
      help: 'its busy share / that of all the process’s threads − 1',
      value: (t) => t.imbalance,
      cell: (t) => <Fig v={t.imbalance} f={share} />,
    },
    {
      key: 'preempted',
      head: 'preempted',
      help: 'times it was taken off its CPU while it could run',
      value: (t) => t.preempted,
      cell: (t) => <Fig v={t.preempted} f={count} />,
    },
    {
      key: 'slept',
      head: 'slept',
      help: 'times it gave its CPU up',
      value: (t) => t.slept,
      cell: (t) => <Fig v={t.slept} f={count} />,
    },
    {
      key: 'runnable_ns',
      head: 'runnable',
      help: 'run-queue delay: ready to run, without a CPU',
      value: (t) => t.runnable_ns,
      cell: (t) => <Fig v={t.runnable_ns} f={dur} />,
    },
    {
      key: 'preempted_by',
      head: 'preempted by',
      text: true,
      value: () => null,
      cell: (t) => <span class="clip">{list(t.preempted_by, true)}</span>,
    },
    {
      key: 'woken_by',
      head: 'woken by',
      text: true,
      value: () => null,
      cell: (t) => <span class="clip">{list(t.woken_by, false)}</span>,
    },
  ]
  return (
    <section>
      <h2>Threads over the whole recording{name && `, ${name}`}</h2>
      {!s.has_sched && (
        <p class="dim">Scheduling was not recorded, so it is unknown what preempted threads.</p>
      )}
      <Table
        rows={rows}
        columns={
          s.has_sched
            ? cols
            : cols.filter(
                (x) => !['preempted', 'slept', 'runnable_ns', 'preempted_by', 'woken_by'].includes(x.key),
              )
        }
        id={(t) => String(t.tid)}
        label="threads"
      />
    </section>
  )
}
