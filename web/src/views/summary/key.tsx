// SPDX-License-Identifier: Apache-2.0

// A phase's key figures: throughput, latency percentiles, parts of the machine's peaks, and the steps that
// others disturbed.
import type { RequestsSpread, SummaryRate, SummaryStat, SummaryTTFT } from '../../api/types'
import { clean, count, dur, gbps, gflops, num, plural, share } from '../../lib/format'
import { Fig } from '../../ui/figure'
import { href } from '../../ui/route'
import { phaseParts, type PhasePart } from './model'
import { Name } from './say'

export function Key({ part, stat }: { part: PhasePart; stat: SummaryStat }) {
  const { ps, name } = part
  const decode = ps.phase === 'decode'
  const ttft = stat.ttft
  const late = (ps.async_steps ?? 0) > 0
  const itl = stat.sequences?.itl
  const first = ps === phaseParts(stat)[0].ps
  const withTTFT =
    ps.phase === 'prefill' ||
    (ttft.sequences > 0 && first && !(stat.phases ?? []).some((p) => p.phase === 'prefill'))
  const each = part.ps.step_time
  return (
    <>
      <div class="keys">
        {ps.end_to_end_tokens_per_s != null && (
          <Box label="tokens/s end to end" help="tokens / time, the time between steps included">
            <Fig v={ps.end_to_end_tokens_per_s} f={num} name={`${name}.end_to_end_tokens_per_s`} />
          </Box>
        )}
        <Box
          label={ps.end_to_end_tokens_per_s != null ? 'tokens/s in steps' : 'tokens/s'}
          help={
            late
              ? 'tokens / the time of steps until the host sees their results'
              : 'tokens / the time in steps, without the time between them'
          }
        >
          <Fig v={ps.tokens_per_s} f={num} name={`${name}.tokens_per_s`} />
        </Box>
        {late && (
          <Box
            label="tokens/s by submit time"
            help={`the time of the steps' calls alone, which hand work over and return before it is done${(ps.unseen_results ?? 0) > 0 ? `. The host was not seen to wait for the results of ${count(ps.unseen_results)} of ${count(ps.steps)} steps: tokens/s leaves these out` : ''}`}
          >
            <Fig v={ps.call_tokens_per_s} f={num} name={`${name}.call_tokens_per_s`} />
          </Box>
        )}
        <Box
          label={decode ? 'TPOT, mean' : 'ms per token, mean'}
          help={decode ? 'time per output token of one sequence' : 'time in steps / tokens'}
        >
          <Fig v={ps.per_token_ns} f={dur} name={`${name}.per_token_ns`} />
        </Box>
        <Peak of={ps.bandwidth} f={gbps} name={`${name}.bandwidth`} what="bandwidth" />
        <Peak of={ps.compute} f={gflops} name={`${name}.compute`} what="compute" />
        {ps.mbu != null && (
          <Box
            label="MBU"
            help="model bandwidth utilisation: bytes of weights and KV cache / time / peak bandwidth"
          >
            <Fig v={ps.mbu} f={share} name={`${name}.mbu`} />
          </Box>
        )}
        <Box label="steps">
          <Fig v={ps.steps} f={count} name={`${name}.steps`} />
        </Box>
        <Box label="tokens">
          <Fig v={ps.tokens} f={count} name={`${name}.tokens`} />
        </Box>
      </div>
      <Percentiles
        rows={[
          decode && { label: 'TPOT', of: ps.tpot, n: ps.tpot?.n, unit: 'step', name: `${name}.tpot` },
          !decode && { label: 'step time', of: each, n: each?.n, unit: 'step', name: `${name}.step_time` },
          decode && first && { label: 'ITL', of: itl, n: itl?.n, unit: 'token', name: 'sequences.itl' },
          withTTFT && { label: 'TTFT', of: ttft, n: ttft.sequences, unit: 'request', name: 'ttft' },
        ]}
      />
      {first && (ps.bandwidth ?? ps.compute) && ps.bandwidth?.peak == null && ps.compute?.peak == null && (
        <p class="dim hint">
          No roofline for this machine: run <code>profinfer peaks</code> there once, and{' '}
          <code>profinfer report</code> again, to have % of peak and MBU.
        </p>
      )}
    </>
  )
}

/** A rate with its part of the machine's peak. */
function Peak({
  of,
  f,
  name,
  what,
}: {
  of: SummaryRate | null
  f: (v: number | null | undefined) => string
  name: string
  what: string
}) {
  if (!of) return null
  return (
    <Box
      label={of.peak == null ? what : `${what}, of ${f(of.peak)} peak`}
      help="bytes moved (min) or operations, over the steps' whole time"
    >
      <Fig v={of.achieved} f={f} name={`${name}.achieved`} />
      {of.share_of_peak != null && (
        <span class="part">
          {' '}
          <Fig v={of.share_of_peak} f={share} name={`${name}.share_of_peak`} />
        </span>
      )}
    </Box>
  )
}

interface Row {
  label: string
  of: RequestsSpread | SummaryTTFT | null | undefined
  n: number | undefined
  unit: string
  name: string
}

const titles: Record<string, string> = {
  TPOT: 'time per output token of one sequence, over steps',
  ITL: 'inter-token latency: from one token of a request to its next, the time between steps included',
  TTFT: "time to first token: from the start of a request's first step to the end of the first that asks for its logits",
  'step time': 'duration of a step, until the host sees its results',
}

/** Percentiles: p95 of 20 values or more, p99 of 100 or more. */
function Percentiles({ rows }: { rows: (Row | false)[] }) {
  const shown = rows.filter((r): r is Row => r !== false && r.of != null && (r.n ?? 0) > 0)
  if (shown.length === 0) return null
  const cols = [
    ['p50', 'p50_ns'],
    ['p95', 'p95_ns'],
    ['p99', 'p99_ns'],
    ['max', 'max_ns'],
  ] as const
  return (
    <table class="percentiles" aria-label="latency percentiles">
      <thead>
        <tr>
          <th class="text">latency</th>
          {cols.map(([c]) => (
            <th key={c}>{c}</th>
          ))}
          <th class="text">of</th>
        </tr>
      </thead>
      <tbody>
        {shown.map((r) => (
          <tr key={r.label} title={titles[r.label]}>
            <td class="text">{r.label}</td>
            {cols.map(([c, k]) => (
              <td key={c} title={r.of![k] == null ? 'too few values' : undefined}>
                <Fig v={r.of![k]} f={dur} name={`${r.name}.${k}`} />
              </td>
            ))}
            <td class="text dim">{plural(r.n ?? 0, r.unit)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

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
