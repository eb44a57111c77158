// SPDX-License-Identifier: Apache-2.0

// One phase: what bounds it, with confidence; its figures, where its time goes, and what the verdict rests
// on.
import type { SummaryBound, SummaryEvidence, SummaryStat, SummaryVerdict } from '../../api/types'
import { bytes, clean, count, dur, gbps, gflops, intensity, num, share } from '../../lib/format'
import { Fig } from '../../ui/figure'
import { Split, Threads } from './bars'
import { Disturbed } from './disturbed'
import { phaseParts, type PhasePart } from './model'
import { Prose } from './say'

const words: Record<SummaryBound, string> = {
  memory: 'memory-bound',
  compute: 'compute-bound',
  wait: 'bound by barrier wait',
  disk: 'disk-bound',
  contention: 'bound by CPU contention',
  outside: 'bound outside operators',
  mixed: 'no single bottleneck',
  unknown: 'bottleneck not known',
  '': 'bottleneck not known',
}

const short: Record<SummaryBound, string> = {
  memory: 'memory',
  compute: 'compute',
  wait: 'barrier wait',
  disk: 'disk',
  contention: 'CPU contention',
  outside: 'outside operators',
  mixed: 'several',
  unknown: 'not known',
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
    return v.among.map((b) => short[b]).join(' or ') + ', not separable'
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
    return `mostly ${classes[most.what]}, near neither peak`
  return words[v.bound]
}

/** How far a verdict can be trusted, in a word. */
export const Confidence = ({ level }: { level: SummaryVerdict['confidence'] }) =>
  level ? (
    <span class="confidence" data-confidence={level}>
      {level}
    </span>
  ) : null

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
              Confidence: <Confidence level={v.confidence} />.{' '}
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
      {ps.end_to_end_tokens_per_s != null && (
        <Box
          label="t/s end to end"
          help="tokens per second: tokens / time, the time between steps of an answer included"
        >
          <Fig v={ps.end_to_end_tokens_per_s} f={num} name={`${name}.end_to_end_tokens_per_s`} />
        </Box>
      )}
      <Box
        label={ps.end_to_end_tokens_per_s != null ? 't/s in steps' : 't/s'}
        help={
          late
            ? 'tokens per second: tokens / time from the begin of a step to when the host saw its results'
            : 'tokens per second: tokens / time in steps'
        }
      >
        <Fig v={ps.tokens_per_s} f={num} name={`${name}.tokens_per_s`} />
      </Box>
      {decode && ps.tpot ? (
        <Percentiles
          word="TPOT"
          help="time per output token: time of a decode step per token of one sequence"
          s={ps.tpot}
          name={`${name}.tpot`}
        />
      ) : (
        <Box label={decode ? 'TPOT, mean' : 'per token'} help="time in steps / tokens">
          <Fig v={ps.per_token_ns} f={dur} name={`${name}.per_token_ns`} />
        </Box>
      )}
      {late && (
        <Box
          label="t/s by submit time"
          help={`the calls of the steps alone, which return before a device is done${(ps.unseen_results ?? 0) > 0 ? `; of ${count(ps.unseen_results)} of ${count(ps.steps)} steps no wait for the results was seen: left out of t/s` : ''}`}
        >
          <Fig v={ps.call_tokens_per_s} f={num} name={`${name}.call_tokens_per_s`} />
        </Box>
      )}
      {(ps.phase === 'prefill' ||
        (ttft.sequences > 0 &&
          ps === phaseParts(stat)[0].ps &&
          !(stat.phases ?? []).some((p) => p.phase === 'prefill'))) && (
        <Percentiles
          word="TTFT"
          help="time to first token: from the begin of a request's first step to when the logits of its prompt are there; queueing excluded"
          s={ttft}
          name="ttft"
          n={ttft.sequences}
        />
      )}
      <OfPeak part={part} />
      {ps.mbu != null && (
        <Box
          label="MBU"
          help="model bandwidth utilisation: bytes of weights and KV cache / time of the steps / peak bandwidth"
        >
          <Fig v={ps.mbu} f={share} name={`${name}.mbu`} />
        </Box>
      )}
      {decode && stat.sequences?.itl && (
        <Percentiles
          word="ITL"
          help="inter-token latency: time from one token of a request to the next"
          s={stat.sequences.itl}
          name="sequences.itl"
        />
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

interface Spread {
  mean_ns: number | null
  p50_ns: number | null
  p95_ns: number | null
  p99_ns: number | null
}

/** What is known of a latency's spread; few values have no percentiles. */
function Percentiles({
  word,
  help,
  s,
  name,
  n,
}: {
  word: string
  help: string
  s: Spread
  name: string
  n?: number
}) {
  if (n === 1 || s.p50_ns == null)
    return (
      <Box label={n === 1 ? word : `${word}, mean`} help={help}>
        <Fig v={s.mean_ns ?? s.p50_ns} f={dur} name={`${name}.${s.mean_ns != null ? 'mean' : 'p50'}_ns`} />
      </Box>
    )
  const of = n ? ` of ${n}` : ''
  return (
    <>
      {(['p50', 'p95', 'p99'] as const).map((p) =>
        s[`${p}_ns`] == null ? null : (
          <Box
            key={p}
            label={`${word} ${p}${p === 'p50' ? of : ''}`}
            help={`${help}; ${p === 'p50' ? 'median' : p}, within 1 %`}
          >
            <Fig v={s[`${p}_ns`]} f={dur} name={`${name}.${p}_ns`} />
          </Box>
        ),
      )}
    </>
  )
}

/** How much of the machine's peak is reached, by what bounds the phase; a hint where no peak is known. */
function OfPeak({ part }: { part: PhasePart }) {
  const { ps, name, verdict } = part
  const compute = verdict?.bound === 'compute' || (verdict?.bound !== 'memory' && ps.phase !== 'decode')
  const r = compute ? ps.compute : ps.bandwidth
  if (!r) return null
  const at = compute ? 'compute' : 'bandwidth'
  const rate = compute ? gflops : gbps
  if (r.share_of_peak == null)
    return (
      <Box
        label={compute ? 'compute' : 'bandwidth'}
        help="Peaks of this machine are not measured: run `profinfer peaks` on it, then stat or report again."
      >
        <Fig v={r.achieved} f={rate} name={`${name}.${at}.achieved`} />
        <span class="hint">
          of peak: run <code>profinfer peaks</code>
        </span>
      </Box>
    )
  return (
    <Box
      label={`of peak ${compute ? 'compute' : 'bandwidth'}`}
      help={`${rate(r.achieved)} of ${rate(r.peak)}, over the whole time of the steps`}
    >
      <Fig v={r.share_of_peak} f={share} name={`${name}.${at}.share_of_peak`} />
    </Box>
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
      <Disturbed part={part} />
      <Split part={part} />
      <Threads part={part} stat={stat} />
    </section>
  )
}
