// SPDX-License-Identifier: Apache-2.0

// What a row hides: the distribution of its calls, its spread over layers and threads.
import type { Grouping } from '../../api/load'
import type { SeriesRow, Series, SummaryRow } from '../../api/types'
import { clean, count, delta, dur, share } from '../../lib/format'
import { median, outlier } from '../../lib/median'
import { runColors, threadColors } from '../../lib/palette'
import { Histogram, LayerBars, Name, StackBar, type DistSeries } from '../../ui/charts'
import { Fig } from '../../ui/figure'
import { href } from '../../ui/route'
import { useTheme } from '../../ui/theme'
import { rowSeries, runNames, seriesOf, type TabContext } from './context'
import type { RowPair } from './rows'

export function Detail({ ctx, by, pair }: { ctx: TabContext; by: Grouping; pair: RowPair }) {
  const theme = useTheme()
  const names = runNames(ctx)
  const of = (s: Series | null, r: SummaryRow | null) => rowSeries(seriesOf(s, ctx), by, r)
  const ra = of(ctx.sa, pair.a)
  const rb = of(ctx.sb, pair.b)
  const colors = runColors(theme)
  const series: DistSeries[] = []
  if (ra) series.push({ name: ctx.b ? names[0] : '', color: colors[0], dist: ra.time })
  if (rb) series.push({ name: names[1], color: colors[1], dist: rb.time })
  const keep = { run: ctx.params.run, with: ctx.params.with }
  const name = pair.row.key
  const layers = [ra, rb].flatMap((r, i) =>
    r?.layers?.length
      ? [
          {
            name: ctx.b ? names[i] : '',
            color: colors[i],
            layers: r.layers.map((l) => ({ layer: l.layer, mean: l.dur_ns / l.calls, max: l.max_ns })),
          },
        ]
      : [],
  )
  return (
    <aside class="detail" aria-label={`details of ${clean(name)}`}>
      <header>
        <h3 class="clip">
          <bdi>
            {clean(
              by === 'layer'
                ? name === 'none'
                  ? 'no layer'
                  : 'layer ' + name
                : by === 'thread'
                  ? 'thread ' + name
                  : name,
            )}
          </bdi>{' '}
          <span class="dim">
            {clean(
              [pair.row.type, pair.row.op !== name ? pair.row.op : '', pair.row.block]
                .filter(Boolean)
                .join(' · '),
            )}
          </span>
        </h3>
        {by !== 'thread' && (
          <span class="links">
            <a href={href('dag', { ...keep, phase: ctx.phase, q: by === 'layer' ? `blk.${name}.` : name })}>
              show in ProfDAG
            </a>
            <a href={href('time', { ...keep, q: name })}>find in ProfTime</a>
          </span>
        )}
        <button
          class="icon"
          aria-label="close"
          title="close"
          onClick={() => ctx.set({ sel: undefined }, true)}
        >
          ×
        </button>
      </header>
      {pair.row.incomplete > 0 && (
        <p class="note">Of {count(pair.row.incomplete)} of its calls not all threads were seen.</p>
      )}
      {series.length === 0 && by !== 'thread' && (
        <p class="dim">The distribution of this row was not kept: there were too many rows.</p>
      )}
      <div class="cols">
        {series.length > 0 && (
          <div>
            <h4>Duration of calls</h4>
            <Quantiles series={series} />
            <Histogram series={series} what="duration of a call" height={series.length > 1 ? 74 : 92} />
          </div>
        )}
        {by === 'layer' && <InLayer ctx={ctx} layer={Number(name)} />}
        {by === 'thread' && <OnThread ctx={ctx} tid={pair.row.tid} run={pair.a ? 0 : 1} />}
        {layers.length > 0 && by !== 'layer' && (
          <div>
            <h4>Mean by layer</h4>
            {layers.map((s) => (
              <Outliers key={s.name} s={s} />
            ))}
            <LayerBars series={layers} height={140} />
          </div>
        )}
        {[ra, rb].some((r) => r?.threads && r.threads.length > 1) && (
          <div>
            {[ra, rb].map(
              (r, i) =>
                r?.threads &&
                r.threads.length > 1 && (
                  <ThreadBars key={i} ctx={ctx} name={ctx.b ? names[i] : ''} row={r} run={i} />
                ),
            )}
          </div>
        )}
      </div>
    </aside>
  )
}

function Quantiles({ series }: { series: DistSeries[] }) {
  const cols = [
    ['min', 'min_ns'],
    ['p5', 'p5_ns'],
    ['p25', 'p25_ns'],
    ['p50', 'p50_ns'],
    ['p75', 'p75_ns'],
    ['p95', 'p95_ns'],
    ['max', 'max_ns'],
    ['mean', 'mean_ns'],
  ] as const
  return (
    <div class="quantiles">
      {series.map((s, i) => (
        <dl key={i} aria-label={s.name}>
          {s.name && <div class="of">{s.name}</div>}
          {cols.map(([n, k]) => (
            <div key={k}>
              <dt>{n}</dt>
              <dd data-col={k}>
                <Fig v={s.dist[k]} f={dur} />
              </dd>
            </div>
          ))}
        </dl>
      ))}
    </div>
  )
}

/** What a layer is made of, against the same in the other layers. */
function InLayer({ ctx, layer }: { ctx: TabContext; layer: number }) {
  const rows = (seriesOf(ctx.sa, ctx)?.weight ?? []).flatMap((r) => {
    const l = r.layers?.find((x) => x.layer === layer)
    return l
      ? [
          {
            r,
            dur: l.dur_ns,
            mean: l.dur_ns / l.calls,
            med: median(r.layers!.map((x) => x.dur_ns / x.calls)),
            n: r.layers!.length,
          },
        ]
      : []
  })
  if (rows.length === 0) return null
  rows.sort((a, b) => b.dur - a.dur)
  const all = rows.reduce((n, r) => n + r.dur, 0)
  return (
    <div>
      <h4>What it is made of {ctx.b && <span class="of">{runNames(ctx)[0]}</span>}</h4>
      <table class="plain">
        <thead>
          <tr>
            <th />
            <th>share</th>
            <th>mean</th>
            <th>vs median layer</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, 8).map((x) => (
            <tr key={x.r.key + x.r.type}>
              <td class="text">
                <Name text={x.r.key} />
              </td>
              <td>
                <Fig v={x.dur / all} f={share} />
              </td>
              <td>
                <Fig v={x.mean} f={dur} />
              </td>
              <td class={outlier(x.mean, x.med) && x.n > 2 ? 'bad' : 'dim'}>
                {x.n > 2 ? delta(x.med, x.mean) : '–'}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** A thread's time by operators, the most first. */
function OnThread({ ctx, tid, run }: { ctx: TabContext; tid?: number; run: number }) {
  const c = threadColors(useTheme())
  const rows = (seriesOf(run ? ctx.sb : ctx.sa, ctx)?.weight ?? []).flatMap((r) => {
    const t = r.threads?.find((x) => x.tid === tid)
    return t ? [{ r, t, all: t.busy_ns + t.wait_ns + t.off_cpu_ns }] : []
  })
  if (rows.length === 0) return <p class="dim">What this thread did in each operator was not kept.</p>
  rows.sort((a, b) => b.all - a.all)
  return (
    <div>
      <h4>
        Its time by operator <span class="dim">busy, wait, off-CPU; the figures: busy, wait</span>
      </h4>
      {rows.slice(0, 10).map(({ r, t, all }) => (
        <div key={r.key + r.type} class="thread wide">
          <Name text={r.key} />
          <StackBar
            thin
            label={clean(r.key)}
            of={rows[0].all}
            parts={[
              { name: 'busy', value: t.busy_ns, color: c.busy },
              { name: 'barrier wait', value: t.wait_ns, color: c.wait },
              { name: 'off-CPU', value: t.off_cpu_ns, color: c.off },
            ]}
          />
          <span class="dim">{share(all > 0 ? t.busy_ns / all : null)}</span>
          <span class="dim">{share(all > 0 ? t.wait_ns / all : null)}</span>
        </div>
      ))}
    </div>
  )
}

/** The layers that stand out, in words. */
function Outliers({ s }: { s: { name: string; layers: { layer: number; mean: number }[] } }) {
  const med = median(s.layers.map((l) => l.mean))
  const out = s.layers
    .filter((l) => outlier(l.mean, med))
    .sort((a, b) => Math.abs(b.mean - med) - Math.abs(a.mean - med))
  return (
    <p class="dim">
      {s.name && <span class="of">{s.name}</span>} median {dur(med)};{' '}
      {out.length === 0
        ? 'no layer is 10 % away from it.'
        : `${out
            .slice(0, 3)
            .map((l) => `layer ${l.layer} ${outlier(l.mean, med).replace(' of the median', '')}`)
            .join(', ')}${out.length > 3 ? ` and ${out.length - 3} more` : ''}.`}
    </p>
  )
}

function ThreadBars({ ctx, name, row, run }: { ctx: TabContext; name: string; row: SeriesRow; run: number }) {
  const theme = useTheme()
  const c = threadColors(theme)
  const threads = row.threads!
  const top = Math.max(...threads.map((t) => t.busy_ns + t.wait_ns + t.off_cpu_ns), 1)
  const infos = (run ? ctx.b! : ctx.a).stats.thread.threads ?? []
  return (
    <>
      <h4>
        Threads {name && <span class="of">{name}</span>}{' '}
        <span class="dim">busy, wait, off-CPU; the figure: busy</span>
      </h4>
      <div class="threads">
        {threads.slice(0, 16).map((t) => {
          const i = infos.find((x) => x.tid === t.tid && x.pid === t.pid)
          return (
            <div key={t.tid} class="thread">
              <span class="clip dim">{clean(`${t.tid} ${i?.role ?? ''}`)}</span>
              <StackBar
                thin
                label={`thread ${t.tid}`}
                of={top}
                parts={[
                  { name: 'busy', value: t.busy_ns, color: c.busy },
                  { name: 'barrier wait', value: t.wait_ns, color: c.wait },
                  { name: 'off-CPU', value: t.off_cpu_ns, color: c.off },
                ]}
              />
              <span class="dim">{share(t.busy_ns / top)}</span>
            </div>
          )
        })}
        {threads.length > 16 && (
          <p class="dim">and {threads.length - 16} more: all are in the section Threads.</p>
        )}
      </div>
    </>
  )
}
