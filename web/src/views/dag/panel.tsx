// SPDX-License-Identifier: Apache-2.0

// Everything that is known of what was clicked.
import type { ComponentChildren } from 'preact'
import type { DagNode, DagSpread } from '../../api/types'
import { scaledHelp } from '../../lib/counters'
import { bytes, clean, count, dur, flops, gbps, gflops, intensity, plural, share } from '../../lib/format'
import { Fig } from '../../ui/figure'
import { href } from '../../ui/route'
import type { CountedDAG } from './data'
import { ranges, type Drawn, type Item } from './graph'
import { dimsOf } from './nodes'
import { sumOf, text, value, type ItemSum } from './paint'

interface Props {
  d: CountedDAG
  g: Drawn
  x: Item
  /** The run's number, for links. */
  keep: Record<string, string>
  layer: number | null
  rule: string
  /** Calls that a layer needs to be marked. */
  ruleCalls: number
  other?: { name: string; sum: ItemSum | null; mine: string }
  onSelect: (id: string) => void
  onLayer: (l: number | null) => void
  onClose: () => void
}

function Row({ k, children, help }: { k: string; children: ComponentChildren; help?: string }) {
  return (
    <>
      <dt title={help}>{k}</dt>
      <dd>{children}</dd>
    </>
  )
}

export function Panel(p: Props) {
  const { d, x } = p
  const n = x.rep >= 0 ? d.nodes[x.rep] : null
  const s = sumOf(d, x.ids)
  const role = x.kindAt >= 0 && x.role >= 0 ? d.kinds[x.kindAt]?.roles[x.role] : null
  const kind = x.group === 'layer' && x.kindAt >= 0 ? d.kinds[x.kindAt] : null
  return (
    <aside class="dag-panel" data-panel={x.id} aria-label="selected">
      <div class="dag-panel-head">
        <h3 class="clip" title={clean(x.title)}>
          {clean(x.title)}
          {x.times > 1 ? ` × ${x.times}` : ''}
        </h3>
        <button class="icon" onClick={p.onClose} aria-label="close" title="close (Esc)">
          ×
        </button>
      </div>
      {n ? (
        <Facts d={d} x={x} n={n} />
      ) : (
        <p class="dim">
          {s.ops} operators{x.times > 1 ? `, in ${x.times} layers` : ''}
        </p>
      )}
      {s.timed > 0 && <Times d={d} x={x} s={s} n={n} other={p.other} />}
      {n && x.kind === 'op' && !s.timed && (
        <p class="dim">
          {d.parts[n.part]?.seen === false
            ? `Operators of ${clean(d.parts[n.part].backend || 'this backend')} were not seen: no times.`
            : 'It was not seen to run.'}
        </p>
      )}
      {role?.spread && role.nodes.length > 1 && (
        <Bars
          title="median time of a call by layer"
          layers={d.kinds[x.kindAt].layers}
          values={role.nodes.map((i) => (i >= 0 && d.nodes[i].run ? d.nodes[i].run!.median_ns : null))}
          spread={role.spread}
          rule={p.rule}
          ruleCalls={p.ruleCalls}
          picked={p.layer}
          all={x.times === 1 && !p.g.items.has(`k${x.kindAt}`)}
          onLayer={p.onLayer}
        />
      )}
      {kind?.spread && kind.layers.length > 1 && (
        <Bars
          title="time of a run by layer, of medians"
          layers={kind.layers}
          values={kind.layer_median_ns}
          spread={kind.spread}
          rule={p.rule}
          ruleCalls={p.ruleCalls}
          picked={p.layer}
          all={x.times === 1 && !p.g.items.has(`k${x.kindAt}`)}
          onLayer={p.onLayer}
        />
      )}
      {n && <Ends p={p} />}
      {n && x.kind === 'op' && (
        <p class="dag-links">
          {n.stat_key && (
            <a href={href('stat', { ...p.keep, by: 'weight', sel: n.stat_key, phase: d.phase })}>
              its row in ProfStat
            </a>
          )}
          {n.run && <a href={href('time', { ...p.keep, op: n.name })}>its runs in ProfTime</a>}
        </p>
      )}
    </aside>
  )
}

function Facts({ d, x, n }: { d: CountedDAG; x: Item; n: DagNode }) {
  const w = n.weight >= 0 ? d.nodes[n.weight] : null
  const names =
    x.ids.length > 1 ? `${clean(n.name)} … ${clean(d.nodes[x.ids[x.ids.length - 1]].name)}` : clean(n.name)
  const layers = x.ids.map((i) => d.nodes[i].layer).filter((l): l is number => l != null)
  return (
    <dl class="dag-facts">
      <Row k="tensor">
        <span class="mono wrap">{names || '(no name)'}</span>
      </Row>
      <Row k={x.kind === 'op' ? 'operator' : 'kind'}>
        {x.kind === 'op'
          ? clean(n.op)
          : {
              view: 'view: takes no time',
              idle: 'defined, never seen to run',
              weight: 'weight',
              cache: 'cache: kept from step to step',
              input: 'input, set before the graph runs',
              group: '',
              op: '',
            }[x.kind]}
      </Row>
      {n.fused && n.fused.length > 0 && (
        <Row k="ran as one with">
          <span class="mono wrap">{n.fused.map((f) => clean(d.nodes[f]?.name ?? '?')).join(', ')}</span>
        </Row>
      )}
      <Row k="result" help="type and dimensions; a range where they grew">
        {clean(n.type)} {dimsOf(n)}, <Fig v={n.tensor_bytes} f={bytes} />
      </Row>
      {w && (
        <Row k="weight">
          <span class="mono wrap">{clean(w.name)}</span>
          <br />
          {clean(w.type)} {dimsOf(w)}, <Fig v={w.tensor_bytes} f={bytes} />
        </Row>
      )}
      <Row k="layer, block">
        {layers.length ? ranges(layers) : 'none'}, {n.block}
      </Row>
      {d.parts.length > 1 && <Row k="backend">{clean(d.parts[n.part]?.backend ?? '')}</Row>}
    </dl>
  )
}

function Times({
  d,
  x,
  s,
  n,
  other,
}: {
  d: CountedDAG
  x: Item
  s: ItemSum
  n: DagNode | null
  other?: Props['other']
}) {
  const r = n?.run && x.ids.length === 1 ? n.run : null
  const all = s.busy + s.wait + s.off
  const o = other?.sum
  return (
    <>
      <dl class="dag-facts">
        <Row k="time per step" help="sum over its calls, without the probes, over the phase's traced steps">
          <Fig v={s.perStep} f={dur} />{' '}
          <span class="dim">
            (<Fig v={s.share} f={share} /> of the step)
          </span>
        </Row>
        {o && s.perStep && (
          <Row k={other!.name}>
            <Fig v={o.perStep} f={dur} />{' '}
            {o.perStep != null && <span class="dim">({text('diff', o.perStep / s.perStep - 1)})</span>}
          </Row>
        )}
        <Row k="calls">
          <Fig v={s.calls} f={count} /> <span class="dim">in {count(d.traced_steps)} steps</span>
        </Row>
        <Row k="mean per call">
          <Fig v={s.calls ? s.net / s.calls : null} f={dur} />
          {r ? (
            <span class="dim">
              ,{' '}
              {r.calls > 1 ? (
                <>
                  median <Fig v={r.median_ns} f={dur} />, <Fig v={r.min_ns} f={dur} />–
                  <Fig v={r.max_ns} f={dur} />, p95 <Fig v={r.p95_ns} f={dur} />
                </>
              ) : (
                'once'
              )}
            </span>
          ) : null}
        </Row>
        {r?.std_ns != null && (
          <Row k="deviation">
            <Fig v={r.std_ns} f={dur} />
          </Row>
        )}
        {s.probe > 0 && (
          <Row k="probes" help="what the probes took, an estimate; left out of all other figures">
            <Fig v={s.calls ? s.probe / s.calls : null} f={dur} /> per call
          </Row>
        )}
        <Row k="bytes moved (min)">
          {s.bytesNs > 0 ? (
            <>
              <Fig v={s.bytes / s.calls} f={bytes} /> per call{s.atMost ? ' at most' : ''},{' '}
              <Fig v={value(s, 'bandwidth')} f={gbps} />
            </>
          ) : (
            'not known'
          )}
        </Row>
        <Row k="computes">
          {s.flops > 0 ? (
            <>
              <Fig v={s.flops / s.calls} f={flops} /> per call, <Fig v={s.flops / s.net} f={gflops} />
            </>
          ) : (
            'nothing counted'
          )}
        </Row>
        <Row k="arithmetic intensity">
          <Fig v={value(s, 'intensity')} f={intensity} />
        </Row>
        <Row k="threads’ time" help="busy, waiting for each other at its end, off their CPUs">
          <Fig v={all ? s.busy / all : null} f={share} /> busy, <Fig v={value(s, 'wait')} f={share} /> barrier
          wait, <Fig v={all ? s.off / all : null} f={share} /> off-CPU
        </Row>
        <Row k="load imbalance" help="max busy / mean busy − 1 over its threads, weighted by time">
          <Fig v={value(s, 'imbalance')} f={share} />
        </Row>
        {(d.counted ?? []).map((m) => (
          <Row key={m.id} k={m.head} help={m.help + (m.scaled ? '. ' + scaledHelp : '')}>
            <span data-metric={m.id}>
              <Fig
                v={s.counted.get(m.id)}
                f={(v) =>
                  m.unit && m.kind === 'share' ? `${text(m.id, v ?? null)} ${m.unit}` : text(m.id, v ?? null)
                }
              />
            </span>
            {m.scaled && <span class="dim"> scaled</span>}
            {o && s.counted.get(m.id) != null && o.counted.get(m.id) != null && (
              <span class="dim">
                {' '}
                ({other!.name}: {text(m.id, o.counted.get(m.id)!)})
              </span>
            )}
          </Row>
        ))}
      </dl>
    </>
  )
}

function Bars({
  title,
  layers,
  values,
  spread,
  rule,
  ruleCalls,
  picked,
  all,
  onLayer,
}: {
  title: string
  all: boolean
  layers: number[]
  values: (number | null)[]
  spread: DagSpread
  rule: string
  ruleCalls: number
  picked: number | null
  onLayer: (l: number | null) => void
}) {
  const w = 296
  const h = 64
  const bw = Math.max(1, Math.min(22, w / layers.length))
  const out = new Map(spread.outliers.map((o) => [o.layer, o]))
  return (
    <section>
      <h3>{title}</h3>
      <svg class="dag-bars" viewBox={`0 0 ${w} ${h + 14}`} role="group" aria-label={title}>
        {values.map((v, i) => {
          const o = out.get(layers[i])
          const y = v == null || spread.max_ns <= 0 ? 0 : (v / spread.max_ns) * h
          return (
            <g
              key={i}
              data-layer={layers[i]}
              tabindex={0}
              role="button"
              class={`${o ? 'out' : ''} ${picked === layers[i] ? 'on' : ''}`}
              aria-label={`layer ${layers[i]}: ${dur(v)}`}
              onClick={() => onLayer(picked === layers[i] ? null : layers[i])}
              onKeyDown={(e) =>
                (e.key === 'Enter' || e.key === ' ') &&
                (e.preventDefault(), onLayer(picked === layers[i] ? null : layers[i]))
              }
            >
              <rect class="hit" x={i * bw} y={0} width={bw} height={h + 14} />
              <rect x={i * bw + 0.5} y={h - y} width={Math.max(0.5, bw - 1)} height={y} />
              {(layers.length <= 20 || i % Math.ceil(layers.length / 14) === 0) &&
                bw * (layers.length <= 20 ? 1 : Math.ceil(layers.length / 14)) > 14 && (
                  <text x={i * bw + bw / 2} y={h + 11}>
                    {layers[i]}
                  </text>
                )}
              <title>{`layer ${layers[i]}: ${dur(v)}${o ? `, +${(o.over * 100).toFixed(0)} % above the others' median, over ${plural(o.calls, 'call')}` : ''}`}</title>
            </g>
          )
        })}
        <line
          x1={0}
          x2={bw * layers.length}
          y1={h - (spread.median_ns / (spread.max_ns || 1)) * h}
          y2={h - (spread.median_ns / (spread.max_ns || 1)) * h}
        />
      </svg>
      <p class="dim small">
        median <Fig v={spread.median_ns} f={dur} /> (over {plural(spread.calls, 'call')} a layer
        {spread.calls < ruleCalls
          ? `: too few to tell a layer that is slow, ${ruleCalls} are needed`
          : ''}), <Fig v={spread.min_ns} f={dur} /> (layer {spread.min_layer}) to{' '}
        <Fig v={spread.max_ns} f={dur} /> (layer {spread.max_layer}).{' '}
        {picked != null && layers.includes(picked) && !all ? (
          <button onClick={() => onLayer(null)}>all layers again</button>
        ) : (
          'Click a bar for that layer’s figures.'
        )}
      </p>
      {spread.outliers.length > 0 && (
        <p class="warn small" title={rule}>
          {spread.outliers
            .map(
              (o) =>
                `Layer ${o.layer} takes ${(o.over * 100).toFixed(0)} % longer than the others (median of ${plural(o.calls, 'call')}${o.z != null ? `, robust z ${o.z.toFixed(1)}` : ''}).`,
            )
            .join(' ')}
        </p>
      )}
    </section>
  )
}

function Ends({ p }: { p: Props }) {
  const { g, x } = p
  const list = (from: boolean) => g.links.filter((l) => (from ? l.to : l.from) === x.id)
  const one = (l: { from: string; to: string; kind: string; bytes: number | null }, id: string) => (
    <li key={id}>
      <a href="#" onClick={(e) => (e.preventDefault(), p.onSelect(id))}>
        {clean(g.items.get(id)?.title ?? id)}
      </a>{' '}
      <span class="dim">
        {l.kind === 'data' ? '' : `${l.kind} `}
        {bytes(l.bytes)}
      </span>
    </li>
  )
  const from = list(true)
  const to = list(false)
  const inputs = hiddenSources(p)
  return (
    <>
      <h3>from</h3>
      <ul class="dag-ends">
        {from.slice(0, 30).map((l) => one(l, l.from))}
        {inputs.map((n, i) => (
          <li key={'h' + i}>
            <span class="mono wrap">{clean(n.name || n.op)}</span>{' '}
            <span class="dim">
              {n.kind} {bytes(n.tensor_bytes)}
            </span>
          </li>
        ))}
        {from.length === 0 && inputs.length === 0 && <li class="dim">nothing</li>}
        {from.length > 30 && <li class="dim">and {from.length - 30} more</li>}
      </ul>
      <h3>to</h3>
      <ul class="dag-ends">
        {to.slice(0, 30).map((l) => one(l, l.to))}
        {to.length === 0 && <li class="dim">nothing in this graph</li>}
        {to.length > 30 && <li class="dim">and {to.length - 30} more</li>}
      </ul>
    </>
  )
}

/** Weights and inputs that are not drawn. */
function hiddenSources({ d, x, g }: Props): DagNode[] {
  const out: DagNode[] = []
  const mine = new Set([x.rep, ...(d.nodes[x.rep].fused ?? [])])
  for (const e of d.edges) {
    const n = d.nodes[e.from]
    if (
      mine.has(e.to) &&
      !mine.has(e.from) &&
      (n.kind === 'weight' || n.kind === 'input') &&
      !g.items.has(`n${e.from}`) &&
      out.length < 20
    )
      out.push(n)
  }
  return out
}
