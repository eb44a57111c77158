// SPDX-License-Identifier: Apache-2.0

// The tables of `stat`, by weight, operator, layer, block, thread and step, with what a row hides.
import { useEffect, useMemo, useState } from 'preact/hooks'
import type { Grouping } from '../../api/load'
import type { SummaryPhase, SummaryRow } from '../../api/types'
import { countersWithValues } from '../../lib/counters'
import { clean, count, dur, num, share } from '../../lib/format'
import { sortOrder } from '../../lib/sort'
import { Fig } from '../../ui/figure'
import { Table } from '../../ui/table'
import { columns, columnSetsOf, comparedColumns } from './columns'
import { phaseOf, runNames, statBy, type TabContext } from './context'
import { Detail } from './detail'
import type { CountersOf } from './difference'
import { HeatMap } from './heat'
import { Missing } from './missing'
import { filterRows, pairRows } from './rows'
import { StepTable } from './step-table'

const groupings = [
  ['weight', 'weight'],
  ['op', 'operator'],
  ['layer', 'layer'],
  ['block', 'block'],
  ['thread', 'thread'],
  ['step', 'step'],
] as const

export function Tables(ctx: TabContext) {
  const by = groupings.some(([k]) => k === ctx.params.by) ? ctx.params.by : 'weight'
  return (
    <>
      <div class="tools">
        <span class="choice" role="group" aria-label="rows">
          {groupings.map(([k, name]) => (
            <button
              key={k}
              aria-pressed={k === by}
              onClick={() => ctx.set({ by: k, sel: undefined, sort: undefined })}
            >
              by {name}
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
        {by !== 'step' && <Sets ctx={ctx} by={by as Grouping} />}
      </div>
      {by === 'step' ? <StepTable {...ctx} /> : <ByTable ctx={ctx} by={by as Grouping} />}
    </>
  )
}

/** Whether a run has counters that say something. */
function counted(ctx: TabContext, by: Grouping): boolean {
  return [ctx.a, ctx.b].some(
    (r) =>
      r != null &&
      countersWithValues(
        statBy(r, by).counters,
        (statBy(r, by).phases ?? []).flatMap((p) => p.rows ?? []),
      ).length > 0,
  )
}

const setOf = (ctx: TabContext, by: Grouping): string => {
  const all = columnSetsOf(ctx.b != null, counted(ctx, by))
  return Object.hasOwn(all, ctx.params.cols ?? '') ? ctx.params.cols : ctx.b ? 'time' : 'figures'
}

function Sets({ ctx, by }: { ctx: TabContext; by: Grouping }) {
  const now = setOf(ctx, by)
  const list = Object.entries(columnSetsOf(ctx.b != null, counted(ctx, by)))
  return (
    <>
      {list.length > 0 && (
        <span class="choice" role="group" aria-label={ctx.b ? 'figures compared' : 'columns'}>
          {list.map(([k, name]) => (
            <button key={k} aria-pressed={k === now} onClick={() => ctx.set({ cols: k }, true)}>
              {name}
            </button>
          ))}
        </span>
      )}
      {now === 'counters' && (
        <span class="choice" role="group" aria-label="counters">
          {(['step', 'call'] as const).map((k) => (
            <button
              key={k}
              aria-pressed={k === (ctx.params.per === 'call' ? 'call' : 'step')}
              onClick={() => ctx.set({ per: k === 'call' ? k : undefined }, true)}
            >
              a {k}
            </button>
          ))}
        </span>
      )}
    </>
  )
}

function ByTable({ ctx, by }: { ctx: TabContext; by: Grouping }) {
  const names = runNames(ctx)
  const narrow = useNarrow()
  const pa = phaseOf(statBy(ctx.a, by), ctx)
  const pb = ctx.b ? phaseOf(statBy(ctx.b, by), ctx) : null
  const all = useMemo(
    () =>
      pairRows(pa?.rows ?? [], ctx.b ? (pb?.rows ?? []) : null).map((p) =>
        by === 'thread' ? named(p, ctx) : p,
      ),
    [pa, pb, ctx.b, by],
  )
  const rows = filterRows(all, ctx.params.filter ?? '')
  const counters: CountersOf = {
    a: statBy(ctx.a, by).counters,
    b: ctx.b ? statBy(ctx.b, by).counters : undefined,
    per: ctx.params.per === 'call' ? 'call' : 'step',
  }
  const set = setOf(ctx, by)
  const cols = useMemo(
    () => (ctx.b ? comparedColumns(all, by, set, names, counters) : columns(all, by, narrow, set, counters)),
    [all, by, ctx.b, set, counters.per, narrow],
  )
  const sort =
    sortOrder(ctx.params.sort) ??
    (by === 'layer' ? { key: 'key', up: true } : { key: 'dur_per_step_ns', up: false })
  const selected = rows.find((p) => p.id === ctx.params.sel)
  return (
    <div class={ctx.b ? '' : 'one'}>
      <div class="facts">
        {ctx.b && <span class="of">{names[0]}</span>}
        <Facts p={pa} phase={ctx.phase} />
      </div>
      {ctx.b && (
        <div class="facts">
          <span class="of">{names[1]}</span>
          <Facts p={pb} phase={ctx.phase} />
        </div>
      )}
      <Missing ctx={ctx} pa={pa} pb={pb} />
      {rows.length > 0 && (
        <Table
          key={by + ctx.phase + (ctx.params.cols ?? '')}
          rows={rows}
          columns={cols}
          id={(p) => p.id}
          label={`${ctx.phase} by ${by}`}
          sort={sort.key}
          up={sort.up}
          selected={selected?.id}
          onSort={(key, up) => ctx.set({ sort: (up ? 'up:' : '') + key }, true)}
          onSelect={(p) => ctx.set({ sel: p.id === ctx.params.sel ? undefined : p.id }, true)}
        />
      )}
      {rows.length === 0 && (
        <p class="dim">
          {all.length > 0
            ? `No row has “${clean(ctx.params.filter)}” in its name, type or block.`
            : why(pa ?? pb, ctx)}
        </p>
      )}
      <Rest p={pa} name={ctx.b ? names[0] : ''} />
      {pb && <Rest p={pb} name={names[1]} />}
      {(by === 'layer' || by === 'weight') && <HeatMap ctx={ctx} />}
      {selected && <Detail ctx={ctx} by={by} pair={selected} />}
    </div>
  )
}

const small = matchMedia('(max-width: 1250px)')

/** Whether there is little room, and a new drawing when that changes. */
function useNarrow(): boolean {
  const [n, set] = useState(small.matches)
  useEffect(() => {
    const l = () => set(small.matches)
    small.addEventListener('change', l)
    return () => small.removeEventListener('change', l)
  }, [])
  return n
}

/** Rows by thread are named by the thread's name. */
function named<P extends { id: string; row: SummaryRow }>(p: P, ctx: TabContext): P {
  const t = [...(ctx.a.stats.thread.threads ?? []), ...(ctx.b?.stats.thread.threads ?? [])].find(
    (x) => x.tid === p.row.tid,
  )
  return t ? { ...p, row: { ...p.row, key: `${t.tid} ${t.comm} ${t.role}` } } : p
}

/** What the phase was, in one line. */
function Facts({ p, phase }: { p: SummaryPhase | null; phase: string }) {
  if (!p) return <span class="dim">no step of phase {phase}</span>
  return (
    <>
      <span>
        <Fig v={p.steps} f={count} /> {p.steps === 1 ? 'step' : 'steps'}
      </span>
      <span>
        <Fig v={p.tokens} f={count} /> tokens
      </span>
      <span>
        <Fig v={p.tokens_per_s} f={num} /> t/s
      </span>
      <span>
        <Fig v={p.per_token_ns} f={dur} /> per token
      </span>
      {p.per_token_p95_ns != null && (
        <span>
          p95 <Fig v={p.per_token_p95_ns} f={dur} />
        </span>
      )}
      {(p.async_steps ?? 0) > 0 && (
        <span class="dim">
          submit time <Fig v={p.call_tokens_per_s} f={num} /> t/s,{' '}
          <Fig v={p.steps > 0 ? p.dur_ns / p.steps : null} f={dur} /> per step: shares and rows are of these
          calls
        </span>
      )}
      <span class="dim">
        matmul <Fig v={p.matmul_share} f={share} /> · attention <Fig v={p.attn_share} f={share} /> · other{' '}
        <Fig v={p.other_share} f={share} />
        {p.backends_share != null && (
          <>
            {' '}
            · other backends <Fig v={p.backends_share} f={share} />
          </>
        )}{' '}
        · outside operators <Fig v={p.outside_operators_share} f={share} />
      </span>
    </>
  )
}

/** Time that is in no row. */
function Rest({ p, name }: { p: SummaryPhase | null; name: string }) {
  if (!p || p.operators_ns == null || !p.traced_steps) return null
  const n = p.traced_steps
  return (
    <p class="dim rest">
      {name && <span class="of">{name}</span>} Not in the rows, per step: outside operators{' '}
      <Fig v={p.outside_operators_ns == null ? null : p.outside_operators_ns / n} f={dur} /> (
      <Fig v={p.outside_operators_share} f={share} />
      ), probes <Fig v={p.probe_ns == null ? null : p.probe_ns / n} f={dur} /> (
      <Fig v={p.probe_share} f={share} />, an estimate)
      {(p.backends ?? []).map((b) => (
        <>
          , graphs on {clean(b.backend)} <Fig v={b.dur_ns / n} f={dur} /> (<Fig v={b.share} f={share} />)
        </>
      ))}
      {(p.overlap_ns ?? 0) > 0 && (
        <>
          ; operators overlapped for <Fig v={p.overlap_ns! / n} f={dur} />
        </>
      )}
      .
    </p>
  )
}

function why(p: SummaryPhase | null, ctx: TabContext): string {
  if (!p) return `No step of phase ${ctx.phase} was seen.`
  const level = ctx.a.stats.weight.run.level
  if (level !== 'op') return `Operators were not recorded: the recording is of level ${clean(level)}.`
  return 'No operator was seen in these steps: they ran on a backend whose operators cannot be seen, or recording them was paused.'
}
