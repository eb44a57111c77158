// SPDX-License-Identifier: Apache-2.0

// What every tab of ProfStat gets: the recordings, the phase that is looked at, the address.
import type { Grouping, Report, Run } from '../../api/load'
import type { SeriesPhase, SummaryPhase, SeriesRow, Series, SummaryStat, SummaryRow } from '../../api/types'
import { clean, num } from '../../lib/format'
import { speculationRole } from '../../lib/speculation'
import { href } from '../../ui/route'

export type Params = Record<string, string | number | undefined>

/** What every section gets. */
export interface TabContext {
  report: Report
  a: Run
  b: Run | null
  sa: Series
  sb: Series | null
  params: Record<string, string>
  /** The address with other parameters. */
  link: (p: Params) => string
  set: (p: Params, replace?: boolean) => void
  phase: string
  model: number | null
}

/** The phase of that name and model, null if the run has none. */
export function phaseOf(s: SummaryStat | undefined, ctx: TabContext): SummaryPhase | null {
  return s?.phases?.find((p) => p.phase === ctx.phase && p.model === ctx.model) ?? null
}

export function seriesOf(s: Series | null, ctx: TabContext): SeriesPhase | null {
  return s?.phases.find((p) => p.phase === ctx.phase && p.model === ctx.model) ?? null
}

export const statBy = (run: Run, by: Grouping): SummaryStat => run.stats[by]

/** Short names of the two runs, for heads and legends. */
export function runNames(ctx: TabContext): [string, string] {
  const short = (r: Run) => clean(r.file).replace(/\.pinf$/, '')
  const [x, y] = [short(ctx.a), ctx.b ? short(ctx.b) : '']
  return x === y ? ['run ' + (ctx.a.index + 1), 'run ' + (ctx.b!.index + 1)] : [x, y]
}

export function modelName(r: Run, m: number | null): string {
  const x = m == null ? null : r.stats.weight.models?.[m]
  if (!x) return m == null ? 'model not known' : `model ${m + 1}`
  return clean(
    `${x.family || 'model'} ${num(x.parameters / (x.parameters >= 1e9 ? 1e9 : 1e6))} ${x.parameters >= 1e9 ? 'B' : 'M'} parameters${x.types[0] ? ' ' + x.types[0].type : ''}, process ${x.pid}${speculationRole(r.stats.weight, m) && `, ${speculationRole(r.stats.weight, m)}`}`,
  )
}

/** The link to a step in ProfTime, of the run it belongs to. */
export function stepLink(ctx: TabContext, run: number, step: number): string {
  const { run: ra, with: wa } = ctx.params
  return href(
    'time',
    ctx.b && run === 1 ? { run: ctx.b.index, with: ctx.a.index, step } : { run: ra, with: wa, step },
  )
}

export const runParams = (ctx: TabContext) => ({ run: ctx.params.run, with: ctx.params.with })

/** A row's series. */
export function rowSeries(p: SeriesPhase | null, by: Grouping, r: SummaryRow | null): SeriesRow | null {
  if (!p || !r || by === 'thread') return null
  return (
    p[by].find(
      (x) => x.key === r.key && x.weight === r.weight && (!r.weight || r.type === '' || x.type === r.type),
    ) ?? null
  )
}
