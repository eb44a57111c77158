// SPDX-License-Identifier: Apache-2.0

// One recording's requests, and what tables and lanes call them.
import type { Run } from '../../../api/load'
import type { RequestsRequest, RequestsSequences, Series } from '../../../api/types'
import { clean, count, dur, parameterCount, plural } from '../../../lib/format'

/** One recording's requests. */
export interface RequestsOfRun {
  run: Run
  index: number
  /** What the recording is called, where there are two. */
  name: string
  q: RequestsSequences | null
  series: Series
  /** Those that are no warm-ups. */
  list: RequestsRequest[]
  /** Begin of the first request, ns. */
  begin: number
}

/** What a request is, in a line. */
export function describeRequest(r: RequestsRequest): string {
  const out: string[] = [`${r.warmup ? 'warm-up' : `request ${count(r.id)}`}, sequence ${count(r.seq)}`]
  if (r.prompt != null)
    out.push(`prompt of ${plural(r.prompt, 'token')}${r.cached ? ` behind ${count(r.cached)} cached` : ''}`)
  else out.push('its begin was not seen')
  if (r.ttft_ns != null) out.push(`TTFT ${dur(r.ttft_ns)}`)
  if (r.generated != null)
    out.push(
      `${r.at_least ? 'at least ' : ''}${plural(r.generated, 'token')}${r.tpot_ns != null ? `, one each ${dur(r.tpot_ns)}` : ''}`,
    )
  if (r.rounds != null)
    out.push(`${count(r.accepted)} of ${count((r.drafted ?? 0) - (r.unseen ?? 0))} drafted tokens accepted`)
  return out.join('; ')
}

/** A request's place in the address and in the table. */
export const requestKey = (s: RequestsOfRun, r: RequestsRequest): string =>
  (s.name ? s.index + '/' : '') + r.id

/** A model in few words: "3.41 M f16"; empty where it is not known. */
export function shortModel(s: RequestsOfRun, model: number | null): string {
  const m = model == null ? null : s.run.stats.weight.models?.[model]
  return m ? clean(`${parameterCount(m.parameters)}${m.types[0] ? ' ' + m.types[0].type : ''}`) : ''
}
