// SPDX-License-Identifier: Apache-2.0

// Requests: what each client waited for, sequence by sequence, and what speculative decoding did.
import './requests.css'
import type { RequestsDist, RequestsSpread } from '../../../api/types'
import { count, dur, plural } from '../../../lib/format'
import { runColors } from '../../../lib/palette'
import { Ecdf, Histogram, type DistSeries } from '../../../ui/charts'
import { Fig } from '../../../ui/figure'
import { Swatch } from '../../../ui/plot-legend'
import { Table, type Column } from '../../../ui/table'
import { useTheme } from '../../../ui/theme'
import { runNames, type TabContext } from '../context'
import { Lanes } from './lanes'
import type { RequestsOfRun } from './side'
import { Speculative } from './speculation'
import { RequestTable } from './table'

export function Requests(ctx: TabContext) {
  const names = runNames(ctx)
  const sides: RequestsOfRun[] = (ctx.b ? [ctx.a, ctx.b] : [ctx.a]).map((run, index) => {
    const q = run.stats.weight.sequences ?? null
    const list = (q?.requests ?? []).filter((r) => !r.warmup)
    return {
      run,
      index,
      name: ctx.b ? names[index] : '',
      q,
      series: index ? ctx.sb! : ctx.sa,
      list,
      begin: list.reduce((m, r) => Math.min(m, r.start_ns), Infinity),
    }
  })
  const some = sides.filter((s) => s.list.length > 0)
  return (
    <>
      <p class="dim">
        A request is a prompt on one sequence with the tokens that follow it, as the batches tell. How long it
        waited for a slot before its first step is not seen.
      </p>
      {sides.map((s) => (
        <Facts key={s.index} s={s} />
      ))}
      {some.length > 0 && (
        <>
          <Sums sides={some} />
          <Lanes sides={some} ctx={ctx} />
          <RequestTable sides={some} ctx={ctx} />
        </>
      )}
      <Speculative sides={sides} ctx={ctx} />
      <Distributions sides={some} />
    </>
  )
}

function Facts({ s }: { s: RequestsOfRun }) {
  const { q } = s
  if (!q || s.list.length === 0) {
    return (
      <p class="dim">
        {s.name && <span class="of">{s.name} </span>}
        No request was seen{q && q.warmups > 0 ? ` but ${plural(q.warmups, 'warm-up')}` : ''}:{' '}
        {s.run.stats.weight.run.steps === 0
          ? 'no step was recorded. Record while the engine answers (profinfer record -p PID)'
          : 'the batches of this recording name no sequences. Every recording of llama.cpp has them, at every level'}
        .
      </p>
    )
  }
  return (
    <>
      <p class="facts" data-requests={s.index}>
        {s.name && <span class="of">{s.name}</span>}
        <span>
          <Fig v={q.seen} f={count} name="sequences.seen" /> {q.seen === 1 ? 'request' : 'requests'}
        </span>
        <span>
          on {q.every > 1 && 'at least '}
          <Fig v={q.sequences} f={count} name="sequences.sequences" />{' '}
          {q.sequences === 1 ? 'sequence' : 'sequences'}
        </span>
        {q.max_sequences_per_batch > 1 && (
          <span>
            up to <Fig v={q.max_sequences_per_batch} f={count} name="sequences.max_sequences_per_batch" /> in
            a batch
          </span>
        )}
        {q.warmups > 0 && (
          <span class="dim">
            <Fig v={q.warmups} f={count} name="sequences.warmups" />{' '}
            {q.warmups === 1 ? 'warm-up' : 'warm-ups'} left out
          </span>
        )}
      </p>
      {q.every > 1 && (
        <p class="note">
          Of {count(q.seen)} requests one in {q.every} is listed and drawn, and TTFT and TPOT below are over
          these.
        </p>
      )}
    </>
  )
}

const figures = [
  [
    'ttft',
    'TTFT',
    'from the start of a request’s first step to the end of the first that asks for its logits',
  ],
  ['tpot', 'TPOT', 'of each request the mean time per token from its first token to its last'],
  ['itl', 'ITL', 'inter-token latency: from one token of a request to its next, over all requests'],
] as const

interface SumRow {
  id: string
  side: RequestsOfRun
  head: string
  help: string
  v: RequestsSpread
}

/** TTFT, TPOT and the time between tokens, over requests. */
function Sums({ sides }: { sides: RequestsOfRun[] }) {
  const rows: SumRow[] = figures.flatMap(([key, head, help]) =>
    sides.flatMap((side) => {
      const v = side.q![key]
      return v ? [{ id: (side.name ? side.index + '/' : '') + key, side, head, help, v }] : []
    }),
  )
  if (rows.length === 0) return null
  const time = (key: keyof RequestsSpread, head: string): Column<SumRow> => ({
    key,
    head,
    value: (r) => r.v[key],
    cell: (r) => <Fig v={r.v[key]} f={dur} />,
  })
  const cols: Column<SumRow>[] = [
    {
      key: 'what',
      head: '',
      text: true,
      value: (r) => r.head,
      cell: (r) => <span title={r.help}>{r.head}</span>,
    },
    {
      key: 'n',
      head: 'of',
      help: 'requests, or tokens',
      value: (r) => r.v.n,
      cell: (r) => <Fig v={r.v.n} f={count} />,
    },
    time('mean_ns', 'mean'),
    time('p50_ns', 'p50'),
    time('p95_ns', 'p95'),
    time('p99_ns', 'p99'),
    time('max_ns', 'longest'),
  ]
  if (sides.some((s) => s.name))
    cols.unshift({
      key: 'run',
      head: 'run',
      text: true,
      value: (r) => r.side.index,
      cell: (r) => r.side.name,
    })
  return <Table rows={rows} columns={cols} id={(r) => r.id} label="requests summed up" />
}

function Distributions({ sides }: { sides: RequestsOfRun[] }) {
  const colors = runColors(useTheme())
  const of = (f: (s: RequestsOfRun) => RequestsDist | null | undefined): DistSeries[] =>
    sides.flatMap((s) => {
      const d = f(s)
      return d && d.n > 0 ? [{ name: s.name, color: colors[s.index], dist: d }] : []
    })
  const shown = [
    {
      id: 'request-ttft',
      title: 'Time to the first token (TTFT)',
      what: 'TTFT',
      unit: 'requests',
      series: of((s) => s.series.ttft),
    },
    {
      id: 'request-tpot',
      title: 'Time per output token (TPOT), over requests',
      what: 'TPOT',
      unit: 'requests',
      series: of((s) => s.series.requests.tpot),
    },
    {
      id: 'token-gap',
      title: 'Inter-token latency (ITL)',
      what: 'ITL',
      unit: 'tokens',
      series: of((s) => s.series.requests.itl),
    },
  ].filter((x) => x.series.some((s) => s.dist.n > 1))
  if (shown.length === 0) return null
  return (
    <section>
      <h2>Distributions</h2>
      {sides.length > 1 && (
        <div class="legend">
          {sides.map((s) => (
            <Swatch key={s.index} shape="area" color={colors[s.index]} name={s.name} />
          ))}
        </div>
      )}
      {shown.map((x) => (
        <div key={x.id} data-plot={x.id} data-points={x.series.reduce((n, s) => n + s.dist.n, 0)}>
          <h3>{x.title}</h3>
          <div class="pair small">
            <Histogram series={x.series} what={x.what} unit={x.unit} width={560} height={110} />
            <Ecdf
              series={x.series}
              what={`${x.what}: share of ${x.unit} up to`}
              width={560}
              height={140 + 10 * x.series.length}
            />
          </div>
        </div>
      ))}
    </section>
  )
}
