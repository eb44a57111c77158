// SPDX-License-Identifier: Apache-2.0

// The steps of a phase that others disturbed: which, at what cost, and by whom.
import { clean, count, dur, num, plural, share } from '../../lib/format'
import { Fig } from '../../ui/figure'
import { href } from '../../ui/route'
import type { PhasePart } from './model'
import { Name } from './say'

const most = 6

/** The steps that other processes or the disk disturbed, by name. */
export function Disturbed({ part }: { part: PhasePart }) {
  const { ps, name } = part
  const d = ps.disturbed
  if (!d || d.steps === 0) return null
  const ranges = d.ranges ?? []
  const who = (d.preempted_by ?? []).slice(0, 3)
  const of = { phase: ps.phase, model: part.several ? (ps.model ?? 'none') : undefined }
  return (
    <p class="disturbed" data-disturbed>
      <b>
        <Fig v={d.steps} f={count} name={`${name}.disturbed.steps`} /> of {plural(ps.steps, 'step')} disturbed
      </b>{' '}
      (
      {ranges
        .slice(0, most)
        .map((r) => (r.first === r.last ? String(r.first) : `${r.first}–${r.last}`))
        .join(', ')}
      {ranges.length > most && ` and ${plural(ranges.length - most, 'more range')}`}): they took{' '}
      <Fig v={d.dur_ns} f={dur} name={`${name}.disturbed.dur_ns`} />,{' '}
      <Fig v={d.share} f={share} name={`${name}.disturbed.share`} /> of {ps.phase}, and lost{' '}
      <Fig v={d.lost_ns} f={dur} name={`${name}.disturbed.lost_ns`} />
      {d.disk_ns > 0 && (
        <>
          , <Fig v={d.disk_ns} f={dur} name={`${name}.disturbed.disk_ns`} /> of that to the disk
        </>
      )}
      .
      {who.length > 0 && (
        <>
          {' '}
          Preempted by{' '}
          {who.map((c, i) => (
            <span key={i}>
              {i > 0 && ', '}
              {c.own ? 'other engine threads' : <Name s={clean(c.comm)} />} {dur(c.dur_ns)}
            </span>
          ))}
          .
        </>
      )}{' '}
      {ps.undisturbed_tokens_per_s != null && (
        <>
          Undisturbed steps:{' '}
          <Fig v={ps.undisturbed_tokens_per_s} f={num} name={`${name}.undisturbed_tokens_per_s`} /> tokens/s,{' '}
          <Fig v={ps.undisturbed_step_ns} f={dur} name={`${name}.undisturbed_step_ns`} /> per step.{' '}
        </>
      )}
      {d.left_out && 'Verdict, shares and rates of operators are of the undisturbed steps. '}
      <a href={href('stat', { tab: 'slow', ...of })}>Slow steps&nbsp;›</a>
    </p>
  )
}
