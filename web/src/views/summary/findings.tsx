// SPDX-License-Identifier: Apache-2.0

// Top opportunities, each a link to the view that shows it. Small ones are shown on request.
import { useState } from 'preact/hooks'
import type { SummaryFinding, SummaryStat } from '../../api/types'
import { dur, plural, share } from '../../lib/format'
import { Fig } from '../../ui/figure'
import { href } from '../../ui/route'
import { findingLink, viewTitle } from './model'
import { Prose } from './say'

/** Shares of a phase below this are shown on request only. */
const least = 0.05

export function Findings({ stat, keep }: { stat: SummaryStat; keep: Record<string, string> }) {
  const [open, setOpen] = useState(false)
  const all = (stat.findings ?? []).map((f, i) => ({ f, i }))
  if (all.length === 0) return <p class="dim">Nothing stands out in what was recorded.</p>
  const shown = all.filter(({ f }) => open || f.gain_share == null || f.gain_share >= least)
  const left = all.length - shown.length
  return (
    <>
      {shown.length > 0 && (
        <ol class="findings">
          {shown.map(({ f, i }) => (
            <Finding key={i} stat={stat} f={f} i={i} keep={keep} />
          ))}
        </ol>
      )}
      {(left > 0 || open) && (
        <p class="dim less">
          {left > 0 && `Nothing ${shown.length > 0 ? 'else ' : ''}above ${share(least)}. `}
          <button data-more aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? 'hide those below 5 %' : `show ${plural(left, 'smaller one', 'smaller ones')}`}
          </button>
        </p>
      )}
    </>
  )
}

function Finding({
  stat,
  f,
  i,
  keep,
}: {
  stat: SummaryStat
  f: SummaryFinding
  i: number
  keep: Record<string, string>
}) {
  const [view, params] = findingLink(f, keep)
  const steps = (stat.phases ?? [])
    .filter((p) => f.phase === 'unknown' || p.phase === f.phase)
    .reduce((n, p) => n + p.steps, 0)
  return (
    <li data-kind={f.kind}>
      <a href={href(view, params)} class="finding">
        <span class="gain">
          {f.gain_ns != null ? (
            <>
              <b>{steps > 0 ? `${dur(f.gain_ns / steps)}/step` : dur(f.gain_ns)}</b>
              <span class="dim">
                <Fig v={f.gain_share} f={share} name={`findings.${i}.gain_share`} />
                {f.phase === 'unknown' ? '' : ` of ${f.phase}`},{' '}
                <Fig v={f.gain_ns} f={dur} name={`findings.${i}.gain_ns`} /> in all
              </span>
            </>
          ) : (
            <span class="dim">no gain by itself</span>
          )}
        </span>
        <span class="sentence">
          <Prose text={f.text} names={f.names} />
        </span>
        {view !== 'summary' && <span class="to">{viewTitle[view]}&nbsp;›</span>}
      </a>
    </li>
  )
}
