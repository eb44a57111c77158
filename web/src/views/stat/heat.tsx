// SPDX-License-Identifier: Apache-2.0

// Mean times by weight and layer, as a map: where a layer differs from the others, or two runs from each
// other.
import { useState } from 'preact/hooks'
import type { SeriesRow, Series } from '../../api/types'
import { diverge, ink } from '../../lib/color'
import { clean, delta, dur, named } from '../../lib/format'
import { median } from '../../lib/median'
import { runNames, seriesOf, type TabContext } from './context'

const maxRows = 60

export function HeatMap({ ctx }: { ctx: TabContext }) {
  const [at, setAt] = useState('')
  const names = runNames(ctx)
  const rowsOf = (s: Series | null) =>
    (seriesOf(s, ctx)?.weight ?? []).filter((r) => r.layers && r.layers.length > 1)
  const ra = rowsOf(ctx.sa)
  const rb = ctx.sb ? rowsOf(ctx.sb) : null
  if (ra.length === 0) return null
  const rows = ra.slice(0, maxRows)
  const layers = [...new Set(rows.flatMap((r) => r.layers!.map((l) => l.layer)))].sort((x, y) => x - y)
  const left = 168
  const cell = Math.max(3, Math.min(34, Math.floor(1000 / layers.length)))
  const h = 17
  const width = left + cell * layers.length + 64
  const every = Math.max(1, Math.ceil(22 / cell))
  const other = (r: SeriesRow) =>
    rb?.find((x) => x.key === r.key && (x.type === r.type || rb.filter((y) => y.key === r.key).length === 1))
  return (
    <section>
      <h2>Mean time per call, by layer</h2>
      <p class="dim">
        {rb
          ? `Colour: ${names[1]} against ${names[0]}, blue faster, red slower; full at 25 %.`
          : 'Colour: against the median over the row’s layers, blue less, red more; full at 25 %. At the right the median.'}{' '}
        Figures: percent, from 10 on. Rows by time, only what runs in several layers
        {ra.length > maxRows ? `; the first ${maxRows} of ${ra.length}` : ''}.{' '}
        <span class="readout" aria-live="polite">
          {at}
        </span>
      </p>
      <div class="table-scroll wide">
        <svg
          class="chart heat"
          width={width}
          height={rows.length * h + 22}
          role="img"
          aria-label={`mean time of a call by ${rows.length} weights and ${layers.length} layers`}
          onPointerLeave={() => setAt('')}
        >
          {rows.map((r, y) => {
            const by = new Map(r.layers!.map((l) => [l.layer, l.dur_ns / l.calls]))
            const med = median([...by.values()])
            const o = other(r)
            const second = new Map(o?.layers?.map((l) => [l.layer, l.dur_ns / l.calls]) ?? [])
            const name = clean(r.key)
            return (
              <g key={y}>
                <text x={left - 6} y={y * h + 13} class="t end">
                  <title>{name}</title>
                  {name.length > 24 ? name.slice(0, 23) + '…' : name}
                </text>
                {layers.map((l, x) => {
                  const v = by.get(l)
                  const w = second.get(l)
                  const d = rb
                    ? v === undefined || w === undefined
                      ? null
                      : w / v - 1
                    : v === undefined || med <= 0
                      ? null
                      : v / med - 1
                  if (v === undefined) return null
                  const text = `${named(r.key)}, layer ${l}: ${dur(v)}${rb ? ` | ${dur(w)}, ${delta(v, w)}` : `, ${delta(med, v)} of the median`}`
                  const c = d == null ? 'var(--grid)' : diverge(d / 0.25)
                  return (
                    <g key={l}>
                      <rect
                        x={left + x * cell}
                        y={y * h + 1}
                        width={cell - (cell > 6 ? 1 : 0)}
                        height={h - 1}
                        fill={c}
                        onPointerEnter={() => setAt(text)}
                        onClick={() =>
                          ctx.set(
                            {
                              by: 'weight',
                              sel:
                                rows.filter((x) => x.key === r.key).length > 1 ? `${r.key} ${r.type}` : r.key,
                            },
                            true,
                          )
                        }
                        data-cell={`${name}/${l}`}
                        data-v={v}
                      >
                        <title>{text}</title>
                      </rect>
                      {d != null && Math.abs(d) >= 0.1 && cell >= 24 && (
                        <text
                          x={left + x * cell + cell / 2}
                          y={y * h + 12}
                          class="t mid"
                          fill={ink(c)}
                          style={{ fill: ink(c), pointerEvents: 'none' }}
                        >{`${d > 0 ? '+' : '−'}${Math.min(999, Math.abs(d * 100)).toFixed(0)}`}</text>
                      )}
                    </g>
                  )
                })}
                <text x={left + cell * layers.length + 6} y={y * h + 13} class="t">
                  {dur(med)}
                </text>
              </g>
            )
          })}
          {layers.map(
            (l, x) =>
              x % every === 0 && (
                <text key={l} x={left + x * cell + cell / 2} y={rows.length * h + 14} class="t mid">
                  {l}
                </text>
              ),
          )}
          <text x={left - 6} y={rows.length * h + 14} class="t end">
            layer
          </text>
        </svg>
      </div>
    </section>
  )
}
