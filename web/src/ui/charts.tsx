// SPDX-License-Identifier: Apache-2.0

// Small drawings in SVG: distributions, bars by layer, parts of a whole.
import type { RequestsDist } from '../api/types'
import { clean, count, dur, plural, share } from '../lib/format'
import { median, outlier } from '../lib/median'
import { axisFmt, unitOf } from '../lib/units'

/** Round values between lo and hi for an axis of times, in powers or linear. */
function timeTicks(lo: number, hi: number, log: boolean): number[] {
  const out: number[] = []
  if (log) {
    for (let d = 10 ** Math.floor(Math.log10(Math.max(lo, 0.1))); d <= hi; d *= 10) {
      for (const m of hi / lo > 300 ? [1] : hi / lo > 12 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9])
        if (d * m >= lo && d * m <= hi) out.push(d * m)
    }
    if (out.length >= 2) return out
  }
  const step = 10 ** Math.floor(Math.log10((hi - lo) / 3 || 1))
  const wide = [1, 2, 5, 10].map((m) => m * step).find((s) => (hi - lo) / s <= 6)!
  for (let v = Math.ceil(lo / wide) * wide; v <= hi; v += wide) out.push(v)
  return out
}

/** A tick with its unit: "400 µs", "1 ms". */
const tick = (ns: number): string =>
  dur(ns)
    .replace(/(\.\d*?)0+(?= )/, '$1')
    .replace(/\.(?= )/, '')

export interface DistSeries {
  name: string
  color: string
  dist: RequestsDist
}

/**
 * Distributions as histograms over a logarithmic axis, one above the other, with the quantiles as lines.
 * Bars are shares of the values, so that runs of different lengths compare.
 */
export function Histogram({
  series,
  what,
  unit: of = 'calls',
  width = 400,
  height = 96,
}: {
  series: DistSeries[]
  what: string
  unit?: string
  width?: number
  height?: number
}) {
  const lo = Math.min(...series.map((s) => Math.max(s.dist.min_ns, 1)))
  const hi = Math.max(...series.map((s) => Math.max(s.dist.max_ns, 2)))
  const from = lo / 1.03
  const to = Math.max(hi * 1.03, from * 1.2)
  const left = 16
  const w = width - left - 16
  const X = (v: number) => left + (Math.log(Math.max(v, from) / from) / Math.log(to / from)) * w
  const ticks = timeTicks(from, to, true)
  const total = series.length * height + 30
  return (
    <figure class="mini">
      <svg
        class="chart"
        viewBox={`0 0 ${width} ${total}`}
        width={width}
        height={total}
        role="img"
        aria-label={series
          .map(
            (s) =>
              `${s.name || what}: ${count(s.dist.n)} values from ${dur(s.dist.min_ns)} to ${dur(s.dist.max_ns)}, median ${dur(s.dist.p50_ns)}, p95 ${dur(s.dist.p95_ns)}`,
          )
          .join('; ')}
      >
        {series.map((s, k) => {
          const bars = bins(s.dist, X, left, w)
          const top = Math.max(...bars.map((b) => b.n), 1)
          const y0 = (k + 1) * height
          const H = height - 28
          return (
            <g key={k}>
              <text x={left} y={y0 - height + 10} class="t">
                {s.name}
                {s.name ? ': ' : ''}
                {plural(s.dist.n, of.replace(/s$/, ''))}; highest bar {share(top / s.dist.n)}
              </text>
              {bars.map((b) => (
                <rect
                  key={b.i}
                  x={b.x}
                  y={y0 - (b.n / top) * H}
                  width={Math.max(0.8, b.w - 0.5)}
                  height={(b.n / top) * H}
                  fill={s.color}
                >
                  <title>{`${dur(b.lo)} to ${dur(b.hi)}: ${count(b.n)} ${of}, ${share(b.n / s.dist.n)}`}</title>
                </rect>
              ))}
              <Marks d={s.dist} X={X} left={left} right={left + w} y={y0} h={H} />
              <line x1={left} x2={left + w} y1={y0} y2={y0} class="ax" />
            </g>
          )
        })}
        {fit(ticks, X, 44).map((t) => (
          <g key={t}>
            <line x1={X(t)} x2={X(t)} y1={total - 30} y2={total - 26} class="ax" />
            <text x={X(t)} y={total - 16} class="t mid">
              {tick(t)}
            </text>
          </g>
        ))}
        <text x={left + w / 2} y={total - 4} class="t mid">
          {what}, logarithmic
        </text>
      </svg>
    </figure>
  )
}

/** The median and the 95th percentile as lines. Names that would touch stand together. */
function Marks({
  d,
  X,
  left,
  right,
  y,
  h,
}: {
  d: RequestsDist
  X: (v: number) => number
  left: number
  right: number
  y: number
  h: number
}) {
  const [a, b] = [X(d.p50_ns), X(d.p95_ns)]
  const names: [string, number, string][] =
    b - a < 26
      ? [['p50 p95', Math.min(Math.max(a, left), right - 44), 't']]
      : [
          ['p50', Math.max(a - 10, left), 't'],
          ['p95', Math.min(b + 10, right), 't end'],
        ]
  return (
    <g>
      {[a, b].map((x, i) => (
        <line key={i} x1={x} x2={x} y1={y - h - 2} y2={y} class="q" />
      ))}
      {names.map(([n, x, c]) => (
        <text key={n} x={x} y={y - h - 4} class={c}>
          {n}
        </text>
      ))}
    </g>
  )
}

/** Ticks without those that would touch the one before. */
function fit(ticks: number[], X: (v: number) => number, least: number): number[] {
  let last = -Infinity
  return ticks.filter((t) => X(t) - last >= least && ((last = X(t)), true))
}

/** A distribution's buckets as bars of at least 3 pixels: narrower ones are joined. */
function bins(d: RequestsDist, X: (v: number) => number, left: number, w: number) {
  const out: { i: number; lo: number; hi: number; x: number; w: number; n: number }[] = []
  if (d.zeros > 0) out.push({ i: -1, lo: 0, hi: 0, x: left, w: 3, n: d.zeros })
  let lo = 0,
    n = 0,
    open = false
  for (let i = 0; i < d.counts.length; i++) {
    const a = d.lo_ns * d.ratio ** i
    if (!open) {
      lo = a
      n = 0
      open = true
    }
    n += d.counts[i]
    const hi = a * d.ratio
    if (X(hi) - X(lo) >= 3 || i === d.counts.length - 1) {
      if (n > 0) {
        const x = Math.max(left, X(lo))
        out.push({ i, lo, hi, x, w: Math.max(1, Math.min(left + w, X(hi)) - x), n })
      }
      open = false
    }
  }
  return out
}

/** The share of values up to each, one line a series. */
export function Ecdf({
  series,
  what,
  width = 460,
  height = 190,
}: {
  series: DistSeries[]
  what: string
  width?: number
  height?: number
}) {
  const from = Math.min(...series.map((s) => Math.max(s.dist.min_ns, 1))) / 1.05
  const to = Math.max(Math.max(...series.map((s) => s.dist.max_ns)) * 1.05, from * 1.2)
  const left = 40,
    top = 8,
    bottom = 34
  const w = width - left - 10
  const h = height - top - bottom
  const X = (v: number) => left + (Math.log(Math.max(v, from) / from) / Math.log(to / from)) * w
  const Y = (p: number) => top + (1 - p) * h
  return (
    <figure class="mini">
      <svg
        class="chart"
        viewBox={`0 0 ${width} ${height}`}
        width={width}
        height={height}
        role="img"
        aria-label={
          `${what}: share of values up to a time. ` +
          series.map((s) => `${s.name} median ${dur(s.dist.p50_ns)}, p95 ${dur(s.dist.p95_ns)}`).join('; ')
        }
      >
        {[0, 0.25, 0.5, 0.75, 0.95, 1].map((p) => (
          <g key={p}>
            <line x1={left} x2={left + w} y1={Y(p)} y2={Y(p)} class="grid" />
            {p !== 1 && (
              <text x={left - 5} y={Y(p) + 4} class="t end">
                {Math.round(p * 100)} %
              </text>
            )}
          </g>
        ))}
        {series.map((s, k) => {
          let seen = s.dist.zeros
          let path = `M${X(from)},${Y(seen / s.dist.n)}`
          s.dist.counts.forEach((c, i) => {
            if (!c) return
            const x = X(
              Math.min(Math.max(s.dist.lo_ns * s.dist.ratio ** (i + 1), s.dist.min_ns), s.dist.max_ns),
            )
            path += `H${x.toFixed(1)}`
            seen += c
            path += `V${Y(seen / s.dist.n).toFixed(1)}`
          })
          return (
            <path
              key={k}
              d={path + `H${left + w}`}
              fill="none"
              stroke={s.color}
              stroke-width="1.6"
              stroke-dasharray={k ? '5 3' : undefined}
            />
          )
        })}
        <line x1={left} x2={left + w} y1={Y(0)} y2={Y(0)} class="ax" />
        {fit(timeTicks(from, to, true), X, 48).map((t) => (
          <g key={t}>
            <line x1={X(t)} x2={X(t)} y1={Y(0)} y2={Y(0) + 4} class="ax" />
            <text x={X(t)} y={Y(0) + 15} class="t mid">
              {tick(t)}
            </text>
          </g>
        ))}
        <text x={left + w / 2} y={height - 4} class="t mid">
          {what}, logarithmic
        </text>
      </svg>
    </figure>
  )
}

export interface LayerMean {
  layer: number
  mean: number
  max: number
}

/**
 * Mean time by layer as bars from 0; layers far from the median are marked. Two runs stand beside each other.
 */
export function LayerBars({
  series,
  width = 400,
  height = 120,
}: {
  series: { name: string; color: string; layers: LayerMean[] }[]
  width?: number
  height?: number
}) {
  const all = series.flatMap((s) => s.layers)
  const n = Math.max(...all.map((l) => l.layer)) + 1
  const top = Math.max(...all.map((l) => l.mean)) * 1.08 || 1
  const unit = unitOf('time', [top])
  const fmt = axisFmt(unit)
  const left = 44,
    bottom = 30
  const w = width - left - 6
  const h = height - bottom - 6
  const step = w / n
  const wide = Math.max(0.8, (step / series.length) * 0.8)
  const ticks = timeTicks(0, top, false)
  const each = Math.max(1, Math.ceil(26 / step))
  return (
    <figure class="mini">
      <svg
        class="chart"
        viewBox={`0 0 ${width} ${height}`}
        width={width}
        height={height}
        role="img"
        aria-label={`mean time by layer, ${n} layers, from ${dur(Math.min(...all.map((l) => l.mean)))} to ${dur(Math.max(...all.map((l) => l.mean)))}`}
      >
        {ticks.map((t) => (
          <g key={t}>
            <line
              x1={left}
              x2={left + w}
              y1={6 + h - (t / top) * h}
              y2={6 + h - (t / top) * h}
              class="grid"
            />
            <text x={left - 4} y={10 + h - (t / top) * h} class="t end">
              {fmt(t)}
            </text>
          </g>
        ))}
        {series.map((s, k) => {
          const med = median(s.layers.map((l) => l.mean))
          return s.layers.map((l) => {
            const out = outlier(l.mean, med)
            const x = left + l.layer * step + (step - wide * series.length) / 2 + k * wide
            return (
              <g key={l.layer}>
                <rect
                  x={x}
                  y={6 + h - (l.mean / top) * h}
                  width={wide}
                  height={Math.max(0, (l.mean / top) * h)}
                  fill={s.color}
                  opacity={out ? 1 : 0.72}
                >
                  <title>{`${s.name ? s.name + ', ' : ''}layer ${l.layer}: ${dur(l.mean)} on average, longest ${dur(l.max)}${out ? ', ' + out : ''}`}</title>
                </rect>
                {out && <path d={`M${x + wide / 2 - 3},${2 + h - (l.mean / top) * h}h6l-3,4z`} class="out" />}
              </g>
            )
          })
        })}
        <line x1={left} x2={left + w} y1={6 + h} y2={6 + h} class="ax" />
        {Array.from({ length: Math.ceil(n / each) }, (_, i) => i * each).map((l) => (
          <text key={l} x={left + (l + 0.5) * step} y={h + 18} class="t mid">
            {l}
          </text>
        ))}
        <text x={left + w / 2} y={height - 2} class="t mid">
          layer
        </text>
        <text x={2} y={12} class="t">
          {unit.name}
        </text>
      </svg>
    </figure>
  )
}

export interface Part {
  name: string
  value: number
  color: string
}

/** Parts of a whole as one bar. of is the value that the full width stands for. */
export function StackBar({
  parts,
  of,
  thin,
  label,
}: {
  parts: Part[]
  of: number
  thin?: boolean
  label: string
}) {
  return (
    <div
      class={'stack' + (thin ? ' thin' : '')}
      role="img"
      aria-label={`${label}: ${parts.map((p) => `${p.name} ${dur(p.value)}`).join(', ')}`}
      title={`${label}\n${parts.map((p) => `${p.name} ${dur(p.value)} (${share(of > 0 ? p.value / of : 0)})`).join('\n')}`}
    >
      {parts.map((p) => (
        <span
          key={p.name}
          style={{
            width: `${of > 0 ? Math.max(0, Math.min(100, (p.value / of) * 100)) : 0}%`,
            background: p.color,
          }}
        />
      ))}
    </div>
  )
}

/** A bar before a figure, of a part of the largest one's. */
export function Meter({ part }: { part: number }) {
  return (
    <span class="meter-box" aria-hidden="true">
      <span class="meter" style={{ width: `${Math.max(0, Math.min(1, part)) * 56}px` }} />
    </span>
  )
}

/** A name that nobody vouches for, cut to its cell; whole for whoever points at it. */
export function Name({ text, class: c }: { text: string; class?: string }) {
  const t = clean(text)
  return (
    <bdi class={'clip name ' + (c ?? '')} title={t}>
      {t}
    </bdi>
  )
}
