// SPDX-License-Identifier: Apache-2.0

// TTFT and TPOT: how they are distributed over sequences and steps.
import type { Run } from '../../api/load'
import type { RequestsDist, Series } from '../../api/types'
import { count, dur, plural } from '../../lib/format'
import { runColors } from '../../lib/palette'
import { Ecdf, Histogram, type DistSeries } from '../../ui/charts'
import { Fig } from '../../ui/figure'
import { Swatch } from '../../ui/plot-legend'
import { useTheme } from '../../ui/theme'
import { phaseOf, runNames, seriesOf, statBy, type TabContext } from './context'

export function Latency(ctx: TabContext) {
  const theme = useTheme()
  const names = runNames(ctx)
  const colors = runColors(theme)
  const of = (f: (s: Series) => RequestsDist | null | undefined): DistSeries[] =>
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
      {ctx.b && (
        <div class="legend">
          {names.map((n, i) => (
            <Swatch key={n} shape="area" color={colors[i]} name={n} />
          ))}
        </div>
      )}
      <h2>Time to the first token (TTFT)</h2>
      <p class="dim">
        From the start of a sequence’s first step to the end of the first step that asks for its logits. What
        happens between steps (queueing, sampling, the network) is not in it, except where it lies between
        those two.
      </p>
      <Counts run={ctx.a} name={ctx.b ? names[0] : ''} />
      {ctx.b && <Counts run={ctx.b} name={names[1]} />}
      <Both series={ttft} what="TTFT" few="a sequence" none={noTTFT(ctx.a)} id="ttft" />
      <h2>
        {decode ? 'Time per output token (TPOT), over steps' : `Time per token, over steps of ${ctx.phase}`}
      </h2>
      <p class="dim">
        {decode
          ? 'What one sequence waits for a token: the duration of a decode step, until its results are there, however many sequences share it.'
          : 'A step’s duration, until its results are there, divided by its tokens.'}
      </p>
      <Both
        series={tpot}
        what={decode ? 'TPOT' : 'time per token'}
        few="a step"
        none={
          pa == null
            ? `No step of phase ${ctx.phase} was seen.`
            : pa.async_steps && pa.per_token_ns == null
              ? 'Nobody was seen to wait for the results of these steps, which a device or another process computes.'
              : 'The batches of these steps could not be read, so their tokens are not known.'
        }
        id="tpot"
      />
      <p>
        <a href={ctx.link({ tab: 'requests', sel: undefined, sort: undefined })}>
          Requests one by one, and over time
        </a>
      </p>
    </>
  )
}

function noTTFT(r: Run): string {
  const t = r.stats.weight.ttft
  if (t.unknown > 0)
    return `No TTFT: the prompt of ${plural(t.unknown, 'sequence')} was not seen: recording began later.`
  if (t.pending > 0)
    return `No TTFT: ${plural(t.pending, 'sequence')} had no logits yet when the recording ended.`
  return 'No TTFT: no sequence was seen in the batches.'
}

function Counts({ run, name }: { run: Run; name: string }) {
  const t = run.stats.weight.ttft
  return (
    <p class="facts" data-ttft={run.index}>
      {name && <span class="of">{name}</span>}
      <span>
        <Fig v={t.sequences} f={count} /> {t.sequences === 1 ? 'sequence' : 'sequences'}
      </span>
      <span>
        mean <Fig v={t.mean_ns} f={dur} />
      </span>
      <span>
        p95 <Fig v={t.p95_ns} f={dur} />
      </span>
      <span>
        at most <Fig v={t.max_ns} f={dur} />
      </span>
      {t.unknown > 0 && (
        <span class="dim">
          <Fig v={t.unknown} f={count} /> whose prompt was not seen
        </span>
      )}
      {t.pending > 0 && (
        <span class="dim">
          <Fig v={t.pending} f={count} /> still without logits at the end
        </span>
      )}
    </p>
  )
}

function Both({
  series,
  what,
  few,
  none,
  id,
}: {
  series: DistSeries[]
  what: string
  few: string
  none: string
  id: string
}) {
  if (series.length === 0) return <p class="dim">{none}</p>
  const one = series.every((s) => s.dist.n < 2)
  return (
    <div class="pair small" data-plot={id} data-points={series.reduce((n, s) => n + s.dist.n, 0)}>
      {one ? (
        series.map((s) => (
          <p key={s.name}>
            {s.name && <span class="of">{s.name}</span>} Only {few}: <Fig v={s.dist.min_ns} f={dur} />. There
            is no distribution to draw.
          </p>
        ))
      ) : (
        <>
          <Histogram
            series={series}
            what={what}
            unit={few === 'a step' ? 'steps' : 'sequences'}
            width={560}
            height={130}
          />
          <Ecdf
            series={series}
            what={`${what}: share of ${few === 'a step' ? 'steps' : 'sequences'} up to`}
            width={560}
            height={150 + 10 * series.length}
          />
        </>
      )}
    </div>
  )
}
