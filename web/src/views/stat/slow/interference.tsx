// SPDX-License-Identifier: Apache-2.0

// Interference over a whole run: CPU contention by process and who paid, how threads were moved, what the kernel tells of
// each CPU.
import type { Run } from '../../../api/load'
import type { SlowCPUState, SlowInterferer, SlowMovedThread, SlowPaidBy, Slow } from '../../../api/types'
import { count, dur, num } from '../../../lib/format'
import { inUnit, unitOf } from '../../../lib/units'
import { Meter, Name } from '../../../ui/charts'
import { Fig } from '../../../ui/figure'
import { Table, type Column } from '../../../ui/table'

export function Interference({ s, run }: { s: Slow; run: Run }) {
  const f = s.contention
  return (
    <>
      <h3>CPU contention, in all steps</h3>
      {f.by.length > 0 ? (
        <>
          <p class="facts">
            <span>
              other threads ran for <Fig v={f.ran_ns} f={dur} name="contention.ran_ns" /> while an engine
              thread was runnable
            </span>
            <span>
              steps lasted <Fig v={f.cost_ns} f={dur} name="contention.cost_ns" /> longer because of it
            </span>
            {f.disk_ns > 0 && (
              <span>
                and <Fig v={f.disk_ns} f={dur} name="contention.disk_ns" /> as threads were blocked, reading
                mostly
              </span>
            )}
            {f.sleep_ns > 0 && (
              <span>
                and <Fig v={f.sleep_ns} f={dur} name="contention.sleep_ns" /> as they slept
              </span>
            )}
          </p>
          <Takers by={f.by} />
        </>
      ) : (
        <p class="dim">
          {s.has_sched
            ? 'No thread ran while an engine thread was runnable.'
            : 'Unknown, as scheduling was not recorded. Record as root, without --no-sched.'}
        </p>
      )}
      <div class="columns">
        <Moved s={s} run={run} />
        <CPUs cpus={f.cpus} />
      </div>
    </>
  )
}

function Takers({ by }: { by: SlowInterferer[] }) {
  const u = unitOf(
    'time',
    by.map((x) => x.ran_ns),
  )
  const ran = Math.max(...by.map((x) => x.ran_ns), 1)
  const cost = Math.max(...by.map((x) => x.cost_ns), 1)
  const paid = (list: SlowPaidBy[], most: number) =>
    list.slice(0, most).map((p, i) => (
      <div key={i}>
        <Name text={p.name} /> <Fig v={p.ns} f={dur} />
      </div>
    ))
  const cols: Column<SlowInterferer>[] = [
    {
      key: 'who',
      head: 'CPU contention by process',
      text: true,
      value: (x) => x.comm,
      cell: (x) => (
        <>
          <Name text={x.comm} />
          {x.own ? (
            <span class="dim"> its own threads</span>
          ) : x.kernel ? (
            <span class="dim"> kernel</span>
          ) : x.pid ? (
            <span class="dim"> {x.pid}</span>
          ) : (
            ''
          )}
        </>
      ),
    },
    {
      key: 'ran_ns',
      head: (
        <>
          ran <span class="unit">{u.name}</span>
        </>
      ),
      help: 'while an engine thread was runnable, summed over these threads',
      value: (x) => x.ran_ns,
      cell: (x) => (
        <>
          <Meter part={x.ran_ns / ran} /> <Fig v={x.ran_ns} f={inUnit(u)} />
        </>
      ),
    },
    {
      key: 'held_ns',
      head: (
        <>
          had CPUs <span class="unit">{u.name}</span>
        </>
      ),
      help: 'in all, as far as it was seen',
      value: (x) => x.held_ns,
      cell: (x) => (x.own ? '' : <Fig v={x.held_ns} f={inUnit(u)} />),
    },
    { key: 'times', head: 'times', value: (x) => x.times, cell: (x) => <Fig v={x.times} f={count} /> },
    { key: 'cpus', head: 'CPUs', text: true, value: (x) => x.cpus[0], cell: (x) => cpuList(x.cpus) },
    {
      key: 'cost_ns',
      head: (
        <>
          cost <span class="unit">{u.name}</span>
        </>
      ),
      help: 'what steps lasted longer because of it',
      value: (x) => x.cost_ns,
      cell: (x) => (
        <>
          <Meter part={x.cost_ns / cost} /> <Fig v={x.cost_ns} f={inUnit(u)} />
        </>
      ),
    },
    {
      key: 'ops',
      head: 'operators delayed',
      text: true,
      value: (x) => x.operators[0]?.name,
      cell: (x) => paid(x.operators, 3),
    },
    {
      key: 'preempted_threads',
      head: 'threads preempted',
      text: true,
      value: (x) => x.preempted_threads[0]?.name,
      cell: (x) => paid(x.preempted_threads, 2),
    },
    {
      key: 'waiting_threads',
      head: 'threads delayed',
      text: true,
      value: (x) => x.waiting_threads[0]?.name,
      cell: (x) => paid(x.waiting_threads, 2),
    },
  ]
  return (
    <Table
      rows={by}
      columns={cols}
      id={(x) => `${x.own ? 'own' : 'other'} ${x.comm}`}
      label="CPU contention by process"
      limit={8}
    />
  )
}

/** Threads that went on on another CPU. */
function Moved({ s, run }: { s: Slow; run: Run }) {
  const f = s.contention
  const rows = f.threads ?? []
  const most = Math.max(...rows.map((t) => t.migrations), 1)
  const name = (t: SlowMovedThread) => {
    const x = run.stats.thread.threads?.find((x) => x.tid === t.tid)
    return x ? `${x.comm} ${t.tid}${x.role ? ' ' + x.role : ''}` : String(t.tid)
  }
  const cols: Column<SlowMovedThread>[] = [
    { key: 'tid', head: 'thread', text: true, value: (t) => t.tid, cell: (t) => <Name text={name(t)} /> },
    {
      key: 'migrations',
      head: 'migrations',
      help: 'migrations to another CPU',
      value: (t) => t.migrations,
      cell: (t) => (
        <>
          <Meter part={t.migrations / most} /> <Fig v={t.migrations} f={count} />
        </>
      ),
    },
    {
      key: 'preempted',
      head: 'preempted',
      help: 'preemptions while runnable',
      value: (t) => t.preempted,
      cell: (t) => <Fig v={t.preempted} f={count} />,
    },
  ]
  return (
    <section>
      <h4>Migrations</h4>
      {f.migrations == null ? (
        <p class="dim">Unknown, as scheduling was not recorded.</p>
      ) : rows.length === 0 ? (
        <p class="dim">No engine thread was migrated or preempted.</p>
      ) : (
        <>
          <p class="facts">
            <span>
              <Fig v={f.migrations} f={count} name="contention.migrations" /> of its threads to another CPU
            </span>
          </p>
          <Table rows={rows} columns={cols} id={(t) => String(t.tid)} label="migrations" limit={20} />
        </>
      )}
    </section>
  )
}

const ghz = (khz: number | null | undefined): string => num(khz == null ? khz : khz / 1e6)

/** What the kernel told of each CPU: time that the hypervisor took, and the lowest and highest frequency. */
function CPUs({ cpus }: { cpus: SlowCPUState[] }) {
  const steal = cpus.some((c) => c.steal_ns != null)
  const freq = cpus.some((c) => c.max_khz != null)
  const most = Math.max(...cpus.map((c) => c.steal_ns ?? 0), 1)
  const top = Math.max(...cpus.map((c) => c.max_khz ?? 0), 1)
  const u = unitOf(
    'time',
    cpus.map((c) => c.steal_ns),
  )
  const cols: Column<SlowCPUState>[] = [
    { key: 'cpu', head: 'CPU', value: (c) => c.cpu, cell: (c) => <Fig v={c.cpu} f={count} /> },
  ]
  if (steal)
    cols.push({
      key: 'steal_ns',
      head: (
        <>
          steal <span class="unit">{u.name}</span>
        </>
      ),
      help: 'steal time, in steps of 10 ms',
      value: (c) => c.steal_ns,
      cell: (c) => (
        <>
          <Meter part={(c.steal_ns ?? 0) / most} /> <Fig v={c.steal_ns} f={inUnit(u)} />
        </>
      ),
    })
  if (freq) {
    cols.push(
      {
        key: 'range',
        head: 'frequency from 0',
        text: true,
        help: 'the lowest and the highest that were seen',
        value: (c) => c.max_khz,
        cell: (c) =>
          c.max_khz != null && (
            <span class="freq" aria-hidden="true">
              <span
                style={{
                  left: `min(${((c.min_khz ?? c.max_khz) / top) * 100}%, 100% - 2px)`,
                  width: `${((c.max_khz - (c.min_khz ?? c.max_khz)) / top) * 100}%`,
                }}
              />
            </span>
          ),
      },
      {
        key: 'min_khz',
        head: (
          <>
            lowest <span class="unit">GHz</span>
          </>
        ),
        value: (c) => c.min_khz,
        cell: (c) => <Fig v={c.min_khz} f={ghz} />,
      },
      {
        key: 'max_khz',
        head: (
          <>
            highest <span class="unit">GHz</span>
          </>
        ),
        value: (c) => c.max_khz,
        cell: (c) => <Fig v={c.max_khz} f={ghz} />,
      },
    )
  }
  return (
    <section>
      <h4>CPUs</h4>
      {steal || freq ? (
        <Table rows={cpus} columns={cols} id={(c) => String(c.cpu)} label="CPUs" limit={32} />
      ) : (
        <p class="dim">Steal time and frequencies are unknown: the kernel reported neither.</p>
      )}
      {steal !== freq && (
        <p class="dim">
          {steal
            ? 'The kernel reported no frequencies, as in most virtual machines.'
            : 'The kernel reported no steal time.'}
        </p>
      )}
    </section>
  )
}

/** 0–3, 7. */
function cpuList(cpus: number[]): string {
  const out: string[] = []
  for (let i = 0, j; i < cpus.length; i = j + 1) {
    for (j = i; j + 1 < cpus.length && cpus[j + 1] === cpus[j] + 1;) j++
    out.push(j === i ? String(cpus[i]) : `${cpus[i]}–${cpus[j]}`)
  }
  return out.join(', ')
}
