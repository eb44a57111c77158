// SPDX-License-Identifier: Apache-2.0

// Where requests lie: one lane a sequence, its requests as spans of prompt and answer.
import type { RequestsRequest } from '../../../api/types'
import { requestKey, type RequestsOfRun } from './side'

/**
 * What a span of time was to its request. unknown: its begin was not seen, so prompt and answer are not told
 * apart.
 */
export type SpanKind = 'prompt' | 'answer' | 'unknown' | 'warmup'

export interface RequestSpan {
  kind: SpanKind
  /** ns after the first request's begin. */
  from: number
  to: number
  r: RequestsRequest
  key: string
}

export interface Lane {
  key: string
  /** Above the first lane of a context, where there are several. */
  context: number | null
  pid: number
  model: number | null
  seq: number
  spans: RequestSpan[]
}

/** A request's spans. Until the first token it is a prompt, then an answer. */
export function spansOf(r: RequestsRequest, begin: number, key: string): RequestSpan[] {
  const at = (kind: SpanKind, from: number, to: number): RequestSpan => ({
    kind,
    from: from - begin,
    to: to - begin,
    r,
    key,
  })
  if (r.warmup) return [at('warmup', r.start_ns, r.end_ns)]
  if (r.ttft_ns == null)
    return [at(r.generated === 0 && r.prompt != null ? 'prompt' : 'unknown', r.start_ns, r.end_ns)]
  const first = r.start_ns + r.ttft_ns
  const out = [at('prompt', r.start_ns, first)]
  if (r.end_ns > first) out.push(at('answer', first, r.end_ns))
  return out
}

/**
 * The lanes of a recording: by process and context in the order of their first requests, then by sequence.
 */
export function lanesOf(s: RequestsOfRun): Lane[] {
  const lanes = new Map<string, Lane>()
  const contexts = new Map<string, number>()
  for (const r of s.q?.requests ?? []) {
    const c = `${r.pid} ${r.ctx}`
    const key = `${c} ${r.seq}`
    let l = lanes.get(key)
    if (!l) {
      if (!contexts.has(c)) contexts.set(c, contexts.size)
      lanes.set(
        key,
        (l = { key, context: contexts.get(c)!, pid: r.pid, model: r.model, seq: r.seq, spans: [] }),
      )
    }
    l.spans.push(...spansOf(r, s.begin, requestKey(s, r)))
  }
  const all = [...lanes.values()].sort((a, b) => a.context! - b.context! || a.seq - b.seq)
  const several = contexts.size > 1
  all.forEach((l, i) => {
    if (!several) l.context = null
    else if (
      i > 0 &&
      `${l.pid} ${l.key.split(' ')[1]}` === `${all[i - 1].pid} ${all[i - 1].key.split(' ')[1]}`
    )
      l.context = null
  })
  return all
}

/**
 * Spans that are seen between two times at so many pixels: of those of one kind within a pixel only the
 * first.
 */
export function visibleSpans(
  spans: RequestSpan[],
  lo: number,
  hi: number,
  width: number,
): { s: RequestSpan; x0: number; x1: number }[] {
  const scale = width / Math.max(hi - lo, 1)
  const last = new Map<SpanKind, number>()
  const out: { s: RequestSpan; x0: number; x1: number }[] = []
  for (const s of spans) {
    if (s.to < lo || s.from > hi) continue
    const x0 = Math.max(0, (s.from - lo) * scale)
    const x1 = Math.min(width, (s.to - lo) * scale)
    const before = last.get(s.kind)
    if (before !== undefined && x1 - before < 1) continue
    last.set(s.kind, Math.max(x1, x0))
    out.push({ s, x0, x1: Math.max(x1, x0 + 1.5) })
  }
  return out
}

/**
 * What ProfTime shows of a click: all of a prompt; of an answer some tokens around the place. ns after the
 * first request's begin.
 */
export function timelineRange(s: RequestSpan, at: number): [number, number] {
  const tokens = 12
  const wide =
    s.kind === 'answer' && s.r.tpot_ns ? Math.min(s.to - s.from, tokens * s.r.tpot_ns) : s.to - s.from
  const from = Math.max(s.from, Math.min(s.to - wide, at - wide / 2))
  const rim = Math.max(wide * 0.03, 1000)
  return [from - rim, from + wide + rim]
}

/**
 * All lanes, and the time that they lie in. A warm-up long before the first request would leave no room for
 * the rest: it is left out.
 */
export function drawnLanes(sides: RequestsOfRun[]): { lanes: Lane[][]; start: number; end: number } {
  let end = 1
  const lanes = sides.map(lanesOf)
  for (const l of lanes.flat()) for (const s of l.spans) end = Math.max(end, s.to)
  let start = 0
  for (const l of lanes.flat()) {
    l.spans = l.spans.filter((s) => s.kind !== 'warmup' || s.from >= -end / 10)
    for (const s of l.spans) start = Math.min(start, s.from)
  }
  return { lanes: lanes.map((list) => list.filter((l) => l.spans.length > 0)), start, end }
}
