// SPDX-License-Identifier: Apache-2.0

// What the figures of a phase do not stand for.
import type { SummaryPhase } from '../../api/types'
import { clean, count, plural, share } from '../../lib/format'
import { runNames, seriesOf, type TabContext } from './context'

/** What the figures do not stand for. */
export function Missing({
  ctx,
  pa,
  pb,
}: {
  ctx: TabContext
  pa: SummaryPhase | null
  pb: SummaryPhase | null
}) {
  const notes: string[] = []
  const names = runNames(ctx)
  for (const [i, p] of [pa, pb].entries()) {
    const who = ctx.b ? names[i] + ': ' : ''
    if (!p) continue
    if (p.only_partial) notes.push(`${who}No step of this phase is complete: figures can be too low.`)
    else if (p.partial_steps > 0)
      notes.push(
        `${who}${plural(p.partial_steps, 'step was', 'steps were')} incomplete and ${p.partial_steps === 1 ? 'is' : 'are'} left out.`,
      )
    const out = p.disturbed?.left_out ? p.disturbed.steps : 0
    if (out > 0)
      notes.push(
        `${who}${plural(out, 'disturbed step')} of ${count(p.steps)} left out: shares and figures per step are of the others.`,
      )
    if (p.traced_steps < p.steps - out)
      notes.push(
        `${who}Operators of ${count(p.traced_steps)} of ${plural(p.steps, 'step')} were recorded: shares and figures per step are of these.`,
      )
  }
  for (const [i, r] of (ctx.b ? [ctx.a, ctx.b] : [ctx.a]).entries()) {
    const s = r.stats.weight
    const who = ctx.b ? names[i] + ': ' : ''
    if (s.lost.events > 0) notes.push(`${who}${plural(s.lost.events, 'event was', 'events were')} dropped.`)
    if (s.run.filter)
      notes.push(
        `${who}Only operators of ${clean(s.run.filter)} were recorded, so time outside operators is unknown.`,
      )
    if ((s.run.probe_share ?? 0) > 0.1)
      notes.push(
        `${who}Estimated probe overhead: ${share(s.run.probe_share)} of thread time in operators. Figures exclude it.`,
      )
  }
  const far = [ctx.sa, ctx.sb].map((s) =>
    Math.max(0, ...(seriesOf(s, ctx)?.steps ?? []).map((p) => p.pos ?? 0)),
  )
  if (ctx.b && pa && pb && far[0] > 0 && far[1] > 0 && Math.max(...far) > 1.25 * Math.min(...far)) {
    notes.push(
      `The runs are of different lengths (positions up to ${count(far[0])} and ${count(far[1])}): attention grows with the position, so its times do not compare as they stand.`,
    )
  }
  return (
    <>
      {notes.map((n) => (
        <p key={n} class="note">
          {n}
        </p>
      ))}
    </>
  )
}
