// SPDX-License-Identifier: Apache-2.0

// What the recording did not see: plainly where there is something, in three words where there is not.
import type { SummaryStat } from '../../api/types'
import { clean, count, dur } from '../../lib/format'
import { Fig } from '../../ui/figure'

/** Sentences on what makes the figures doubtful, and plainer ones on what is merely missing. */
export function losses(s: SummaryStat): { grave: string[]; facts: string[]; notes: string[] } {
  const l = s.lost
  const grave: string[] = []
  const facts: string[] = []
  const notes = [
    ...new Set([...(s.run.processes ?? []).flatMap((p) => p.warnings ?? []), ...(s.run.notes ?? [])]),
  ]
  if (l.damage) grave.push(`This file is damaged: ${l.damage}. What comes before is shown.`)
  if (l.truncated) grave.push('This recording is truncated. What was written is shown.')
  for (const w of l.by_why ?? []) {
    const what = w.what || 'events'
    if (w.why === 'lost' && w.events > 0)
      grave.push(
        `${count(w.events)} ${what} were dropped, in ${count(w.spans)} span${w.spans === 1 ? '' : 's'}: the steps concerned are left out where they could be told.`,
      )
    else if (w.why === 'filtered' && w.what === 'others')
      notes.push(
        `${count(w.events)} switches among other processes were more than is kept of them while threads waited.`,
      )
    else
      facts.push(
        `${w.why}${w.what ? ' ' + w.what : ''}: ${count(w.spans)} span${w.spans === 1 ? '' : 's'}${w.events > 0 ? `, ${count(w.events)} events` : ''}${w.dur_ns > 0 ? `, ${dur(w.dur_ns)}` : ''}.`,
      )
  }
  for (const p of s.phases ?? []) {
    if (p.only_partial) grave.push(`No step of ${p.phase} was complete: its figures can be too low.`)
    else if (p.partial_steps > 0)
      grave.push(
        `${p.phase}: ${count(p.partial_steps)} step${p.partial_steps === 1 ? ' was' : 's were'} not seen wholly and left out.`,
      )
  }
  for (const u of l.untraced_steps ?? [])
    facts.push(`Operators of ${count(u.steps)} step${u.steps === 1 ? '' : 's'} were not recorded: ${u.why}.`)
  const add = (n: number, text: string) => n > 0 && facts.push(`${text}: ${count(n)}.`)
  add(l.incomplete_operators, 'Operators not seen on all threads')
  if (s.run.level !== 'step' && s.run.level !== 'graph') add(l.unknown_shapes, 'Graphs without a definition')
  add(l.part_shapes, 'Graphs with parts of their definition missing')
  add(l.aborted_graphs, 'Graphs that ended early')
  add(
    s.ttft.unknown,
    'Sequences whose prompt was not seen, so that their time to the first token is not known',
  )
  if (!s.has_sched && (s.phases ?? []).some((p) => p.operators_ns != null))
    facts.push('Scheduling was not recorded: who else ran, and time off the CPU, are not known.')
  return { grave, facts, notes }
}

/** What must be seen at once. */
export function Warnings({ stat }: { stat: SummaryStat }) {
  const { grave } = losses(stat)
  if (grave.length === 0) return null
  return (
    <div class="note" role="status">
      {grave.slice(0, 6).map((t, i) => (
        <div key={i}>{clean(t)}</div>
      ))}
      {grave.length > 6 && <div>and {grave.length - 6} more, below</div>}
    </div>
  )
}

export function Lost({ stat }: { stat: SummaryStat }) {
  const { grave, facts, notes } = losses(stat)
  return (
    <div class="lost">
      <p>
        {grave.length === 0 && facts.length === 0 ? (
          'Nothing was dropped.'
        ) : (
          <>
            Events dropped: <Fig v={stat.lost.events} f={count} name="lost.events" />. Throttled:{' '}
            <Fig v={stat.lost.throttled_ns} f={dur} name="lost.throttled_ns" />. Steps incomplete:{' '}
            <Fig v={stat.lost.partial_steps} f={count} name="lost.partial_steps" />.
          </>
        )}
      </p>
      {[...grave, ...facts].length > 0 && (
        <ul>
          {[...grave, ...facts].map((t, i) => (
            <li key={i}>{clean(t)}</li>
          ))}
        </ul>
      )}
      {notes.length > 0 && (
        <>
          <p class="dim">Notes of the recorder</p>
          <ul class="dim">
            {notes.slice(0, 40).map((t, i) => (
              <li key={i}>{clean(t)}</li>
            ))}
            {notes.length > 40 && <li>and {notes.length - 40} more</li>}
          </ul>
        </>
      )}
    </div>
  )
}
