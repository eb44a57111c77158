// SPDX-License-Identifier: Apache-2.0

// TTFT and TPOT: how they are distributed over sequences and steps.
import { Fig } from '../figure'
import { count, dur, num, plural } from '../format'
import type { Run } from '../load'
import { Swatch } from '../plot-legend'
import { Table, type Column } from '../table'
import { useTheme } from '../theme'
import { Ecdf, Histogram, type DistSeries } from './charts'
import { runColors } from './palette'
import { stepLink } from './step-table'
import { sortOf } from './tables'
import type { Dist, Sequence, Series } from './types'
import { inUnit, unitOf } from './units'
import { phaseOf, runNames, seriesOf, statBy, type Ctx } from './view'

export function Latency(ctx: Ctx) {
  const theme = useTheme()
  const names = runNames(ctx)
  const colors = runColors(theme)
  const of = (f: (s: Series) => Dist | null | undefined): DistSeries[] =>
    [ctx.sa, ctx.sb].flatMap((s, i) => {
      const d = s && f(s)
      return d && d.n > 0 ? [{ name: ctx.b ? names[i] : '', color: colors[i], dist: d }] : []
    })
  const ttft = of((s) => s.ttft)
  const tpot = of((s) => seriesOf(s, ctx)?.per_token)
  const decode = ctx.phase === 'decode'
  const pa = phaseOf(statBy(ctx.a, 'weight'), ctx)
  return (
    <>
      {ctx.b && <div class="legend">{names.map((n, i) => <Swatch key={n} shape="area" color={colors[i]} name={n} />)}</div>}
      <h2>Time to the first token (TTFT)</h2>
      <p class="dim">From the start of a sequence’s first step to the end of the first step that asks for its logits. What happens between steps (queueing, sampling, the network) is not in it, except where it lies between those two.</p>
      <Counts run={ctx.a} name={ctx.b ? names[0] : ''} />
      {ctx.b && <Counts run={ctx.b} name={names[1]} />}
      <Both series={ttft} what="TTFT" few="a sequence" none={noTTFT(ctx.a)} id="ttft" />
      <h2>{decode ? 'Time per output token (TPOT), over steps' : `Time per token, over steps of ${ctx.phase}`}</h2>
      <p class="dim">{decode ? 'What one sequence waits for a token: the duration of a decode step, however many sequences share it.' : 'A step’s duration divided by its tokens.'}</p>
      <Both series={tpot} what={decode ? 'TPOT' : 'time per token'} few="a step" none={pa == null ? `No step of phase ${ctx.phase} was seen.` : 'The batches of these steps could not be read, so their tokens are not known.'} id="tpot" />
      <Sequences ctx={ctx} names={names} />
    </>
  )
}

function noTTFT(r: Run): string {
  const t = r.stats.weight.ttft
  if (t.unknown > 0) return `No TTFT: the prompt of ${plural(t.unknown, 'sequence')} was not seen: recording began later.`
  if (t.pending > 0) return `No TTFT: ${plural(t.pending, 'sequence')} had no logits yet when the recording ended.`
  return 'No TTFT: no sequence was seen in the batches.'
}

function Counts({ run, name }: { run: Run; name: string }) {
  const t = run.stats.weight.ttft
  return (
    <p class="facts" data-ttft={run.index}>
      {name && <span class="of">{name}</span>}
      <span><Fig v={t.sequences} f={count} /> {t.sequences === 1 ? 'sequence' : 'sequences'}</span>
      <span>mean <Fig v={t.mean_ns} f={dur} /></span>
      <span>p95 <Fig v={t.p95_ns} f={dur} /></span>
      <span>at most <Fig v={t.max_ns} f={dur} /></span>
      {t.unknown > 0 && <span class="dim"><Fig v={t.unknown} f={count} /> whose prompt was not seen</span>}
      {t.pending > 0 && <span class="dim"><Fig v={t.pending} f={count} /> still without logits at the end</span>}
    </p>
  )
}

function Both({ series, what, few, none, id }: { series: DistSeries[]; what: string; few: string; none: string; id: string }) {
  if (series.length === 0) return <p class="dim">{none}</p>
  const one = series.every((s) => s.dist.n < 2)
  return (
    <div class="pair small" data-plot={id} data-points={series.reduce((n, s) => n + s.dist.n, 0)}>
      {one ? series.map((s) => <p key={s.name}>{s.name && <span class="of">{s.name}</span>} Only {few}: <Fig v={s.dist.min_ns} f={dur} />. There is no distribution to draw.</p>) : (
        <>
          <Histogram series={series} what={what} unit={few === 'a step' ? 'steps' : 'sequences'} width={560} height={130} />
          <Ecdf series={series} what={`${what}: share of ${few === 'a step' ? 'steps' : 'sequences'} up to`} width={560} height={150 + 10 * series.length} />
        </>
      )}
    </div>
  )
}

interface Row extends Sequence {
  id: string
  run: number
}

function Sequences({ ctx, names }: { ctx: Ctx; names: [string, string] }) {
  const rows: Row[] = []
  ;[ctx.sa, ctx.sb].forEach((s, run) => s?.sequences.forEach((q, i) => rows.push({ ...q, run, id: `${run}/${i}` })))
  const left = [ctx.sa, ctx.sb].filter((s) => s && s.sequences_every > 1)
  if (rows.length === 0) return null
  const time = (key: 'ttft_ns' | 'tpot_ns' | 'decode_ns', head: string, help: string): Column<Row> => {
    const u = unitOf('time', rows.map((r) => r[key]))
    return { key, help, head: <>{head} <span class="unit">{u.name}</span></>, value: (r) => r[key], cell: (r) => <Fig v={r[key]} f={inUnit(u)} /> }
  }
  const first = [0, 1].map((run) => rows.reduce((m, r) => (r.run === run ? Math.min(m, r.start_ns) : m), Infinity))
  const cols: Column<Row>[] = [
    { key: 'step', head: 'first step', value: (r) => r.step, cell: (r) => <a href={stepLink(ctx, r.run, r.step)}>{count(r.step)}</a> },
    { key: 'start_ns', head: <>from <span class="unit">s</span></>, value: (r) => r.start_ns - first[r.run], cell: (r) => <Fig v={r.start_ns - first[r.run]} f={(v) => num(v! / 1e9)} /> },
    { key: 'seq', head: 'sequence', help: 'the engine’s number; it is used again', value: (r) => r.seq, cell: (r) => <Fig v={r.seq} f={count} /> },
    { key: 'prompt', head: 'prompt tokens', value: (r) => r.prompt, cell: (r) => <Fig v={r.prompt} f={count} /> },
    time('ttft_ns', 'TTFT', 'time to the first token'),
    { key: 'tokens', head: 'decoded', help: 'tokens that decode steps added after that', value: (r) => r.tokens, cell: (r) => <Fig v={r.tokens} f={count} /> },
    time('decode_ns', 'in steps', 'duration of these steps'),
    time('tpot_ns', 'TPOT', 'time from the first token to the last, divided by the tokens after the first'),
  ]
  if (ctx.b) cols.unshift({ key: 'run', head: 'run', text: true, value: (r) => r.run, cell: (r) => names[r.run] })
  const sort = sortOf(ctx.params.sort) ?? { key: 'start_ns', up: true }
  return (
    <section>
      <h2>Sequences</h2>
      {left.map((s, i) => <p key={i} class="note">Of {count(s!.sequences_seen)} sequences each {s!.sequences_every}th is listed.</p>)}
      <Table rows={rows} columns={cols} id={(r) => r.id} label="sequences" sort={sort.key} up={sort.up} onSort={(key, up) => ctx.set({ sort: (up ? 'up:' : '') + key }, true)} />
    </section>
  )
}
