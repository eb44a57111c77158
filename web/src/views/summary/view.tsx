// SPDX-License-Identifier: Apache-2.0

// The page's first view: what bounds the run, its key figures, where the time goes, what is worth a look.
import './summary.css'
import type { Run } from '../../api/load'
import { clean } from '../../lib/format'
import type { ViewProps } from '../../ui/view-props'
import { Compare, runLabels, phasePairs } from './compare'
import { Findings } from './findings'
import { Heaviest } from './heaviest'
import { Lost, Warnings } from './lost'
import { runAlone, phaseParts, type PhasePart } from './model'
import { Ran, RanShort } from './ran'
import { EvidenceTable, Phase } from './verdict'
import { Whole } from './whole'

export function Summary({ report, a, b, route }: ViewProps) {
  const several = report.runs.length > 1
  return (
    <div class="page summary" data-ready>
      {route.unknown && (
        <p class="note" role="status" data-no-view>
          The page has no view “{clean(route.unknown).slice(0, 60)}”; showing Summary.
        </p>
      )}
      {b ? <Two a={a} b={b} /> : <One run={a} several={several} />}
    </div>
  )
}

function nothing(run: Run): string {
  const s = run.stats.weight
  if (s.lost.truncated && s.run.dur_ns === 0)
    return 'Nothing was recorded before this recording was truncated.'
  if (s.outside_steps)
    return 'No step was seen: operators ran outside any call that computes a batch. ProfStat lists them.'
  return 'No step was seen: the engine computed nothing while it was recorded. Record while it answers a request.'
}

function One({ run, several }: { run: Run; several: boolean }) {
  const s = run.stats.weight
  const list = phaseParts(s)
  const keep = runAlone(run, several)
  return (
    <div data-run="a">
      <RanShort run={run} />
      <Warnings stat={s} />
      <Whole stat={s} />
      {list.length === 0 ? (
        <p class="sentence big">{nothing(run)}</p>
      ) : (
        <div class="phases">
          {list.map((p) => (
            <Phase key={p.name} part={p} stat={s} />
          ))}
        </div>
      )}
      <section>
        <h2>
          Top opportunities{' '}
          <span class="dim sub">upper bound of the time saved per step, and its share of the phase</span>
        </h2>
        <Findings stat={s} keep={keep} />
      </section>
      <section class="heavy phases">
        {list
          .filter((p) => (p.ps.rows ?? []).length > 0)
          .map((p) => (
            <div key={p.name}>
              <h2>Top operators in {p.title.toLowerCase()}</h2>
              <Heaviest part={p} keep={keep} />
            </div>
          ))}
      </section>
      <Rests list={list} />
      <div class="phases">
        <section>
          <h2>What was recorded</h2>
          <Ran run={run} />
        </section>
        <section>
          <h2>What was not seen</h2>
          <Lost stat={s} />
        </section>
      </div>
    </div>
  )
}

/** What the verdicts rest on. */
function Rests({ list }: { list: PhasePart[] }) {
  const some = list.filter((p) => (p.verdict?.evidence ?? []).length > 0)
  if (some.length === 0) return null
  return (
    <section class="phases">
      {some.map((p) => (
        <div key={p.name}>
          <h2>Evidence for the verdict on {p.title.toLowerCase()}</h2>
          <EvidenceTable part={p} />
        </div>
      ))}
    </section>
  )
}

function Two({ a, b }: { a: Run; b: Run }) {
  const [sa, sb] = [a.stats.weight, b.stats.weight]
  const names = runLabels(a, b)
  const sides = [
    { run: a, s: sa, name: names[0], mark: 'a' },
    { run: b, s: sb, name: names[1], mark: 'b' },
  ]
  const all = phasePairs(sa, sb)
  const side = (f: (x: (typeof sides)[number], i: number) => preact.ComponentChildren) => (
    <div class="two">
      {sides.map((x, i) => (
        <div key={x.mark} data-run={x.mark} class="side">
          <div class="runname clip" title={x.name}>
            {x.name}
          </div>
          {f(x, i)}
        </div>
      ))}
    </div>
  )
  return (
    <>
      {side((x) => (
        <>
          <RanShort run={x.run} />
          <Warnings stat={x.s} />
        </>
      ))}
      <Compare a={a} b={b} />
      {sides.some((x) => x.s.run_verdict && (x.s.verdicts ?? []).length > 1) &&
        side((x) => <Whole stat={x.s} />)}
      {all.map((pair, n) => (
        <div key={n}>
          {side((x, i) =>
            pair[i] ? (
              <Phase part={pair[i]!} stat={x.s} />
            ) : (
              <p class="dim">This run has no {(pair[0] ?? pair[1])!.title.toLowerCase()}.</p>
            ),
          )}
        </div>
      ))}
      <h2>
        Top opportunities{' '}
        <span class="dim sub">upper bound of the time saved per step, and its share of the phase</span>
      </h2>
      {side((x) => (
        <Findings stat={x.s} keep={runAlone(x.run, true)} />
      ))}
      <h2>Top operators</h2>
      {side((x, i) =>
        all.map(
          (pair, n) =>
            pair[i] && (
              <Heaviest
                key={n}
                part={pair[i]!}
                other={pair[1 - i] ?? undefined}
                keep={runAlone(x.run, true)}
              />
            ),
        ),
      )}
      <h2>What was recorded</h2>
      {side((x) => (
        <Ran run={x.run} />
      ))}
      <h2>What was not seen</h2>
      {side((x) => (
        <Lost stat={x.s} />
      ))}
    </>
  )
}
