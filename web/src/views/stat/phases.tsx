// SPDX-License-Identifier: Apache-2.0

// Prefill vs decode: the same weights in both phases, side by side.
import { useMemo } from 'preact/hooks'
import type { Run } from '../../api/load'
import type { SummaryPhase, SummaryRow } from '../../api/types'
import { num, share } from '../../lib/format'
import { sortOrder } from '../../lib/sort'
import { inUnit, unitOf } from '../../lib/units'
import { Meter, Name } from '../../ui/charts'
import { Fig } from '../../ui/figure'
import { Table, type Column } from '../../ui/table'
import { runNames, statBy, type TabContext } from './context'
import { filterRows, pairRows, type RowPair } from './rows'

export function Phases(ctx: TabContext) {
  const names = runNames(ctx)
  const runs = ctx.b ? [ctx.a, ctx.b] : [ctx.a]
  return (
    <>
      <div class="tools">
        <input
          type="search"
          placeholder="filter rows"
          aria-label="filter rows"
          value={ctx.params.filter ?? ''}
          onInput={(e) => ctx.set({ filter: e.currentTarget.value }, true)}
        />
        <span class="dim">
          Each weight’s bytes are read once per step, whether for one token or for many: prefill shares them
          among its tokens, decode does not.
        </span>
      </div>
      {runs.map((r, i) => (
        <OneRun key={i} ctx={ctx} run={r} name={ctx.b ? names[i] : ''} />
      ))}
    </>
  )
}

function OneRun({ ctx, run, name }: { ctx: TabContext; run: Run; name: string }) {
  const of = (phase: string) =>
    statBy(run, 'weight').phases?.find((p) => p.phase === phase && p.model === ctx.model) ?? null
  const pre = of('prefill')
  const dec = of('decode')
  const rows = useMemo(() => pairRows(pre?.rows ?? [], dec?.rows ?? []), [pre, dec])
  const shown = filterRows(rows, ctx.params.filter ?? '')
  const cols = useMemo(() => columns(rows, pre, dec), [rows])
  if (!pre || !dec) {
    return (
      <p class="dim">
        {name && <span class="of">{name}</span>} There is nothing to compare:{' '}
        {!pre && !dec ? 'neither a prefill nor a decode step' : `no ${pre ? 'decode' : 'prefill'} step`} of
        this model was seen.
      </p>
    )
  }
  const sort = sortOrder(ctx.params.sort) ?? { key: 'share.b', up: false }
  return (
    <section>
      {name && <h2>{name}</h2>}
      <p class="facts">
        <span>
          prefill <Fig v={pre.tokens_per_s} f={num} /> t/s
        </span>
        <span>
          decode <Fig v={dec.tokens_per_s} f={num} /> t/s
        </span>
        <span>
          weight matmul at <Fig v={pre.matmul_gb_per_s} f={num} /> GB/s in prefill,{' '}
          <Fig v={dec.matmul_gb_per_s} f={num} /> GB/s in decode
        </span>
        <span>
          tokens per step {num(tokens(pre))} and {num(tokens(dec))}
        </span>
      </p>
      {shown.length > 0 ? (
        <Table
          rows={shown}
          columns={cols}
          id={(p) => p.id}
          label={`prefill vs. decode ${name}`}
          sort={sort.key}
          up={sort.up}
          onSort={(key, up) => ctx.set({ sort: (up ? 'up:' : '') + key }, true)}
          onSelect={(p) => ctx.set({ tab: 'tables', by: 'weight', sel: p.id, sort: undefined })}
        />
      ) : (
        <p class="dim">No row.</p>
      )}
    </section>
  )
}

const tokens = (p: SummaryPhase): number | null =>
  p.tokens == null || p.steps === 0 ? null : p.tokens / p.steps

const perToken = (r: SummaryRow | null, p: SummaryPhase | null): number | null => {
  const n = p && tokens(p)
  return r == null || !n ? null : r.dur_per_step_ns / n
}

function columns(rows: RowPair[], pre: SummaryPhase | null, dec: SummaryPhase | null): Column<RowPair>[] {
  const both = [
    ['prefill', (p: RowPair) => p.a, '', pre],
    ['decode', (p: RowPair) => p.b, '.b', dec],
  ] as const
  const unit = unitOf(
    'time',
    rows.flatMap((p) => [perToken(p.a, pre), perToken(p.b, dec)]),
  )
  const out: Column<RowPair>[] = [
    {
      key: 'key',
      head: 'weight or operator',
      text: true,
      value: (p) => p.row.key,
      cell: (p) => <Name text={p.row.key} />,
    },
    {
      key: 'type',
      head: 'type',
      text: true,
      value: (p) => p.row.type,
      cell: (p) => <span class="dim">{p.row.weight ? p.row.type : ''}</span>,
    },
  ]
  const top = Math.max(...rows.flatMap((p) => [p.a?.share ?? 0, p.b?.share ?? 0]), 1e-9)
  const add = (
    key: keyof SummaryRow,
    head: string,
    help: string,
    f: (v: number | null | undefined) => string,
    bar?: boolean,
  ) => {
    for (const [phase, of, s] of both) {
      out.push({
        key: key + s,
        help: `${help}, in ${phase}`,
        head: (
          <>
            {head}
            <span class="of">{phase}</span>
          </>
        ),
        value: (p) => of(p)?.[key] as number | null,
        cell: (p) => {
          const v = of(p)?.[key] as number | null | undefined
          return (
            <>
              {bar && <Meter part={(v ?? 0) / top} />}
              <Fig v={v} f={f} />
            </>
          )
        },
      })
    }
  }
  add('share', 'share', 'of the phase’s time in steps', share, true)
  for (const [phase, of, s, p] of both) {
    out.push({
      key: 'per_token_ns' + s,
      head: (
        <>
          a token <span class="unit">{unit.name}</span>
          <span class="of">{phase}</span>
        </>
      ),
      help: `the row’s time in a step divided by the step’s tokens, in ${phase}`,
      value: (r) => perToken(of(r), p),
      cell: (r) => <Fig v={perToken(of(r), p)} f={inUnit(unit)} />,
    })
  }
  out.push({
    key: 'ratio',
    head: (
      <>
        decode /<span class="of">prefill</span>
      </>
    ),
    help: 'time per token in decode / time per token in prefill',
    value: (p) => ratio(perToken(p.b, dec), perToken(p.a, pre)),
    cell: (p) => (
      <Fig v={ratio(perToken(p.b, dec), perToken(p.a, pre))} f={(v) => (v == null ? '–' : `${num(v)}×`)} />
    ),
  })
  const rate = inUnit({ name: '', div: 1, digits: 1 })
  add('gb_per_s', 'GB/s', 'bytes read and written at least / time', rate)
  add('gflop_per_s', 'GFLOP/s', 'floating point operations / time', rate)
  add('flop_per_byte', 'FLOP/byte', 'operations for each byte', rate)
  return out
}

const ratio = (a: number | null, b: number | null): number | null =>
  a == null || b == null || b === 0 ? null : a / b
