// SPDX-License-Identifier: Apache-2.0

// Below the tracks: what is selected, with its figures.
import { useEffect, useState } from 'preact/hooks'
import { phases } from '../../api/timeline'
import { operatorKinds } from '../../api/types'
import { kindColors } from '../../lib/color'
import { formatOf, scaledHelp } from '../../lib/counters'
import {
  bytes,
  clean,
  count,
  delta,
  dims,
  dur,
  flops,
  gbps,
  gflops,
  intensity,
  num,
  share,
} from '../../lib/format'
import { median } from '../../lib/median'
import { moment } from '../../lib/time-scale'
import { Fig } from '../../ui/figure'
import { href } from '../../ui/route'
import { theme } from '../../ui/theme'
import type { Actions } from './actions'
import { endToEnd, stepDuration, type OpInfo, type TimeData } from './data'
import { bandwidth, countersOf, describe, imbalance, flopsPerNs, threadName } from './describe'
import { FaultDetails, OpFaults } from './fault-panel'
import { opOfStep, sameAs } from './find'
import { marks } from './palette'
import type { Picked } from './pick'
import { ForWhom } from './remote'
import { rateOf, runnerName, stepLabel } from './steps'

function Row({ k, children }: { k: string; children: preact.ComponentChildren }) {
  return (
    <>
      <dt>{k}</dt>
      <dd>{children}</dd>
    </>
  )
}

const flag = () => (theme() === 'dark' ? 1 : 0)

interface Props {
  picked: Picked
  datas: TimeData[]
  actions: Actions
  keep: Record<string, string | undefined>
}

export function Details(p: Props) {
  const d = p.datas[p.picked.run]
  switch (p.picked.what) {
    case 'op':
      return <OpDetails {...p} d={d} op={p.picked.op} run={p.picked.run} />
    case 'step':
      return <StepDetails {...p} d={d} step={p.picked.step} run={p.picked.run} />
    case 'fault':
      return <FaultDetails d={d} p={p.picked} actions={p.actions} />
    case 'cpu':
    case 'loss':
    case 'state':
    case 'copy':
    case 'graph': {
      const [head, ...rest] = describe(d, p.picked)
      return (
        <div class="time-cols">
          <div>
            <h3 data-selected={p.picked.what}>{head}</h3>
            {rest.map((t) => (
              <div key={t}>{t}</div>
            ))}
            {p.picked.what === 'graph' && (
              <dl class="time-dl">
                <ForWhom d={d} graph={p.picked.graph} run={p.picked.run} actions={p.actions} both />
              </dl>
            )}
            <div class="time-buttons">
              <button onClick={p.actions.fit} title="f">
                zoom to selection
              </button>
            </div>
          </div>
          {p.picked.what === 'state' && p.picked.state >= 1 && p.picked.state <= 2 && (
            <Instead
              d={d}
              thread={p.picked.thread}
              cpu={p.picked.cpu}
              from={p.picked.start}
              to={p.picked.end}
            />
          )}
        </div>
      )
    }
  }
}

/** Who ran on a CPU in a span in which a thread waited for it. */
function Instead({
  d,
  cpu,
  from,
  to,
}: {
  d: TimeData
  thread: number
  cpu: number
  from: number
  to: number
}) {
  const sum = new Map<string, number>()
  for (const i of d.chunksIn(from, to)) {
    const c = d.chunks[i].kind === 'sched' ? d.peek(i) : undefined
    if (c?.kind !== 'sched') continue
    const s = c.cpus.find((l) => l.index === cpu)?.set
    for (let k = 0; s && k < s.n; k++) {
      const t = Math.min(to, s.end[k]) - Math.max(from, s.start[k])
      if (t > 0) sum.set(runnerName(d, s.ref[k]), (sum.get(runnerName(d, s.ref[k])) ?? 0) + t)
    }
  }
  return (
    <div>
      <h3>preempted by (ran on that CPU)</h3>
      {sum.size === 0 && <div class="dim">nothing that was seen</div>}
      <dl class="time-dl">
        {[...sum]
          .sort((a, b) => b[1] - a[1])
          .slice(0, 8)
          .map(([n, t]) => (
            <Row key={n} k={n}>
              <Fig v={t} f={dur} /> <span class="dim">{share(t / (to - from))}</span>
            </Row>
          ))}
      </dl>
    </div>
  )
}

function StepDetails({ d, step, run, actions }: Props & { d: TimeData; step: number; run: number }) {
  const s = d.steps
  const same = [...Array(s.n).keys()].filter((i) => s.phase[i] === s.phase[step] && s.ctx[i] === s.ctx[step])
  const usual = median(same.map((i) => stepDuration(d, i))) ?? 0
  const took = stepDuration(d, step)
  const rank = same.filter((i) => stepDuration(d, i) > took).length + 1
  return (
    <div class="time-cols">
      <div>
        <h3 data-selected="step" data-step={s.id[step]}>
          {stepLabel(d, step)}
        </h3>
        <dl class="time-dl">
          <Row k={s.late[step] > 0 ? 'end to end' : 'duration'}>
            <Fig v={took} f={dur} class="time-dur" />
            {endToEnd(d, step) == null && (
              <span class="warn"> of its call: when its results were there was not seen</span>
            )}
          </Row>
          {s.late[step] > 0 && (
            <Row k="submit only">
              <Fig v={s.dur[step]} f={dur} />{' '}
              <span class="dim">its call, which returns before its results are there</span>
            </Row>
          )}
          <Row k="vs median">
            <span>{delta(usual, took)}</span>{' '}
            <span class="dim">
              of {dur(usual)} over {count(same.length)} steps of its phase;{' '}
              {rank === 1 ? 'the slowest' : `number ${count(rank)} by duration`}
            </span>
          </Row>
          <Row k="tokens">
            <Fig v={s.tokens[step] < 0 ? null : s.tokens[step]} f={count} />
          </Row>
          <Row k="tokens/s">
            <Fig v={rateOf(d, step)} f={num} />
          </Row>
          <Row k="from position">
            <Fig v={s.pos[step] < 0 ? null : s.pos[step]} f={count} />
          </Row>
          <Row k="starts at">
            <Fig v={s.start[step]} f={(v) => moment(v ?? 0)} />
          </Row>
        </dl>
      </div>
      <div>
        <h3>inside</h3>
        <dl class="time-dl">
          <Row k="operators">
            <Fig v={s.ops[step]} f={count} />
          </Row>
          <Row k="their durations">
            <Fig v={s.opsDur[step]} f={dur} />
          </Row>
          <Row k="graphs">
            <Fig v={s.graphs[step]} f={count} />
          </Row>
          <Row k="entry">{clean(d.text(s.entry[step])) || 'not known'}</Row>
          <Row k="context">{clean(d.text(s.ctx[step]))}</Row>
          {d.text(s.incomplete[step]) && (
            <Row k="incomplete">
              <span class="warn">{clean(d.text(s.incomplete[step]))}</span>
            </Row>
          )}
          {d.text(s.untraced[step]) && (
            <Row k="operators not recorded">
              <span class="warn">{clean(d.text(s.untraced[step]))}</span>
            </Row>
          )}
        </dl>
        <div class="time-buttons">
          <button onClick={() => actions.step(run, -1)} title="[">
            ← previous step
          </button>
          <button onClick={() => actions.step(run, 1)} title="]">
            next step →
          </button>
          <button onClick={actions.fit} title="f">
            zoom to selection
          </button>
          <button onClick={() => actions.rangeOf(run, s.start[step], s.start[step] + s.dur[step])}>
            statistics of this span
          </button>
        </div>
      </div>
    </div>
  )
}

function OpDetails({ d, op, run, datas, actions, keep }: Props & { d: TimeData; op: OpInfo; run: number }) {
  const def = op.def
  const b = bandwidth(op)
  const twin = useTwin(datas, run, op, actions)
  const node = def.name !== '' && op.graph >= 0 && d.graphs.shape[op.graph] > 0
  const ipc = d.metrics.find((m) => m.id === 'ipc')
  const longest = Math.max(1, ...op.spans.map((s) => s.busy + s.off + s.wait))
  return (
    <div class="time-cols">
      <div>
        <h3 data-selected="op" data-op={op.id}>
          <span class="clip">{clean(def.label)}</span> <span class="dim">{clean(def.op)}</span>
        </h3>
        <dl class="time-dl">
          <Row k="duration">
            <Fig v={op.dur} f={dur} class="time-dur" />
            {op.probe > 0 && op.dur > 0 && op.probe / op.dur > 0.02 && (
              <span class="dim"> of this the probes about {share(op.probe / op.dur)}</span>
            )}
          </Row>
          <Row k="tensor">
            <span class="mono">{clean(def.name) || 'no name'}</span>
          </Row>
          <Row k="result">{def.type ? `${clean(def.type)} ${dims(def.ne)}` : 'not known'}</Row>
          {def.weight && (
            <Row k="weight">
              <span class="mono">{clean(def.weight)}</span> {clean(def.weight_type)}
            </Row>
          )}
          <Row k="layer, block">
            {def.layer ?? '–'}, {def.block}
          </Row>
          <Row k="starts at">
            <Fig v={op.start} f={(v) => moment(v ?? 0)} />
          </Row>
          <Row k="operator">
            <Fig v={op.id} f={count} />
            {op.followed && <span class="dim"> followed by its arrivals</span>}
          </Row>
          {op.incomplete && (
            <Row k="incomplete">
              <span class="warn">not all of its team’s threads were seen</span>
            </Row>
          )}
        </dl>
      </div>
      <div>
        <dl class="time-dl">
          <Row k="bytes">
            {def.bytes_at_most && '≤ '}
            <Fig v={def.bytes} f={bytes} />
          </Row>
          <Row k="bandwidth">
            {def.bytes_at_most && b != null && '≤ '}
            <Fig v={b} f={gbps} class="time-gbps" />
          </Row>
          <Row k="work">
            <Fig v={def.flops} f={flops} />
          </Row>
          <Row k="performance">
            <Fig v={flopsPerNs(op)} f={gflops} />
          </Row>
          <Row k="arithmetic intensity">
            <Fig v={def.bytes && def.flops != null ? def.flops / def.bytes : null} f={intensity} />
          </Row>
          <Row k="load imbalance">
            <Fig v={imbalance(op)} f={share} class="time-imbalance" />
          </Row>
          {countersOf(d, op).map(({ m, v }) => (
            <Row key={m.id} k={m.head}>
              <span data-metric={m.id} title={m.help + (m.scaled ? '. ' + scaledHelp : '')}>
                <Fig v={v} f={formatOf(m)} class="time-count" />
              </span>
              {m.unit && <span class="dim"> {m.unit}</span>}
              {m.scaled && <span class="dim"> scaled</span>}
            </Row>
          ))}
          <ForWhom d={d} graph={op.graph} run={run} actions={actions} />
          <Row k="step">
            {op.step >= 0 ? (
              <a
                href="#"
                onClick={(e) => {
                  e.preventDefault()
                  actions.goStep(run, op.step)
                }}
              >
                {stepLabel(d, op.step)}
              </a>
            ) : (
              'none'
            )}
          </Row>
          <Row k="graph">
            {op.graph >= 0
              ? `${d.graphs.id[op.graph]} ${clean(d.text(d.graphs.backend[op.graph]))}, node ${def.node}`
              : 'not known'}
          </Row>
        </dl>
        <OpFaults d={d} op={op} />
        <div class="time-buttons">
          <button onClick={() => actions.step(run, -1)} title="the same operator in the step before ([)">
            ← previous step
          </button>
          <button onClick={() => actions.step(run, 1)} title="the same operator in the step after (])">
            next step →
          </button>
          <button onClick={actions.fit} title="f">
            zoom to selection
          </button>
          {node && (
            <a
              class="button"
              href={href('dag', {
                ...keep,
                phase: op.step >= 0 ? phases[d.steps.phase[op.step]] : undefined,
                q: def.name,
              })}
            >
              ProfDAG
            </a>
          )}
        </div>
      </div>
      <div>
        <table class="grid time-threads" aria-label="its threads">
          <thead>
            <tr>
              <th class="text">thread</th>
              <th>CPU</th>
              <th>begins</th>
              <th>busy</th>
              <th>barrier wait</th>
              <th>off-CPU</th>
              {ipc && <th title={ipc.help}>IPC</th>}
              <th class="text">busy, off-CPU, wait</th>
            </tr>
          </thead>
          <tbody>
            {op.spans.slice(0, 128).map((s) => (
              <tr key={s.thread} data-thread={d.index.threads?.[s.thread]?.tid}>
                <td class="text">
                  {threadName(d, s.thread)}
                  {s.ith >= 0 && <span class="dim"> #{s.ith}</span>}
                </td>
                <td>{s.cpu}</td>
                <td>
                  <Fig v={s.start - op.start} f={(v) => '+' + dur(v)} />
                </td>
                {s.busy + s.off + s.wait === 0 ? (
                  <td colSpan={ipc ? 5 : 4} class="text warn">
                    was not seen to arrive
                  </td>
                ) : (
                  <>
                    <td>
                      <Fig v={s.busy} f={dur} class="time-busy" />
                    </td>
                    <td>
                      <Fig v={s.wait} f={dur} class="time-wait" />
                    </td>
                    <td>
                      <Fig v={s.off} f={dur} class="time-off" />
                    </td>
                    {ipc && (
                      <td>
                        <Fig
                          v={countersOf(d, op, s).find((c) => c.m.id === 'ipc')?.v}
                          f={formatOf(ipc)}
                          class="time-ipc"
                        />
                      </td>
                    )}
                    <td class="text">
                      <Bar
                        parts={[
                          [s.busy, kindColors[operatorKinds[def.kind] ?? 'other'][flag()]],
                          [s.off, marks.off[flag()]],
                          [s.wait, marks.wait[flag()]],
                        ]}
                        of={longest}
                      />
                    </td>
                  </>
                )}
              </tr>
            ))}
          </tbody>
        </table>
        {twin && (
          <div class="time-twin">
            <h3>the same in {clean(datas[1 - run].run.label || datas[1 - run].run.file)}</h3>
            {twin === 'none' ? (
              <div class="dim">not found at this place of the other run</div>
            ) : (
              <dl class="time-dl">
                <Row k="duration">
                  <Fig v={twin.dur} f={dur} /> {delta(op.dur, twin.dur)}
                </Row>
                <Row k="bandwidth">
                  <Fig v={bandwidth(twin)} f={gbps} /> {delta(b, bandwidth(twin))}
                </Row>
                <Row k="load imbalance">
                  <Fig v={imbalance(twin)} f={share} />
                </Row>
                {countersOf(datas[1 - run], twin).map(({ m, v }) => (
                  <Row key={m.id} k={m.head}>
                    <Fig v={v} f={formatOf(m)} />{' '}
                    {delta(countersOf(d, op).find((c) => c.m.id === m.id)?.v, v)}
                  </Row>
                ))}
              </dl>
            )}
          </div>
        )}
      </div>
    </div>
  )
}

function Bar({ parts, of }: { parts: [number, string][]; of: number }) {
  return (
    <span class="time-bar">
      {parts.map(
        ([v, c], i) =>
          v > 0 && (
            <span
              key={i}
              class={i === 2 ? 'wait' : i === 1 ? 'off' : ''}
              style={{ width: `${(100 * v) / of}%`, backgroundColor: c }}
            />
          ),
      )}
    </span>
  )
}

/** The same operator in the other run: the same node in the step that stands below or above it. */
function useTwin(datas: TimeData[], run: number, op: OpInfo, actions: Actions): OpInfo | 'none' | null {
  const [twin, set] = useState<OpInfo | 'none' | null>(null)
  useEffect(() => {
    let gone = false
    set(null)
    if (datas.length < 2 || op.step < 0) return
    const other = datas[1 - run]
    const step = actions.partner(run, op.step)
    const done = (o: OpInfo | null) => !gone && set(o ?? 'none')
    if (step < 0) done(null)
    else void opOfStep(other, step, sameAs(datas[run], op)).then(done, () => done(null))
    return () => void (gone = true)
  }, [op.id, run])
  return twin
}
