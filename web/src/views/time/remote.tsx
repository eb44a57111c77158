// SPDX-License-Identifier: Apache-2.0

// Graphs that one process computes for another: what the other side is.
import { clean } from '../../lib/format'
import type { Actions } from './actions'
import type { TimeData } from './data'
import { stepLabel } from './steps'

function processName(d: TimeData, graph: number): string {
  const t = d.index.threads?.[d.graphs.thread[graph]]
  const p = t && d.run.stats.weight.run.processes?.find((x) => x.pid === t.pid)
  return t ? `${clean(p?.comm ?? '') || 'process'} ${t.pid}` : 'another process'
}

/** The graph that had this one computed, -1 if there is none. */
export const callerOf = (d: TimeData, graph: number): number =>
  graph >= 0 ? (d.graphs.byId.get(d.graphs.caller[graph]) ?? -1) : -1

/** The graph that was computed for this one, -1 if none is known. */
export function servedFor(d: TimeData, graph: number): number {
  const id = d.graphs.id[graph]
  for (let i = 0; id > 0 && i < d.graphs.n; i++) if (d.graphs.caller[i] === id) return i
  return -1
}

/** In a line, for whom a graph was computed. */
export function forWhom(d: TimeData, graph: number): string[] {
  const c = callerOf(d, graph)
  if (c < 0) return []
  const step = d.steps.byId.get(d.graphs.step[c])
  return [
    `computed for ${processName(d, c)}: ${step === undefined ? `its graph ${d.graphs.id[c]}` : `its ${stepLabel(d, step)}`}`,
  ]
}

/**
 * The same in the panel, with a way there. both: also from the graph that was handed over to the other
 * process's.
 */
export function ForWhom({
  d,
  graph,
  run,
  actions,
  both,
}: {
  d: TimeData
  graph: number
  run: number
  actions: Actions
  both?: boolean
}) {
  const c = callerOf(d, graph)
  const s = both && c < 0 ? servedFor(d, graph) : -1
  const other = c >= 0 ? c : s
  if (other < 0) return null
  const step = c >= 0 ? d.steps.byId.get(d.graphs.step[c]) : undefined
  const go = (f: () => void) => (e: Event) => {
    e.preventDefault()
    f()
  }
  return (
    <>
      <dt>{c >= 0 ? 'computed for' : 'computed by'}</dt>
      <dd data-other={d.graphs.id[other]}>
        {processName(d, other)}:{' '}
        <a href="#" onClick={go(() => actions.goGraph(run, other))}>
          graph {d.graphs.id[other]}
        </a>
        {step !== undefined && (
          <>
            ,{' '}
            <a href="#" onClick={go(() => actions.goStep(run, step))}>
              {stepLabel(d, step)}
            </a>
          </>
        )}
      </dd>
    </>
  )
}
