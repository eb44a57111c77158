// SPDX-License-Identifier: Apache-2.0

// One phase: what bounds it, the confidence in that, its figures, where its time goes, and what the verdict rests
// on.
import type { SummaryBound, SummaryEvidence, SummaryStat, SummaryVerdict } from '../../api/types'
import { bytes, clean, count, dur, gbps, gflops, intensity, num, share } from '../../lib/format'
import { Fig } from '../../ui/figure'
import { Split, Threads } from './bars'
import { Disturbed, Key } from './key'
import type { PhasePart } from './model'
import { Prose } from './say'

const words: Record<SummaryBound, string> = {
  memory: 'memory-bound',
  compute: 'compute-bound',
  wait: 'limited by barrier wait',
  disk: 'disk-bound',
  contention: 'limited by CPU contention',
  outside: 'limited outside operators',
  mixed: 'no single bottleneck',
  unknown: 'bottleneck unknown',
  '': 'bottleneck unknown',
}

const short: Record<SummaryBound, string> = {
  memory: 'memory',
  compute: 'compute',
  wait: 'barrier wait',
  disk: 'disk',
  contention: 'CPU contention',
  outside: 'outside operators',
  mixed: 'several',
  unknown: 'unknown',
  '': '',
}

const classes: Record<string, string> = {
  weight_matmul: 'weight matmul',
  attention: 'attention',
  other: 'other operators',
}

/** The verdict in as few words as it can be said. */
export function boundWords(v: SummaryVerdict | null): string {
  if (!v) return words.unknown
  if (v.bound === 'unknown' && v.among.length > 1)
    return v.among.map((b) => short[b]).join(' or ') + ', cannot be separated'
  if (v.bound === 'mixed') {
    const known = v.among.filter((b) => b !== 'unknown').map((b) => short[b])
    if (known.length === 0) return words.mixed
    return (known.length < v.among.length ? 'in part ' : '') + known.join(' and ')
  }
  const most = v.causes[0]
  const need = (n: string) => v.evidence.find((e) => e.name === n)?.value ?? 1
  // Known is what takes the time, and that it is neither of the two.
  if (
    v.bound === 'unknown' &&
    most?.share >= 0.5 &&
    need('arithmetic_need') <= 0.5 &&
    need('reading_need') <= 0.5 &&
    classes[most.what]
  )
    return `mostly ${classes[most.what]}, near neither the memory nor the compute peak`
  return words[v.bound]
}

export function Sure({ sure }: { sure: SummaryVerdict['confidence'] }) {
  if (!sure) return null
  return (
    <span class="sure">
      <span class="dim">confidence:</span> {sure}
    </span>
  )
}

export function Headline({ part }: { part: PhasePart }) {
  const v = part.verdict
  return (
    <div class="verdict" data-bound={v?.bound}>
      <div class="what">{part.title}</div>
      <h2 class="bound">
        {(v?.bound === 'memory' || v?.bound === 'compute') && v.confidence !== 'high' && (
          <span class="hedge">{v.confidence === 'medium' ? 'most likely ' : 'perhaps '}</span>
        )}
        {boundWords(v)}
      </h2>
      <p class="sentence">{v ? <Prose text={v.text} names={v.names} /> : 'No verdict was computed.'}</p>
      {v && (v.confidence || v.why) && (
        <p class="why dim">
          {v.confidence && (
            <>
              <Sure sure={v.confidence} />.{' '}
            </>
          )}
          <Prose text={v.why} names={v.names} />
        </p>
      )}
    </div>
  )
}

const units: Record<string, (v: number | null | undefined) => string> = {
  share,
  'tokens/s': (v) => `${num(v)} tokens/s`,
  'GB/s': gbps,
  'GFLOP/s': gflops,
  'FLOP/byte': intensity,
  ns: dur,
  B: bytes,
}

export const value = (e: SummaryEvidence) =>
  units[e.unit] ?? ((v: number | null | undefined) => (v == null ? '–' : `${count(v)} ${clean(e.unit)}`))

export function EvidenceTable({ part }: { part: PhasePart }) {
  const list = part.verdict?.evidence ?? []
  if (list.length === 0) return null
  return (
    <table class="evidence" aria-label={`evidence for ${part.ps.phase}`}>
      <tbody>
        {list.map((e, i) => (
          <tr key={e.name}>
            <td>
              <Fig v={e.value} f={value(e)} name={`verdicts.${part.at}.evidence.${i}.value`} />
            </td>
            <td>{clean(e.text)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

/** A phase's panel. */
export function Phase({ part, stat }: { part: PhasePart; stat: SummaryStat }) {
  return (
    <section class="phase" data-phase={part.name} aria-label={part.title}>
      <Headline part={part} />
      <Key part={part} stat={stat} />
      <Disturbed part={part} />
      <Split part={part} />
      <Threads part={part} stat={stat} />
    </section>
  )
}
