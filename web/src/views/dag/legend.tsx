// SPDX-License-Identifier: Apache-2.0

// What the graph's colours stand for.
import { backendColor } from '../../lib/backend-color'
import { kindColors, type Kind as OpKind } from '../../lib/color'
import { scaledHelp, type Metric as Counter } from '../../lib/counters'
import { named } from '../../lib/format'
import { colorAt, metrics, text, type Metric, type Scale } from './paint'

export function Legend({
  scale,
  metric,
  counters,
  backends,
}: {
  scale: Scale
  metric: Metric
  counters: Counter[]
  backends: string[]
}) {
  if (metric === 'backend') {
    return (
      <span class="dag-legend" data-legend="backend">
        {backends.slice(0, 8).map((b) => (
          <span key={b}>
            <i style={{ background: backendColor(b, scale.theme) }} />
            {named(b || 'not known', 20)}
          </span>
        ))}
        <span>
          <i class="none" />
          several
        </span>
      </span>
    )
  }
  if (metric === 'kind') {
    const i = scale.theme === 'dark' ? 1 : 0
    return (
      <span class="dag-legend">
        {(Object.keys(kindColors) as OpKind[]).map((k) => (
          <span key={k}>
            <i style={{ background: kindColors[k][i] }} />
            {k}
          </span>
        ))}
      </span>
    )
  }
  if (scale.max <= 0)
    return (
      <span class="dag-legend dim" data-legend={metric}>
        no figures of this kind
      </span>
    )
  const c = counters.find((x) => x.id === metric)
  const m = c
    ? { name: (c.kind === 'count' ? 'counter: ' : '') + c.head, unit: c.scaled ? scaledHelp : c.help }
    : metrics.find((x) => x.id === metric)
  const steps = [...Array(24).keys()].map((i) => (metric === 'diff' ? (i / 23) * 2 - 1 : i / 23))
  return (
    <span class="dag-legend" data-legend={metric} data-min={scale.min} data-max={scale.max}>
      <span class="dim">{metric === 'diff' ? 'time, second against first' : m?.name}</span>
      <span>{metric === 'diff' || scale.log ? text(metric, scale.min) : '0'}</span>
      <span class="ramp">
        {steps.map((x, i) => (
          <i key={i} style={{ background: colorAt(scale, x) }} />
        ))}
      </span>
      <span>{text(metric, scale.max)}</span>
      {metric !== 'diff' && (
        <span class="dim unit">
          {scale.log ? 'log scale' : ''} {m?.unit}
        </span>
      )}
      <span>
        <i class="none" />
        not known
      </span>
    </span>
  )
}
