// SPDX-License-Identifier: Apache-2.0

// ProfStat's experts: which experts of a mixture tokens chose, layer by layer and token by token, how often
// again, and what that costs.
import './experts.css'
import type { Report, Run } from '../../../api/load'
import type { ExpertsLayer } from '../../../api/types'
import { bytes, clean, count, num, plural, share } from '../../../lib/format'
import { Empty, Fig } from '../../../ui/figure'
import { useLoaded } from '../../../ui/use-section'
import { phaseOf, runNames, statBy, type TabContext } from '../context'
import { chosenOf, layerId, type Chosen } from './data'
import { comparable, layerName, LayerTable, LoadBars, LoadDifference, LoadMap, timesTheMean } from './load'
import { AgainByLayer, BySteps, CacheCurve, NewCost } from './reuse'
import { TokenMap } from './tokens'

/** Whether a recording is of a mixture of experts, or has choices of some. */
const mixed = (r: Run): boolean =>
  (r.stats.weight.phases ?? []).some((p) => p.experts) ||
  (r.stats.weight.models ?? []).some((m) => (m.experts ?? 0) > 0)

/** Whether there is anything to say of experts. */
export const withExperts = (r: Report): boolean => r.runs.some(mixed)

export function Experts(ctx: TabContext) {
  const names = runNames(ctx)
  const runs = ctx.b ? [ctx.a, ctx.b] : [ctx.a]
  const key = `${ctx.phase} ${ctx.model} ${runs.map((r) => r.index).join()}`
  const { data: all, error } = useLoaded(key, () =>
    Promise.all(runs.map((r, i) => chosenOf(r, i, ctx.b ? names[i] : '', phaseOf(statBy(r, 'weight'), ctx)))),
  )
  if (error) return <Empty>Experts of this recording cannot be shown: {clean(error)}.</Empty>
  if (!all) return <Empty>Loading …</Empty>
  const list = all.filter((c): c is Chosen => c != null && c.stat.layers.length > 0)
  const missing = runs.map((r, i) =>
    list.some((c) => c.index === i) ? null : (
      <p key={i} class="dim" data-missing={i}>
        {ctx.b ? names[i] + ': ' : ''}
        {why(r, all[i], ctx)}
      </p>
    ),
  )
  if (list.length === 0) return <>{missing}</>

  const ids = [...new Set(list.flatMap((c) => c.stat.layers.map((l) => layerId(l, c.stat.layers))))]
  const id = ids.includes(ctx.params.layer) ? ctx.params.layer : ids[0]
  const layerOf = (c: Chosen): ExpertsLayer | undefined =>
    c.stat.layers.find((l) => layerId(l, c.stat.layers) === id)
  const ofLayer = list.map((c) => ({ c, l: layerOf(c)! })).filter((x) => x.l)
  const name = layerName(ofLayer[0].l)
  return (
    <div class="experts" data-layer={id}>
      {missing}
      {list.map((c) => (
        <Facts key={c.index} c={c} />
      ))}
      <div class="pair">
        {list.map((c) => (
          <LoadMap key={c.index} c={c} ctx={ctx} layer={layerOf(c)} />
        ))}
      </div>
      {list.length === 2 && comparable(list[0], list[1]) && (
        <LoadDifference a={list[0]} b={list[1]} ctx={ctx} layer={layerOf(list[0])} />
      )}
      <div class="columns">
        {list.map((c) => (
          <LayerTable key={c.index} c={c} ctx={ctx} layer={layerOf(c)} />
        ))}
      </div>
      <div class="tools layer-of">
        <h2>{ofLayer[0].l.layer == null ? 'Operators without a layer' : `Layer ${ofLayer[0].l.layer}`}</h2>
        {ids.length > 1 && (
          <select
            aria-label="layer"
            value={id}
            onChange={(e) => ctx.set({ layer: e.currentTarget.value }, true)}
          >
            {ids.map((x) => (
              <option key={x} value={x}>
                {x === 'none' ? 'no layer' : `layer ${x}`}
              </option>
            ))}
          </select>
        )}
      </div>
      {ofLayer.map(({ c, l }) => (
        <TokenMap key={c.index} c={c} l={l} ctx={ctx} />
      ))}
      <LoadBars list={ofLayer} ctx={ctx} />
      <h2>Reuse</h2>
      <div class="pair small">
        <AgainByLayer list={list} />
        <CacheCurve list={list.map((c) => ({ c, l: layerOf(c) }))} layer={name} />
      </div>
      <h2>What a step reads</h2>
      <NewCost list={list} />
      <div class="pair small">
        <BySteps list={list} ctx={ctx} what="bytes" />
        <BySteps list={list} ctx={ctx} what="new" />
      </div>
    </div>
  )
}

/** The phase in one line, and what is left out of it. */
function Facts({ c }: { c: Chosen }) {
  const s = c.stat
  const [used, of] = [s.layers[0].used, s.layers[0].experts]
  const alike = s.layers.every((l) => l.used === used && l.experts === of)
  const fig = (name: keyof typeof s, f: (v: number | null | undefined) => string) => (
    <Fig v={s[name] as number | null} f={f} name={`${c.at}.${name}`} />
  )
  // Of a few choices some experts have many by chance.
  const judged = s.layers.map((l, i) => ({ l, i })).filter(({ l }) => l.tokens * l.used >= 2 * l.experts)
  const worst = judged.reduce<(typeof judged)[0] | null>(
    (w, x) => (w && w.l.imbalance >= x.l.imbalance ? w : x),
    null,
  )
  return (
    <>
      <p class="facts">
        {c.name && <span class="of">{c.name}</span>}
        <span>
          {alike ? (
            <>
              A token uses <Fig v={used} f={count} name={`${c.at}.layers.0.used`} /> of{' '}
              <Fig v={of} f={count} name={`${c.at}.layers.0.experts`} /> experts in each of{' '}
              {plural(s.layers.length, 'layer')}
            </>
          ) : (
            `Experts in ${plural(s.layers.length, 'layer')}`
          )}
        </span>
        {s.reused_share != null && (
          <span>
            {fig('reused_share', share)} of a batch’s experts are reused from the previous token (random
            baseline {fig('reused_by_chance', share)})
          </span>
        )}
        {s.bytes_per_step != null && (
          <span>
            {fig('bytes_per_step', bytes)} of {fig('bytes_of_all_experts', bytes)} of expert weights are read
            per step
          </span>
        )}
        {worst && (
          <span>
            max/mean load{' '}
            <Fig
              v={worst.l.imbalance}
              f={(v) => timesTheMean(v == null ? v : v + 1)}
              name={`${c.at}.layers.${worst.i}.imbalance`}
            />{' '}
            ({layerName(worst.l)})
          </span>
        )}
      </p>
      {s.not_seen > 0 && (
        <p class="note">
          {c.name && c.name + ': '}
          {plural(s.not_seen, 'choice')} incomplete and left out.
        </p>
      )}
      {s.slots > 0 && (
        <p class="note">
          {c.name && c.name + ': '}
          {plural(s.slots, 'choice')} in places of the engine’s cache of experts, not in experts: left out.
        </p>
      )}
      {s.dropped > 0 && (
        <p class="note">
          {c.name && c.name + ': '}
          {plural(s.dropped, 'choice')} of more layers or experts than are kept.
        </p>
      )}
    </>
  )
}

/** Why nothing is drawn of a run. */
function why(r: Run, c: Chosen | null, ctx: TabContext): string {
  const s = r.stats.weight
  if (c) {
    if (c.stat.slots > 0)
      return `The ${count(c.stat.slots)} choices of phase ${ctx.phase} are places in a cache of experts that the engine keeps (--moe-cache-mib), not experts: which expert stood there is not recorded.`
    return `None of the choices of phase ${ctx.phase} was wholly seen (${num(c.stat.not_seen + c.stat.dropped)} left out).`
  }
  if (s.phases?.some((p) => p.experts))
    return `No choice of experts was recorded in phase ${ctx.phase}; other phases have some.`
  if (!(s.models ?? []).some((m) => (m.experts ?? 0) > 0))
    return 'No choice of experts was recorded: the model has none that tokens choose from.'
  if (s.run.level !== 'op')
    return `No choice of experts was recorded: the recording is of level ${clean(s.run.level)}. profinfer record has them at its default, --level op.`
  return 'No choice of experts was recorded, although the model has experts: --experts=false was given, a GPU computes them, or their operators were not recorded. profinfer record has them without a flag, at its default --level op.'
}
