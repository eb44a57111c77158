// SPDX-License-Identifier: Apache-2.0

// ProfStat's tabs by subject. One that this recording has nothing for is greyed out and says what would fill it.
import type { Report, Run } from '../../api/load'
import { hasCounters } from './counted'
import { withExperts } from './experts/view'

const groups = [
  [
    'Operators',
    [
      ['tables', 'Operator table'],
      ['products', 'Matmul scaling'],
      ['roofline', 'Roofline'],
      ['counters', 'Counters'],
      ['phases', 'Prefill vs decode'],
    ],
  ],
  [
    'Threads & CPU',
    [
      ['threads', 'Threads'],
      ['slow', 'Slow steps'],
    ],
  ],
  [
    'Latency',
    [
      ['steps', 'Step time'],
      ['latency', 'Token latency'],
      ['requests', 'Requests'],
    ],
  ],
  ['Memory & I/O', [['faults', 'Page faults & I/O']]],
  ['MoE', [['experts', 'Experts']]],
  [
    'Backends',
    [
      ['backends', 'Backends'],
      ['remote', 'RPC / remote'],
    ],
  ],
] as const

export type TabKey = (typeof groups)[number][1][number][0]

export function nameOfTab(key: TabKey): string {
  for (const [, tabs] of groups) for (const [k, name] of tabs) if (k === key) return name
  return key
}

/** Why a tab has nothing to show and what would fill it; empty: it has something. */
export function why(key: TabKey, report: Report): string {
  const some = (f: (r: Run) => boolean) => report.runs.some(f)
  const stat = (r: Run) => r.stats.weight
  const operators = some((r) => (stat(r).phases ?? []).some((p) => (p.rows ?? []).length > 0))
  if (key !== 'faults' && !some((r) => (stat(r).phases ?? []).length > 0)) return 'no step was seen.'
  switch (key) {
    case 'tables':
    case 'products':
    case 'roofline':
    case 'threads':
      if (operators) return ''
      return some((r) => stat(r).run.level === 'op')
        ? 'no operator of a step was seen.'
        : 'operators were not recorded. Record with --level op, the default.'
    case 'counters':
      return some(hasCounters)
        ? ''
        : 'no hardware counters were recorded. Record with --counters PRESET or -e EVENT.'
    case 'slow':
      return some((r) => r.has('slow')) ? '' : 'this report holds no slow steps.'
    case 'requests':
      return some((r) => (stat(r).sequences?.seen ?? 0) > 0) ? '' : 'no request was seen.'
    case 'faults':
      return some((r) => stat(r).faults != null) ? '' : 'page faults were not recorded. Record with --faults.'
    case 'experts':
      return withExperts(report) ? '' : 'the model is no mixture of experts.'
    case 'backends':
      if (some((r) => (stat(r).offload ?? []).length > 0)) return ''
      return some((r) => stat(r).run.level !== 'step')
        ? 'all graphs ran on the CPU backend.'
        : 'graphs were not recorded. Record with --level graph or op.'
    case 'remote':
      return some((r) => (stat(r).remote ?? []).length > 0)
        ? ''
        : 'no other recorded process computed for a step. Record an RPC client and its server together: -p CLIENT -p SERVER.'
  }
  return ''
}

export function Tabs({
  tab,
  report,
  link,
  children,
}: {
  tab: TabKey | null
  report: Report
  link: (key: TabKey) => string
  children: preact.ComponentChildren
}) {
  return (
    <nav class="sub" aria-label="statistics">
      {groups.map(([title, tabs]) => (
        <div key={title} class="tabgroup" role="group" aria-label={title}>
          <span class="tabhead" aria-hidden="true">
            {title}
          </span>
          <span class="tabrow">
            {tabs.map(([key, name]) => {
              const empty = why(key, report)
              return (
                <a
                  key={key}
                  href={link(key)}
                  class={[key === tab && 'on', empty && 'nothing'].filter(Boolean).join(' ')}
                  aria-current={key === tab ? 'page' : undefined}
                  data-tab={key}
                  title={empty ? empty[0].toUpperCase() + empty.slice(1) : undefined}
                >
                  {name}
                </a>
              )
            })}
          </span>
        </div>
      ))}
      {children}
    </nav>
  )
}
