// SPDX-License-Identifier: Apache-2.0

// What the summary's parts share: phases with their verdicts, in the order in which they are read.
import type { Run } from '../../api/load'
import type { SummaryFinding, SummaryPhase, SummaryStat, SummaryVerdict } from '../../api/types'
import { parameterCount } from '../../lib/format'
import { speculationRole } from '../../lib/speculation'
import type { ViewName } from '../../ui/route'

/** A phase of a run, by its place in the statistics. */
export interface PhasePart {
  ps: SummaryPhase
  /** The prefix of its figures' names: "decode", or "decode@1" of the second model. */
  name: string
  /** Its title: "Decode", with the model's size where there are several. */
  title: string
  verdict: SummaryVerdict | null
  /** Its place in the statistics; -1: none. */
  at: number
  /** The run has several models. */
  several: boolean
}

const order = ['decode', 'prefill', 'encode', 'unknown']

export function phaseParts(s: SummaryStat): PhasePart[] {
  const several = (s.models ?? []).length > 1
  const out = (s.phases ?? []).map((ps): PhasePart => {
    const word =
      ps.phase === 'unknown'
        ? 'Steps whose batch could not be read'
        : ps.phase[0].toUpperCase() + ps.phase.slice(1)
    const n = (s.verdicts ?? []).findIndex((v) => v.phase === ps.phase && v.model === ps.model)
    const m = ps.model != null ? s.models?.[ps.model] : undefined
    return {
      ps,
      name: ps.phase + (ps.model ? '@' + ps.model : ''),
      title:
        several && m
          ? `${word}, ${[speculationRole(s, ps.model), 'model'].filter(Boolean).join(' ')} of ${parameterCount(m.parameters)} parameters`
          : word,
      verdict: s.verdicts?.[n] ?? null,
      at: n,
      several,
    }
  })
  const at = (p: PhasePart) => (order.indexOf(p.ps.phase) + order.length) % order.length
  return out.sort((a, b) => at(a) - at(b) || (a.ps.model ?? -1) - (b.ps.model ?? -1))
}

/** The link of a finding into the views, with the runs that are looked at. */
export function findingLink(
  f: SummaryFinding,
  keep: Record<string, string>,
): [ViewName, Record<string, string>] {
  const view = (['summary', 'dag', 'time', 'stat'] as const).find((v) => v === f.target.view) ?? 'stat'
  return [view, { ...f.target.params, ...keep }]
}

/** Parameters that choose this run alone: a finding is of one recording. */
export const runAlone = (run: Run, several: boolean): Record<string, string> =>
  several ? { run: String(run.index), with: 'none' } : {}

export const viewTitle: Record<string, string> = {
  summary: 'Summary',
  dag: 'ProfDAG',
  time: 'ProfTime',
  stat: 'ProfStat',
}
