// SPDX-License-Identifier: Apache-2.0

// Top opportunities, each a link to where a view shows it; those below 5 % of their phase on request.
import { useState } from 'preact/hooks'
import type { SummaryStat } from '../../api/types'
import { dur, plural, share } from '../../lib/format'
import { Fig } from '../../ui/figure'
import { href } from '../../ui/route'
import { findingLink, viewTitle } from './model'
import { Prose } from './say'

/** Findings below this part of their phase's time are shown on request. */
const least = 0.05

export function Findings({ stat, keep }: { stat: SummaryStat; keep: Record<string, string> }) {
  const [all, setAll] = useState(false)
  const list = stat.findings ?? []
  if (list.length === 0) return <p class="dim">Nothing stands out in what was recorded.</p>
  // What has no gain of its own explains the others, except the first ones, which come first for a reason.
  const large = (f: (typeof list)[number]) =>
    f.kind === 'oversubscription' || f.kind === 'disturbed_steps' || (f.gain_share ?? 0) >= least
  const few = list.filter((f) => !large(f)).length
  return (
    <>
      <ol class="findings">
        {list.map((f, i) => {
          if (!all && !large(f)) return null
          const [view, params] = findingLink(f, keep)
          return (
            <li key={i} data-kind={f.kind}>
              <a href={href(view, params)} class="finding">
                <span class="gain">
                  {f.gain_ns_per_step != null ? (
                    <>
                      <b>
                        <Fig v={f.gain_share} f={share} name={`findings.${i}.gain_share`} />
                      </b>
                      <span class="dim">
                        of {f.phase === 'unknown' ? 'its time' : f.phase},{' '}
                        <Fig v={f.gain_ns_per_step} f={dur} name={`findings.${i}.gain_ns_per_step`} /> per
                        step
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
        })}
      </ol>
      {few > 0 && (
        <p class="dim more">
          {all
            ? ''
            : few < list.length
              ? `Nothing else above ${share(least)}. `
              : `Nothing above ${share(least)} of a phase. `}
          <button aria-expanded={all} onClick={() => setAll(!all)}>
            {all ? `hide those below ${share(least)}` : `show ${plural(few, 'smaller finding')}`}
          </button>
        </p>
      )}
    </>
  )
}
