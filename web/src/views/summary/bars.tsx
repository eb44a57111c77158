// SPDX-License-Identifier: Apache-2.0

// Where a phase's time goes: one bar of the steps' time, one of the threads' time in operators.
import type { SummaryStat } from '../../api/types'
import { kindColors } from '../../lib/color'
import { clean, dur, plural, share } from '../../lib/format'
import { Fig } from '../../ui/figure'
import { useTheme } from '../../ui/theme'
import type { PhasePart } from './model'

interface Piece {
  label: string
  share: number | null
  field: string
  color: [string, string]
  /** Striped: no operator ran. */
  empty?: boolean
}

function Bar({
  pieces,
  name,
  of,
  label,
}: {
  pieces: Piece[]
  name: string
  of: number | null
  label: string
}) {
  const dark = useTheme() === 'dark' ? 1 : 0
  const seen = pieces.filter((p) => p.share != null && p.share > 0.0005)
  const sum = Math.max(
    1,
    seen.reduce((n, p) => n + (p.share ?? 0), 0),
  )
  const look = (p: Piece) =>
    p.empty ? `repeating-linear-gradient(135deg, ${p.color[dark]} 0 2px, transparent 2px 5px)` : p.color[dark]
  return (
    <div class="split">
      <div class="track" role="img" aria-label={label}>
        {seen.map((p) => (
          <span
            key={p.field}
            style={{ width: `${((p.share ?? 0) / sum) * 100}%`, background: look(p) }}
            title={`${p.label}: ${share(p.share)}`}
          />
        ))}
      </div>
      <div class="legend">
        {pieces
          .filter((p) => p.share != null && (p.share > 0.0005 || p.field.startsWith('matmul')))
          .map((p) => (
            <span key={p.field} class="entry">
              <i style={{ background: look(p) }} />
              {p.label}{' '}
              <b>
                <Fig v={p.share} f={share} name={p.field === 'busy' ? undefined : `${name}.${p.field}`} />
              </b>
              {of != null && <span class="dim"> {dur((p.share ?? 0) * of)}</span>}
            </span>
          ))}
      </div>
    </div>
  )
}

const grey: [string, string] = ['#8a8f98', '#8a8f98']

export function Split({ part }: { part: PhasePart }) {
  const { ps, name } = part
  if (ps.matmul_share == null && ps.backends_share == null)
    return <p class="dim">No operators were recorded of these steps: where their time goes is not known.</p>
  const step = ps.traced_steps > 0 ? ps.traced_ns / ps.traced_steps : null
  const on =
    ps.backends?.length === 1 ? `graphs on ${clean(ps.backends[0].backend)}` : 'graphs on other backends'
  return (
    <>
      <div class="barhead">
        {(ps.async_steps ?? 0) > 0 ? 'submit time per step' : 'time per step'}
        {step != null && <span class="dim">, {dur(step)} on average</span>}
      </div>
      <Bar
        name={name}
        of={step}
        label={`where the time of ${ps.phase} goes`}
        pieces={[
          {
            label: 'weight matmul',
            share: ps.matmul_share,
            field: 'matmul_share',
            color: kindColors.matmul,
          },
          {
            label: 'attention',
            share: ps.attn_share,
            field: 'attn_share',
            color: kindColors.attention,
          },
          { label: 'other operators', share: ps.other_share, field: 'other_share', color: kindColors.norm },
          { label: on, share: ps.backends_share, field: 'backends_share', color: kindColors.moe },
          {
            label: 'outside operators',
            share: ps.outside_operators_share,
            field: 'outside_operators_share',
            color: grey,
            empty: true,
          },
          { label: 'probe overhead', share: ps.probe_share, field: 'probe_share', color: grey },
        ]}
      />
      {ps.traced_steps < ps.steps && (
        <p class="dim">
          {ps.disturbed?.left_out
            ? `Of ${ps.traced_steps} of ${ps.steps} steps: ${plural(ps.disturbed.steps, 'disturbed step')} left out.`
            : `Of ${ps.traced_steps} of ${ps.steps} steps; operators of the others were not recorded.`}
        </p>
      )}
    </>
  )
}

export function Threads({ part, stat }: { part: PhasePart; stat: SummaryStat }) {
  const { ps, name } = part
  if (ps.wait_share == null) return null
  return (
    <>
      <div class="barhead">thread time in operators</div>
      <Bar
        name={name}
        of={null}
        label={`how the threads of ${ps.phase} spend their time in operators`}
        pieces={[
          {
            label: stat.has_off_cpu ? 'busy' : 'busy or off-CPU (not recorded)',
            share: Math.max(0, 1 - ps.wait_share - (ps.off_cpu_share ?? 0)),
            field: 'busy',
            color: ['#4b5563', '#aab2bd'],
          },
          {
            label: 'barrier wait',
            share: ps.wait_share,
            field: 'wait_share',
            color: ['#5c6570', '#9aa4b0'],
            empty: true,
          },
          {
            label: 'off-CPU',
            share: ps.off_cpu_share,
            field: 'off_cpu_share',
            color: kindColors.elementwise,
          },
        ]}
      />
    </>
  )
}
