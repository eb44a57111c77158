// SPDX-License-Identifier: Apache-2.0

// Speculative decoding: what was drafted, what of it was accepted, and what both took, in all and over time.
import { useMemo } from 'preact/hooks'
import type { RequestsSpeculation, RequestsSpeculationPoint } from '../../../api/types'
import { count, dur, num, plural, share } from '../../../lib/format'
import { runColors, seriesColor } from '../../../lib/palette'
import { axisFmt, unitOf } from '../../../lib/units'
import { StackBar } from '../../../ui/charts'
import { Fig } from '../../../ui/figure'
import { Plot, type Layer } from '../../../ui/plot'
import { Swatch } from '../../../ui/plot-legend'
import { go } from '../../../ui/route'
import { useTheme } from '../../../ui/theme'
import { modelName, type TabContext } from '../context'
import { shortModel, type RequestsOfRun } from './side'

/** A context that verifies, with its points over time. */
interface Target {
  side: RequestsOfRun
  s: RequestsSpeculation
  /** In a legend. */
  name: string
  points: RequestsSpeculationPoint[]
  per: number
}

const mostTargets = 6

export function Speculative({ sides, ctx }: { sides: RequestsOfRun[]; ctx: TabContext }) {
  const targets = useMemo(
    () =>
      sides.flatMap((side) => {
        const list = side.q?.speculation ?? []
        return list.map((s, i): Target => {
          const x = side.series.requests.speculation.find((p) => p.pid === s.pid && p.ctx === s.ctx)
          const model = shortModel(side, s.model)
          return {
            side,
            s,
            name: [side.name, list.length > 1 ? `${model || 'target'} ${i + 1}` : '']
              .filter(Boolean)
              .join(', '),
            points: x?.points ?? [],
            per: x?.steps_per_point ?? 1,
          }
        })
      }),
    [ctx.a, ctx.b],
  )
  const none = sides.filter((s) => !s.q?.speculation.length)
  return (
    <section>
      <h2>Speculative decoding</h2>
      {none.map((s) => (
        <p key={s.index} class="dim">
          {s.name && <span class="of">{s.name} </span>}None was seen: no batch verified drafted tokens.
        </p>
      ))}
      {targets.slice(0, mostTargets).map((t, i) => (
        <One key={i} t={t} />
      ))}
      {targets.length > mostTargets && (
        <p class="dim">and {plural(targets.length - mostTargets, 'more context')} that verify.</p>
      )}
      {targets.length > 0 && <OverTime targets={targets.slice(0, mostTargets)} ctx={ctx} />}
    </section>
  )
}

function One({ t }: { t: Target }) {
  const theme = useTheme()
  const { s, side } = t
  const f = (k: string) => `sequences.speculation.${side.q!.speculation.indexOf(s)}.${k}`
  const mine = !side.name || side.index === 0
  const name = (k: string) => (mine ? f(k) : undefined)
  const per = (v: number | null) => (v == null || s.steps === 0 ? null : v / s.steps)
  const both = s.verify_ns + (s.draft_ns ?? 0)
  const colors = [seriesColor(theme, 4), seriesColor(theme, 0)]
  return (
    <div class="rounds" data-speculation={side.index}>
      <div>
        {t.name && <h3>{t.name}</h3>}
        <dl>
          <dt>target</dt>
          <dd>{modelName(side.run, s.model)}</dd>
          <dt>draft</dt>
          <dd>
            {s.draft_ctx == null
              ? 'no context drafts: the tokens come from elsewhere (from the text so far)'
              : modelName(side.run, s.draft_model)}
          </dd>
          <dt>accepted</dt>
          <dd>
            <Fig v={s.accepted_share} f={share} name={name('accepted_share')} />:{' '}
            <Fig v={s.accepted} f={count} name={name('accepted')} /> of{' '}
            <Fig v={s.seen_drafted} f={count} name={name('seen_drafted')} /> drafted tokens
          </dd>
          <dt>tokens per round</dt>
          <dd>
            <Fig v={s.tokens_per_round} f={num} name={name('tokens_per_round')} />{' '}
            <span class="dim">the accepted ones, and the target’s own</span>
          </dd>
          <dt>rounds</dt>
          <dd>
            <Fig v={s.rounds} f={count} name={name('rounds')} /> in{' '}
            <Fig v={s.steps} f={count} name={name('steps')} /> {s.steps === 1 ? 'step' : 'steps'} of the
            target
            {s.rounds > s.rounds_seen && (
              <span class="dim">
                ; of {count(s.rounds - s.rounds_seen)} the outcome was not seen, as no batch followed
              </span>
            )}
          </dd>
          {s.recomputed_steps > 0 && (
            <>
              <dt>again</dt>
              <dd>
                <Fig v={s.recomputed_steps} f={count} name={name('recomputed_steps')} />{' '}
                {s.recomputed_steps === 1 ? 'step' : 'steps'} computed once more what was accepted: the state
                could not be wound back
              </dd>
            </>
          )}
        </dl>
      </div>
      <div>
        <h3>Time of a round</h3>
        <div class="legend">
          {s.draft_ns != null && <Swatch shape="area" color={colors[0]} name="the draft’s steps" />}
          <Swatch shape="area" color={colors[1]} name="the verification step" />
        </div>
        <StackBar
          of={both}
          label="time of a round"
          parts={[
            ...(s.draft_ns != null
              ? [{ name: 'the draft’s steps', value: s.draft_ns, color: colors[0] }]
              : []),
            { name: 'verification steps', value: s.verify_ns, color: colors[1] },
          ]}
        />
        <dl>
          {s.draft_ns != null && (
            <>
              <dt>draft</dt>
              <dd>
                <Fig v={per(s.draft_ns)} f={dur} />{' '}
                <span class="dim">
                  before a verification step, <Fig v={both > 0 ? s.draft_ns / both : null} f={share} /> of
                  both; {num(per(s.draft_steps))} steps
                </span>
              </dd>
            </>
          )}
          <dt>verify</dt>
          <dd>
            <Fig v={per(s.verify_ns)} f={dur} /> <span class="dim">a step, all its sequences together</span>
          </dd>
        </dl>
      </div>
      <div>
        <h3>Rounds by accepted tokens</h3>
        <ByAccepted by={s.by_accepted} label={t.name} />
      </div>
    </div>
  )
}

/** How many rounds accepted so many tokens, as bars from 0. */
function ByAccepted({ by, label }: { by: number[]; label: string }) {
  const all = by.reduce((n, v) => n + v, 0)
  if (all === 0) return <p class="dim">The outcome of no round was seen.</p>
  const last = 16 // Speculation.ByAccepted: the last one counts those of so many or more
  const h = 16
  const w = 150
  const top = Math.max(...by)
  const of = (k: number) => `${k}${k === last ? ' or more' : ''}`
  return (
    <svg
      class="chart"
      width={w + 150}
      height={by.length * h + 4}
      role="img"
      aria-label={`${label ? label + ': ' : ''}rounds by accepted tokens: ${by.map((n, k) => `${of(k)} in ${count(n)}`).join(', ')}`}
    >
      {by.map((n, k) => (
        <g key={k}>
          <text x={k === last ? 0 : 24} y={k * h + 12} class={k === last ? 't' : 't end'}>
            {of(k)}
          </text>
          <rect
            class="rounds-bar"
            x={k === last ? 66 : 32}
            y={k * h + 3}
            width={(n / top) * w}
            height={h - 5}
          >
            <title>{`${of(k)} accepted: ${plural(n, 'round')}, ${share(n / all)}`}</title>
          </rect>
          <text
            x={(k === last ? 66 : 32) + (n / top) * w + 6}
            y={k * h + 12}
            class="t"
          >{`${count(n)}, ${share(n / all)}`}</text>
        </g>
      ))}
    </svg>
  )
}

/** Acceptance, and the time of both, at each verification step. */
function OverTime({ targets, ctx }: { targets: Target[]; ctx: TabContext }) {
  const theme = useTheme()
  const one = targets.length === 1
  const color = (t: Target, i: number) =>
    targets.length === 2 && targets[0].side !== targets[1].side
      ? runColors(theme)[t.side.index]
      : seriesColor(theme, i)
  const from = (t: Target) => t.side.begin
  const xs = (t: Target) => t.points.map((p) => (p.start_ns + p.end_ns) / 2 - from(t))
  const plots = useMemo(() => {
    const accepted: Layer[] = []
    const time: Layer[] = []
    const owner = new Map<Layer, Target>()
    targets.forEach((t, i) => {
      const x = xs(t)
      const c = color(t, i)
      accepted.push({
        name: one ? 'a verification step' : t.name,
        color: c,
        kind: 'points',
        xs: x,
        ys: t.points.map((p) => p.accepted_share),
        size: 2.5,
        alpha: 0.45,
        hover: true,
      })
      accepted.push({
        name: one ? 'moving mean' : `${t.name}, moving mean`,
        color: one ? seriesColor(theme, 1) : c,
        kind: 'line',
        xs: x,
        ys: t.points.map((p) => p.accepted_share_near),
        width: 2,
        legend: one,
      })
      time.push({
        name: one ? 'the verification step' : `${t.name}: verifies`,
        color: one ? seriesColor(theme, 0) : c,
        kind: 'points',
        shape: 'circle',
        xs: x,
        ys: t.points.map((p) => p.verify_ns / p.steps),
        size: 2.5,
        alpha: 0.75,
        hover: true,
      })
      if (t.points.some((p) => p.draft_ns != null)) {
        time.push({
          name: one ? 'drafting before it' : `${t.name}: the draft`,
          color: one ? seriesColor(theme, 4) : c,
          kind: 'points',
          shape: 'open-triangle',
          xs: x,
          ys: t.points.map((p) => (p.draft_ns == null ? null : p.draft_ns / p.steps)),
          size: 2.5,
          alpha: 0.75,
          hover: true,
        })
      }
      for (const l of [...accepted, ...time]) if (!owner.has(l)) owner.set(l, t)
    })
    return { accepted, time, owner }
  }, [targets.length, ctx.a, ctx.b, theme])
  const ux = unitOf(
    'time',
    targets.flatMap((t) => xs(t)),
  )
  const uy = unitOf(
    'time',
    plots.time.flatMap((l) => [...(l.ys as (number | null)[])]),
  )
  const at = (list: Layer[], layer: number, i: number): { t: Target; p: RequestsSpeculationPoint } => {
    const t = plots.owner.get(list[layer])!
    return { t, p: t.points[i] }
  }
  const read =
    (list: Layer[]) =>
    (layer: number, i: number): string => {
      const { t, p } = at(list, layer, i)
      const step =
        p.steps === 1
          ? `step ${count(p.step)}`
          : `steps ${count(p.step)} to ${count(p.last_step)}, ${count(p.steps)} that verify`
      return `${one ? '' : t.name + ': '}${step} at ${dur(p.start_ns - from(t))}: ${p.seen_drafted > 0 ? `${count(p.accepted)} of ${count(p.seen_drafted)} accepted (${share(p.accepted_share)})` : 'outcome not seen'}; verifying ${dur(p.verify_ns / p.steps)}${p.draft_ns != null ? `, the draft ${dur(p.draft_ns / p.steps)}` : ''}${p.steps > 1 ? ' per step' : ''}`
    }
  const pick = (list: Layer[]) => (layer: number, i: number) => {
    const { t, p } = at(list, layer, i)
    go(
      'time',
      ctx.b && t.side.index === 1
        ? { run: ctx.b.index, with: ctx.a.index, step: p.step }
        : { run: ctx.params.run, with: ctx.params.with, step: p.step },
    )
  }
  const per = Math.max(...targets.map((t) => t.per))
  const x = { label: `after the first request’s begin, ${ux.name}`, fmt: axisFmt(ux) }
  if (targets.every((t) => t.points.length === 0)) return null
  return (
    <div class="pair">
      <Plot
        id="acceptance"
        title="Acceptance over time"
        about={`Share of the drafted tokens that were accepted, of ${per > 1 ? `up to ${per} verification steps, a point` : 'each verification step'}.`}
        x={x}
        y={{ label: 'accepted, %', fmt: (v) => String(Math.round(v * 100)), zero: true, max: 1 }}
        layers={plots.accepted}
        readout={read(plots.accepted)}
        onPick={pick(plots.accepted)}
        pick="ProfTime"
        height={240}
      />
      <Plot
        id="speculation-time"
        title="Time of draft and verification"
        about={`Of ${per > 1 ? 'a verification step, mean over a point’s steps' : 'each verification step'}, and of drafting before it.`}
        x={x}
        y={{ label: `${uy.name}, logarithmic`, fmt: axisFmt(uy), log: true }}
        layers={plots.time}
        readout={read(plots.time)}
        onPick={pick(plots.time)}
        pick="ProfTime"
        height={240}
      />
    </div>
  )
}
