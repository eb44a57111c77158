// SPDX-License-Identifier: Apache-2.0

// The verdict on the whole run, where it has several phases: their verdicts, each with its phase's time in
// steps.
import type { SummaryBound, SummaryStat } from '../../api/types'
import { clean, share } from '../../lib/format'
import { Fig } from '../../ui/figure'
import { useTheme } from '../../ui/theme'
import { Prose } from './say'
import { boundWords, Confidence } from './verdict'

const colors: Record<string, [string, string]> = {
  memory: ['#0072b2', '#4ba3db'],
  compute: ['#d55e00', '#f08a3c'],
  wait: ['#e6a817', '#e6c34a'],
  disk: ['#8c5a2b', '#c99a6b'],
  contention: ['#b3261e', '#ff7d72'],
  outside: ['#8a8f98', '#8a8f98'],
}
const grey: [string, string] = ['#b9bfc7', '#59626e']

const what: Record<string, string> = {
  weight_matmul: 'weight matmul',
  attention: 'attention',
  other: 'other operators',
  backends: 'graphs on other backends',
  probes: 'probes of this recording',
  wait: 'barrier wait',
  sleep: 'threads sleep',
  disk: 'disk reads',
  contention: 'CPU contention',
  outside: 'outside operators',
}
/** What a cause's time is bound by, where its name does not say so. */
const by: Partial<Record<SummaryBound, string>> = {
  memory: 'memory-bound: ',
  compute: 'compute-bound: ',
  unknown: 'limit unknown: ',
}

const least = 0.002

export function Whole({ stat }: { stat: SummaryStat }) {
  const dark = useTheme() === 'dark' ? 1 : 0
  const v = stat.run_verdict
  if (!v || (stat.verdicts ?? []).length < 2) return null
  const pieces = v.causes
    .map((c, i) => ({
      ...c,
      i,
      color: (colors[c.bound] ?? grey)[dark],
      label: (by[c.bound] ?? '') + (what[c.what] ?? clean(c.what)),
    }))
    .filter((c) => c.share >= least)
  return (
    <section class="phase whole" aria-label="the whole run" data-whole>
      <div class="verdict" data-bound={v.bound}>
        <div class="what">The whole run</div>
        <p class="sentence">
          <b>{boundWords(v)[0].toUpperCase() + boundWords(v).slice(1)}.</b>{' '}
          <Prose text={v.text} names={v.names} />
        </p>
        {(v.confidence || v.why) && (
          <p class="why dim">
            {v.confidence && (
              <>
                Confidence: <Confidence level={v.confidence} />.{' '}
              </>
            )}
            <Prose text={v.why} names={v.names} />
          </p>
        )}
      </div>
      <div class="split">
        <div
          class="track"
          role="img"
          aria-label={`where the time of all steps goes: ${pieces.map((p) => `${p.label} ${share(p.share)}`).join(', ')}`}
        >
          {pieces.map((p) => (
            <span
              key={p.i}
              style={{ width: `${p.share * 100}%`, background: p.color }}
              title={`${p.label}: ${share(p.share)}`}
            />
          ))}
        </div>
        <div class="legend">
          {pieces.map((p) => (
            <span key={p.i} class="entry">
              <i style={{ background: p.color }} />
              {p.label}{' '}
              <b>
                <Fig v={p.share} f={share} name={`run_verdict.causes.${p.i}.share`} />
              </b>
            </span>
          ))}
        </div>
      </div>
    </section>
  )
}
