// SPDX-License-Identifier: Apache-2.0

// ProfStat: tables of the statistics, and plots of what they sum up.
import './stat.css'
import type { Run } from '../../api/load'
import { clean } from '../../lib/format'
import { Empty } from '../../ui/figure'
import { go, href } from '../../ui/route'
import { useSections } from '../../ui/use-section'
import type { ViewProps } from '../../ui/view-props'
import { modelName, type TabContext, type Params } from './context'
import { Counted } from './counted'
import { Experts } from './experts/view'
import { FaultsAndDisk } from './faults/view'
import { Latency } from './latency'
import { Backends } from './offload/view'
import { Phases } from './phases'
import { Products } from './products'
import { Remote } from './remote/view'
import { Requests } from './requests/view'
import { Roofline } from './roofline'
import { SlowSteps } from './slow/view'
import { Steps } from './steps'
import { Tables } from './tables'
import { nameOfTab, Tabs, why, type TabKey } from './tabs'
import { Threads } from './threads'

const sections: Record<TabKey, (c: TabContext) => preact.ComponentChild> = {
  tables: Tables,
  steps: Steps,
  products: Products,
  roofline: Roofline,
  threads: Threads,
  counters: Counted,
  latency: Latency,
  requests: Requests,
  phases: Phases,
  slow: SlowSteps,
  experts: Experts,
  faults: FaultsAndDisk,
  backends: Backends,
  remote: Remote,
}

/** Tabs that say by themselves why they are empty. */
const selfTold = new Set<string>(['experts', 'faults', 'backends', 'remote', 'requests'])

/** Views of all phases and models. */
const phaseless = new Set<string>(['counters', 'slow', 'requests', 'faults'])

export function Statistics({ report, a, b, route }: ViewProps) {
  const { data: series, error } = useSections('series', b ? [a, b] : [a])
  if (error)
    return (
      <div data-ready>
        <Empty>The statistics of this recording cannot be shown: {error}.</Empty>
      </div>
    )
  if (!series) return <Empty>Loading …</Empty>

  const choices: { phase: string; model: number | null }[] = []
  for (const r of b ? [a, b] : [a]) {
    for (const p of r.stats.weight.phases ?? []) {
      if (!choices.some((c) => c.phase === p.phase && c.model === p.model))
        choices.push({ phase: p.phase, model: p.model })
    }
  }
  const params = route.params
  const models = [...new Set(choices.map((c) => c.model))]
  const wanted =
    params.model === undefined ? undefined : params.model === 'none' ? null : Number(params.model)
  const ofModel = choices.filter((c) => wanted === undefined || c.model === wanted)
  const chosen =
    ofModel.find((c) => c.phase === params.phase) ??
    ofModel.find((c) => c.phase === 'decode') ??
    ofModel[0] ??
    choices[0]
  const link = (p: Params) => href('stat', { ...params, ...p })
  const ctx: TabContext = {
    report,
    a,
    b,
    sa: series[0],
    sb: b ? series[1] : null,
    params,
    link,
    set: (p, replace) => go('stat', { ...params, ...p }, replace),
    phase: chosen?.phase ?? '',
    model: chosen?.model ?? null,
  }
  const asked = params.tab ?? 'tables'
  const tab = Object.hasOwn(sections, asked) ? (asked as TabKey) : null
  const Section = tab && sections[tab]
  const empty = tab && why(tab, report)
  return (
    <div class="stat" data-ready>
      <Tabs
        tab={tab}
        report={report}
        link={(key) => link({ tab: key, sel: undefined, sort: undefined, filter: undefined })}
      >
        {tab && !empty && !phaseless.has(tab) && tab !== 'phases' && choices.length > 0 && (
          <span class="choice" role="group" aria-label="phase">
            {[...new Set(choices.filter((c) => c.model === ctx.model).map((c) => c.phase))].map((p) => (
              <button key={p} aria-pressed={p === ctx.phase} onClick={() => ctx.set({ phase: p })}>
                {p}
              </button>
            ))}
          </span>
        )}
        {tab && !empty && models.length > 1 && !phaseless.has(tab) && (
          <select
            aria-label="model"
            value={String(ctx.model ?? 'none')}
            onChange={(e) => ctx.set({ model: e.currentTarget.value })}
          >
            {models.map((m) => (
              <option key={m} value={String(m ?? 'none')}>
                {modelName(a, m)}
              </option>
            ))}
          </select>
        )}
      </Tabs>
      <div class="page">
        {!Section ? (
          <Empty>There is no tab “{clean(asked).slice(0, 60)}”. Choose one above.</Empty>
        ) : choices.length === 0 && tab !== 'faults' ? (
          <Empty>
            No step was seen in {clean(a.file)}
            {b ? ` and ${clean(b.file)}` : ''}: there is nothing to sum up. {lostText(a)}
          </Empty>
        ) : (
          <>
            {empty && !selfTold.has(tab!) && (
              <p class="note" data-empty-tab={tab}>
                {nameOfTab(tab!)}: {empty}
              </p>
            )}
            {!(empty && tab === 'counters') && <Section {...ctx} />}
          </>
        )}
      </div>
    </div>
  )
}

/** Why a recording can be without steps. */
function lostText(r: Run): string {
  const l = r.stats.weight.lost
  if (l.damage) return `The file is damaged: ${clean(l.damage)}.`
  if (l.events > 0) return `${l.events} events were dropped.`
  return 'The engine may not have computed while it was recorded.'
}
