// SPDX-License-Identifier: Apache-2.0

// The operators that take most of a phase, by weight.
import type { SummaryRow } from '../../api/types'
import { clean, dur, num, share } from '../../lib/format'
import { Fig } from '../../ui/figure'
import { href } from '../../ui/route'
import { Change, perToken } from './compare'
import type { PhasePart } from './model'
import { Name } from './say'

const rows = 6

/** A row's time a token: the runs' steps can hold different numbers of them. */
const aToken = (p: PhasePart, r: SummaryRow) => perToken(r.share, p.ps)

/** What finds a row's operators in their graph: a tied output goes by its weight. */
const search = (r: SummaryRow) => /^output \((.+)\)$/.exec(r.key)?.[1] ?? r.key

export function Heaviest({
  part,
  other,
  keep,
}: {
  part: PhasePart
  other?: PhasePart
  keep: Record<string, string>
}) {
  const all = [...(part.ps.rows ?? [])].sort((a, b) => b.dur_per_step_ns - a.dur_per_step_ns)
  if (all.length === 0) return null
  const shown = all.slice(0, rows)
  const of = { phase: part.ps.phase, model: part.several ? (part.ps.model ?? 'none') : undefined }
  // Tables call a row by its key, with the type where several have that key.
  const sel = (r: SummaryRow) =>
    all.some((o) => o !== r && o.key === r.key) && r.weight ? `${r.key} ${r.type}` : r.key
  const rest = all.slice(rows)
  const most = shown[0].dur_per_step_ns || 1
  const twin = (r: SummaryRow) => other?.ps.rows?.find((o) => o.key === r.key && o.weight === r.weight)
  const left = rest.reduce((n, r) => n + r.dur_per_step_ns, 0)
  const leftShare = rest.reduce((n, r) => n + (r.share ?? 0), 0)
  return (
    <div class="table-scroll">
      <table class="grid heaviest" aria-label={`heaviest operators of ${part.ps.phase}`}>
        <thead>
          <tr>
            <th class="text">by weight</th>
            <th>per step</th>
            <th class="text">share</th>
            {other && <th title="time per token of the other run against this one">other run</th>}
            <th title="bytes moved (min) / time">GB/s</th>
            <th title="floating-point operations / time">GFLOP/s</th>
            <th title="arithmetic intensity: floating-point operations / bytes">FLOP/byte</th>
            <th title="barrier wait: share of thread time">barrier wait</th>
            <th></th>
          </tr>
        </thead>
        <tbody>
          {shown.map((r) => {
            const id = `${part.name}.rows.${r.key}${r.type ? '.' + r.type : ''}`
            const t = twin(r)
            return (
              <tr key={id}>
                <td class="text">
                  <a href={href('stat', { tab: 'tables', by: 'weight', ...of, sel: sel(r), ...keep })}>
                    <Name s={r.key} />
                  </a>
                  {r.type && <span class="dim"> {clean(r.type)}</span>}
                </td>
                <td>
                  <Fig v={r.dur_per_step_ns} f={dur} name={`${id}.dur_per_step_ns`} />
                </td>
                <td class="text sharecell">
                  <span class="meter" style={{ width: `${(r.dur_per_step_ns / most) * 50}px` }} />{' '}
                  <Fig v={r.share} f={share} name={`${id}.share`} />
                </td>
                {other && <td>{t ? <Change a={aToken(part, r)} b={aToken(other, t)} /> : '–'}</td>}
                <td>
                  {r.bytes_at_most ? '≤ ' : ''}
                  <Fig v={r.gb_per_s} f={num} name={`${id}.gb_per_s`} />
                </td>
                <td>
                  <Fig v={r.gflop_per_s} f={num} name={`${id}.gflop_per_s`} />
                </td>
                <td>
                  <Fig v={r.flop_per_byte} f={num} name={`${id}.flop_per_byte`} />
                </td>
                <td>
                  <Fig v={r.wait_share} f={share} name={`${id}.wait_share`} />
                </td>
                <td class="text">
                  <a
                    href={href('dag', { phase: part.ps.phase, q: search(r), color: 'share', ...keep })}
                    title="in the operator graph"
                  >
                    graph&nbsp;›
                  </a>
                </td>
              </tr>
            )
          })}
          {rest.length > 0 && (
            <tr class="dim">
              <td class="text">{rest.length} more</td>
              <td>{dur(left)}</td>
              <td class="text sharecell">
                <span class="meter" style={{ width: 0 }} /> {share(leftShare)}
              </td>
              {other && <td></td>}
              <td></td>
              <td></td>
              <td></td>
              <td></td>
              <td class="text">
                <a href={href('stat', { tab: 'tables', by: 'weight', ...of, ...keep })}>all&nbsp;›</a>
              </td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  )
}
