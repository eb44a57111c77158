// SPDX-License-Identifier: Apache-2.0

// What is most worth looking at, each a link to where a view shows it.
import type { SummaryStat } from '../../api/types'
import { dur, share } from '../../lib/format'
import { Fig } from '../../ui/figure'
import { href } from '../../ui/route'
import { findingLink, viewTitle } from './model'
import { Prose } from './say'

export function Findings({ stat, keep }: { stat: SummaryStat; keep: Record<string, string> }) {
  const list = stat.findings ?? []
  if (list.length === 0) return <p class="dim">Nothing stands out in what was recorded.</p>
  return (
    <ol class="findings">
      {list.map((f, i) => {
        const [view, params] = findingLink(f, keep)
        return (
          <li key={i} data-kind={f.kind}>
            <a href={href(view, params)} class="finding">
              <span class="gain">
                {f.gain_ns != null ? (
                  <>
                    <b>
                      <Fig v={f.gain_ns} f={dur} name={`findings.${i}.gain_ns`} />
                    </b>
                    <span class="dim">
                      <Fig v={f.gain_share} f={share} name={`findings.${i}.gain_share`} /> of{' '}
                      {f.phase === 'unknown' ? 'it' : f.phase}
                    </span>
                  </>
                ) : (
                  <span class="dim">no loss by itself</span>
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
  )
}
