// SPDX-License-Identifier: Apache-2.0

// The operator graphs of a run, with what counters tell of their nodes.
import type { DAG, DagList } from '../../api/types'
import { metricsOf, type Metric } from '../../lib/counters'

export interface CountedDAG extends DAG {
  /** What counters tell of its nodes; absent where none were read. */
  counted?: Metric[]
}

export interface CountedDAGs extends Omit<DagList, 'dags'> {
  dags: CountedDAG[]
}

/** Adds what counters tell to the graphs of a run. */
export function withCounters(all: CountedDAGs): CountedDAGs {
  if (!all.counters?.length) return all
  const metrics = metricsOf(
    all.counters,
    all.dags.flatMap((d) => d.nodes.map((n) => n.run)),
  )
  for (const d of all.dags) d.counted = metrics
  return all
}
