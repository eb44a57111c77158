// SPDX-License-Identifier: Apache-2.0

// One phase: what bounds it, how sure that is, its figures, where its time goes, and what the verdict rests
// on.
import type { SummaryBound, SummaryEvidence, SummaryStat, SummaryVerdict } from '../../api/types'
import { bytes, clean, count, dur, gbps, gflops, intensity, num, share } from '../../lib/format'
import { Fig } from '../../ui/figure'
import { Split, Threads } from './bars'
import { phaseParts, type PhasePart } from './model'
import { Prose } from './say'

const words: Record<SummaryBound, string> = {
  memory: 'memory-bound',
  compute: 'compute-bound',
  wait: 'bound by waiting',
  disk: 'bound by the disk',
  contention: 'bound by interference',
  outside: 'bound outside operators',
  mixed: 'bound by several things',
  unknown: 'what bounds it is not known',
  '': 'what bounds it is not known',
}

const short: Record<SummaryBound, string> = {
  memory: 'memory',
  compute: 'compute',
  wait: 'waiting',
  disk: 'disk',
  contention: 'interference',
  outside: 'outside operators',
  mixed: 'several',
  unknown: 'not known',
  '': '',
}

const classes: Record<string, string> = {
  weight_matmul: 'products with weights',
  attention: 'attention itself',
  other: 'other operators',
}

/** The verdict in as few words as it can be said. */
export function boundWords(v: SummaryVerdict | null): string {
  if (!v) return words.unknown
  if (v.bound === 'unknown' && v.among.length > 1)
    return v.among.map((b) => short[b]).join(' or ') + ', not told apart'
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
    return `in ${classes[most.what]}, near neither limit`
  return words[v.bound]
}

const levels = ['low', 'medium', 'high']

export function Sure({ sure }: { sure: SummaryVerdict['confidence'] }) {
  const n = levels.indexOf(sure) + 1
  if (n === 0) return null
  return (
    <span class="sure" title={`how sure: ${sure}`}>
      <span aria-hidden="true">
        {'●'.repeat(n)}
        {'○'.repeat(3 - n)}
      </span>{' '}
      {sure}
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
              How sure: <Sure sure={v.confidence} />.{' '}
            </>
          )}
          <Prose text={v.why} names={v.names} />
        </p>
      )}
    </div>
  )
}

/** Key figures of a phase. */
export function Key({ part, stat }: { part: PhasePart; stat: SummaryStat }) {
  const { ps, name } = part
  const decode = ps.phase === 'decode'
  const ttft = stat.ttft
  const late = (ps.async_steps ?? 0) > 0
  return (
    <div class="keys">
      <Box
        label="tokens/s"
        help={
          late
            ? 'tokens / the time from steps’ begins to when their results were there'
            : 'tokens / the time in steps'
        }
      >
        <Fig v={ps.tokens_per_s} f={num} name={`${name}.tokens_per_s`} />
      </Box>
      <Box
        label={decode ? 'TPOT, mean' : 'per token'}
        help={decode ? 'time a token of one sequence' : 'time in steps / tokens'}
      >
        <Fig v={ps.per_token_ns} f={dur} name={`${name}.per_token_ns`} />
      </Box>
      {ps.per_token_p95_ns != null && (
        <Box label={decode ? 'TPOT, p95' : 'p95'} help="over steps, within 1 %">
          <Fig v={ps.per_token_p95_ns} f={dur} name={`${name}.per_token_p95_ns`} />
        </Box>
      )}
      {late && (
        <Box
          label="tokens/s, submit only"
          help={`the steps’ calls alone: they hand work over and return before it is done${(ps.unseen_results ?? 0) > 0 ? `; of ${count(ps.unseen_results)} of ${count(ps.steps)} steps nobody was seen to wait for the results: left out of tokens/s` : ''}`}
        >
          <Fig v={ps.call_tokens_per_s} f={num} name={`${name}.call_tokens_per_s`} />
        </Box>
      )}
      {(ps.phase === 'prefill' ||
        (ttft.sequences > 0 &&
          ps === phaseParts(stat)[0].ps &&
          !(stat.phases ?? []).some((p) => p.phase === 'prefill'))) && (
        <Box
          label={ttft.sequences > 1 ? `TTFT, mean of ${ttft.sequences}` : 'TTFT'}
          help="from the start of a sequence's first step to the end of the first that asks for its logits"
        >
          <Fig v={ttft.mean_ns} f={dur} name="ttft.mean_ns" />
        </Box>
      )}
      <Box label="steps">
        <Fig v={ps.steps} f={count} name={`${name}.steps`} />
      </Box>
      <Box label="tokens">
        <Fig v={ps.tokens} f={count} name={`${name}.tokens`} />
      </Box>
    </div>
  )
}

function Box({
  label,
  help,
  children,
}: {
  label: string
  help?: string
  children: preact.ComponentChildren
}) {
  return (
    <div class="key" title={help}>
      <div class="v">{children}</div>
      <div class="dim">{label}</div>
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
      <Split part={part} />
      <Threads part={part} stat={stat} />
    </section>
  )
}
