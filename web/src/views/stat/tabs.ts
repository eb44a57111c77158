// SPDX-License-Identifier: Apache-2.0

// ProfStat's tabs in their groups, and why one has nothing to show.
import type { Report, Run } from '../../api/load'
import { hasCounters } from './counted'
import { withExperts } from './experts/view'
import { hasFaults } from './faults/view'

export const tabName = {
  tables: 'Operator table',
  products: 'Matmul scaling',
  roofline: 'Roofline',
  phases: 'Prefill vs. decode',
  counters: 'Counters',
  threads: 'Threads',
  slow: 'Slow steps & contention',
  steps: 'Steps',
  latency: 'TTFT & TPOT',
  requests: 'Requests',
  faults: 'Page faults & I/O',
  experts: 'Experts',
  backends: 'Devices',
  remote: 'RPC',
} as const

export type Tab = keyof typeof tabName

export const groups: [string, Tab[]][] = [
  ['Operators', ['tables', 'products', 'roofline', 'phases', 'counters']],
  ['Threads & CPU', ['threads', 'slow']],
  ['Latency', ['steps', 'latency', 'requests']],
  ['Memory & I/O', ['faults']],
  ['MoE', ['experts']],
  ['Backends', ['backends', 'remote']],
]

/** Why a tab has nothing to show, and the flag that would fill it; empty: it has. */
export function whyEmpty(tab: Tab, report: Report, runs: Run[]): string {
  const stats = runs.map((r) => r.stats.weight)
  const phases = stats.flatMap((s) => s.phases ?? [])
  const operators = phases.some((p) => p.operators_ns != null) || stats.some((s) => s.outside_steps != null)
  switch (tab) {
    case 'products':
    case 'roofline':
    case 'threads':
      return operators ? '' : 'Operators were not recorded. Flag: profinfer record --level op.'
    case 'phases':
      return stats.some((s) =>
        (s.phases ?? []).some(
          (p) => p.phase === 'prefill' && s.phases.some((q) => q.phase === 'decode' && q.model === p.model),
        ),
      )
        ? ''
        : 'The recording does not have both prefill and decode steps of one model. Record a whole request.'
    case 'counters':
      return report.runs.some(hasCounters)
        ? ''
        : 'Hardware counters were not recorded. Flag: profinfer record --counters PRESET.'
    case 'requests':
      return stats.some((s) => s.sequences != null)
        ? ''
        : 'No request was seen. Record while the engine answers: profinfer record -p PID.'
    case 'faults':
      return runs.some(hasFaults) ? '' : 'Page faults were not recorded. Flag: profinfer record --faults.'
    case 'experts':
      if (withExperts(report)) return ''
      return stats.some((s) => (s.models ?? []).some((m) => m.experts != null))
        ? 'No choice of experts was recorded, although the model has experts. Flags: profinfer record --level op, without --experts=false.'
        : 'The model has no experts.'
    case 'backends':
      return phases.some((p) => (p.backends ?? []).length > 0) ||
        stats.some((s) => (s.offload ?? []).length > 0)
        ? ''
        : 'All steps ran on the CPU alone. Other backends are recorded without a flag.'
    case 'remote':
      return stats.some((s) => (s.remote ?? []).length > 0)
        ? ''
        : 'No RPC server was recorded. Flag: profinfer record -p $(pgrep -d, rpc-server) -- COMMAND.'
  }
  return ''
}
