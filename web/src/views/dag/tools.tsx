// SPDX-License-Identifier: Apache-2.0

// Switches and choices above the graph.
import type { Run } from '../../api/load'
import { clean, share } from '../../lib/format'
import type { CountedDAG } from './data'

export function Check({
  on,
  name,
  title,
  set,
}: {
  on: boolean
  name: string
  title: string
  set: (on: boolean) => void
}) {
  return (
    <button
      class="switch"
      role="switch"
      aria-checked={on}
      title={title}
      data-toggle={name}
      onClick={() => set(!on)}
    >
      <i aria-hidden="true" />
      {name}
    </button>
  )
}

export function Pick({
  label,
  list,
  at,
  onPick,
  run,
}: {
  label: string
  list: CountedDAG[]
  at: number
  onPick: (n: number) => void
  run: Run
}) {
  if (list.length < 2) return null
  const models = run.stats.weight.models ?? []
  return (
    <select aria-label={label} value={at} onChange={(e) => onPick(Number(e.currentTarget.value))}>
      {list.map((d, i) => {
        const m = d.model != null ? models[d.model] : null
        return (
          <option
            key={i}
            value={i}
          >{`graph ${i + 1}${m && models.length > 1 ? ` ${clean(m.family)} ${m.layers} layers` : ''}: ${share(d.share)}, ${d.nodes.length} tensors`}</option>
        )
      })}
    </select>
  )
}
