// SPDX-License-Identifier: Apache-2.0

// Two runs: key figures side by side, differences in colour, and a sentence made of figures alone.
import type { Run } from '../../api/load'
import type { SummaryPhase, SummaryStat } from '../../api/types'
import { diverge, ink } from '../../lib/color'
import { clean, count, delta, dur, gbps, num, share } from '../../lib/format'
import { Fig } from '../../ui/figure'
import { phaseParts, type PhasePart } from './model'
import { boundWords, Confidence } from './verdict'

type F = (v: number | null | undefined) => string

/**
 * How much b differs from a. less: less is better, more: more is; the colour says which way, the sign how
 * much.
 */
export function Change({
  a,
  b,
  better = 'less',
}: {
  a: number | null | undefined
  b: number | null | undefined
  better?: 'less' | 'more' | 'neither'
}) {
  const text = delta(a, b)
  if (a == null || b == null || a === 0 || text === '–') return <span class="dim">–</span>
  const d = b / a - 1
  // Half or double is the full colour; a difference below 1 % has none.
  const v = Math.abs(d) < 0.01 ? 0 : Math.max(-1, Math.min(1, Math.log2(b / a)))
  const c = diverge(better === 'more' ? -v : v)
  if (better === 'neither' || v === 0)
    return (
      <span class="change" data-v={d}>
        {text}
      </span>
    )
  return (
    <span
      class="change"
      data-v={d}
      style={{ background: c, color: ink(c) }}
      title={d < 0 === (better === 'less') ? 'better' : 'worse'}
    >
      {text}
    </span>
  )
}

interface Row {
  label: string
  f: F
  better: 'less' | 'more' | 'neither'
  field: string
  get: (p: SummaryPhase, s: SummaryStat) => number | null | undefined
}

// Prompts differ in length: what is compared is the time a token.
// Shares are of the steps' calls.
export const perToken = (share: number | null, p: SummaryPhase) => {
  const all = p.call_per_token_ns ?? p.per_token_ns
  return share == null || all == null ? null : share * all
}
const perStep = (p: SummaryPhase) => (p.tokens == null || p.steps === 0 ? null : p.tokens / p.steps)

const figures: Row[] = [
  { label: 't/s', f: num, better: 'more', field: 'tokens_per_s', get: (p) => p.tokens_per_s },
  { label: 'per token', f: dur, better: 'less', field: 'per_token_ns', get: (p) => p.per_token_ns },
  { label: 'p95', f: dur, better: 'less', field: 'per_token_p95_ns', get: (p) => p.per_token_p95_ns },
  { label: 'steps', f: count, better: 'neither', field: 'steps', get: (p) => p.steps },
  { label: 'tokens per step', f: num, better: 'neither', field: '', get: perStep },
  {
    label: 'weight matmul per token',
    f: dur,
    better: 'less',
    field: '',
    get: (p) => perToken(p.matmul_share, p),
  },
  {
    label: 'attention per token',
    f: dur,
    better: 'less',
    field: '',
    get: (p) => perToken(p.attn_share, p),
  },
  {
    label: 'other operators per token',
    f: dur,
    better: 'less',
    field: '',
    get: (p) => perToken(p.other_share, p),
  },
  {
    label: 'outside operators per token',
    f: dur,
    better: 'less',
    field: '',
    get: (p) => perToken(p.outside_operators_share, p),
  },
  {
    label: 'weights read at',
    f: gbps,
    better: 'more',
    field: 'matmul_gb_per_s',
    get: (p) => (p.phase === 'decode' ? p.matmul_gb_per_s : null),
  },
  { label: 'barrier wait', f: share, better: 'less', field: 'wait_share', get: (p) => p.wait_share },
  {
    label: 'off-CPU',
    f: share,
    better: 'less',
    field: 'off_cpu_share',
    get: (p) => p.off_cpu_share,
  },
]

/** Pairs of phases that both runs have, by name; a phase of one run alone stands by itself. */
export function phasePairs(a: SummaryStat, b: SummaryStat): [PhasePart | null, PhasePart | null][] {
  const pa = phaseParts(a)
  const pb = phaseParts(b)
  const out: [PhasePart | null, PhasePart | null][] = pa.map((p) => [
    p,
    pb.find((q) => q.name === p.name) ?? null,
  ])
  for (const q of pb) if (!pa.some((p) => p.name === q.name)) out.push([null, q])
  return out
}

/** A sentence on one phase of two runs, from their figures alone. */
export function compareText(pa: PhasePart, pb: PhasePart, a: string, b: string): string {
  const [x, y] = [pa.ps.tokens_per_s, pb.ps.tokens_per_s]
  if (x == null || y == null || x <= 0 || y <= 0) return `The speed of ${pa.ps.phase} is not known of both.`
  // The sentence is about the faster one: its figures come first, the other's after "against" and "instead
  // of".
  if (x > y) [pa, pb, a, b] = [pb, pa, b, a]
  const [slow, fast] = [Math.min(x, y), Math.max(x, y)]
  const speed =
    fast / slow < 1.01 ? `${b} is as fast as ${a}` : `${b} is ${num(fast / slow)} times as fast as ${a}`
  let text = `${speed} in ${pa.several || pb.several ? pa.title.toLowerCase() : pa.ps.phase}: ${num(fast)} against ${num(slow)} t/s`
  // What changed most of a step's time.
  const changed = (
    [
      ['weight matmul', 'matmul_share'],
      ['attention', 'attn_share'],
      ['other operators', 'other_share'],
      ['time outside operators', 'outside_operators_share'],
    ] as const
  )
    .map(([what, k]) => ({ what, from: perToken(pa.ps[k], pa.ps), to: perToken(pb.ps[k], pb.ps) }))
    .filter((c) => c.from != null && c.to != null)
    .sort((p, q) => Math.abs(q.to! - q.from!) - Math.abs(p.to! - p.from!))
  const most = Math.max(pa.ps.per_token_ns ?? 0, pb.ps.per_token_ns ?? 0)
  if (changed.length > 0 && Math.abs(changed[0].to! - changed[0].from!) > 0.02 * most)
    text += `; ${changed[0].what} per token took ${dur(changed[0].to!)} instead of ${dur(changed[0].from!)}`
  const [ta, tb] = [perStep(pa.ps), perStep(pb.ps)]
  if (ta && tb && Math.abs(tb / ta - 1) > 0.01)
    text += `, in steps of ${num(tb)} tokens instead of ${num(ta)}`
  const [ga, gb] = [pa.ps.matmul_gb_per_s, pb.ps.matmul_gb_per_s]
  if (pa.ps.phase === 'decode' && ga && gb && Math.abs(gb / ga - 1) > 0.02)
    text += `, its weights read at ${num(gb)} instead of ${num(ga)} GB/s`
  return text + '.'
}

/** What two runs tell together that neither tells alone: one machine, the same weights, read at two rates. */
export function limitText(a: SummaryStat, b: SummaryStat, na: string, nb: string): string {
  const same =
    a.run.host !== '' &&
    a.run.host === b.run.host &&
    a.run.cpu === b.run.cpu &&
    a.models?.length === 1 &&
    b.models?.length === 1 &&
    a.models[0].bytes === b.models[0].bytes
  const of = (s: SummaryStat) => s.phases?.find((p) => p.phase === 'decode')?.matmul_gb_per_s
  const threads = (s: SummaryStat) => Math.max(0, ...(s.run.processes ?? []).map((p) => p.threads))
  let [x, y, nx, s, o] = [of(a), of(b), na, a, b]
  if (!same || !x || !y) return ''
  if (x > y) [x, y, nx, s, o] = [y, x, nb, b, a]
  if (y < 1.25 * x || threads(s) === threads(o)) return ''
  return `The same weights were read at ${num(y)} GB/s by ${threads(o)} thread${threads(o) === 1 ? '' : 's'}: at ${num(x)} GB/s ${nx} (${threads(s)} thread${threads(s) === 1 ? '' : 's'}) was not at the limit of this machine's memory.`
}

export const runLabels = (a: Run, b: Run): [string, string] => {
  const x = clean(a.file).replace(/\.pinf$/, '')
  const y = clean(b.file).replace(/\.pinf$/, '')
  return x === y ? [`${x} (left)`, `${y} (right)`] : [x, y]
}

export function Compare({ a, b }: { a: Run; b: Run }) {
  const [sa, sb] = [a.stats.weight, b.stats.weight]
  const [na, nb] = runLabels(a, b)
  const all = phasePairs(sa, sb)
  return (
    <>
      {all.map(
        ([p, q]) =>
          p &&
          q && (
            <p key={p.name} class="comparison">
              {compareText(p, q, na, nb)}
            </p>
          ),
      )}
      {limitText(sa, sb, na, nb) && <p class="comparison more">{limitText(sa, sb, na, nb)}</p>}
      <div class="phases">
        {all.map(([p, q]) => {
          const any = (p ?? q)!
          const alike = p && q && perStep(p.ps) === perStep(q.ps)
          return (
            <div class="table-scroll" key={any.name} data-phase={any.name}>
              <table class="grid against" aria-label={`${any.ps.phase} of both runs`}>
                <thead>
                  <tr>
                    <th class="text">{any.title}</th>
                    <th title={na}>
                      <span class="clip">{na}</span>
                    </th>
                    <th title={nb}>
                      <span class="clip">{nb}</span>
                    </th>
                    <th>difference</th>
                  </tr>
                </thead>
                <tbody>
                  <tr>
                    <td class="text">bound</td>
                    <td class="boundcell">
                      {p ? (
                        <>
                          {boundWords(p.verdict)} <Confidence level={p.verdict?.confidence ?? ''} />
                        </>
                      ) : (
                        '–'
                      )}
                    </td>
                    <td class="boundcell">
                      {q ? (
                        <>
                          {boundWords(q.verdict)} <Confidence level={q.verdict?.confidence ?? ''} />
                        </>
                      ) : (
                        '–'
                      )}
                    </td>
                    <td />
                  </tr>
                  {any.ps.phase === 'prefill' && (
                    <tr>
                      <td class="text">TTFT, mean</td>
                      <td data-run="a">
                        <Fig v={sa.ttft.mean_ns} f={dur} name="ttft.mean_ns" />
                      </td>
                      <td data-run="b">
                        <Fig v={sb.ttft.mean_ns} f={dur} name="ttft.mean_ns" />
                      </td>
                      <td>
                        <Change a={sa.ttft.mean_ns} b={sb.ttft.mean_ns} better={alike ? 'less' : 'neither'} />
                      </td>
                    </tr>
                  )}
                  {figures.map((r) => {
                    const x = p && r.get(p.ps, sa)
                    const y = q && r.get(q.ps, sb)
                    if (x == null && y == null) return null
                    const n = r.field ? `${any.name}.${r.field}` : undefined
                    return (
                      <tr key={r.label}>
                        <td class="text">{r.label}</td>
                        <td data-run="a">
                          <Fig v={x} f={r.f} name={n} />
                        </td>
                        <td data-run="b">
                          <Fig v={y} f={r.f} name={n} />
                        </td>
                        <td>
                          {r.f === share ? <Points a={x} b={y} /> : <Change a={x} b={y} better={r.better} />}
                        </td>
                      </tr>
                    )
                  })}
                </tbody>
              </table>
            </div>
          )
        })}
      </div>
    </>
  )
}

/** The difference of two shares, in percentage points: a part of a part would mislead. */
function Points({ a, b }: { a: number | null | undefined; b: number | null | undefined }) {
  if (a == null || b == null) return <span class="dim">–</span>
  const d = (b - a) * 100
  const v = Math.abs(d) < 0.5 ? 0 : Math.max(-1, Math.min(1, d / 20))
  const c = diverge(v)
  const text = `${d < 0 ? '−' : '+'}${Math.abs(d).toFixed(1)} points`
  if (v === 0)
    return (
      <span class="change" data-v={b - a}>
        {text}
      </span>
    )
  return (
    <span class="change" data-v={b - a} style={{ background: c, color: ink(c) }}>
      {text}
    </span>
  )
}
