// SPDX-License-Identifier: Apache-2.0

// Which experts each token chose in one layer, over the run: by tokens, or by columns of many where there are
// more than pixels.
import { useMemo } from 'preact/hooks'
import type { ExpertsLayer } from '../../../api/types'
import { count, plural, share } from '../../../lib/format'
import { Swatch } from '../../../ui/plot-legend'
import { useTheme } from '../../../ui/theme'
import { stepLink, type TabContext } from '../context'
import { LoadLegend, loadPixel, pixel, reuseColors } from './colors'
import { Tokens, type Chosen, type Place } from './data'
import { Grid, roomFor, useWidth } from './grid'
import { layerName, timesTheMean } from './load'

/** Rows of more experts than this stand for several. */
const maxRows = 512

/** A whole number of an address, null where it is none or outside. */
function whole(s: string | undefined, most: number): number | null {
  const n = s === undefined || s === '' ? NaN : Number(s)
  return Number.isInteger(n) && n >= 0 && n <= most ? n : null
}

const before = 'the token before'

export function TokenMap({ c, l, ctx }: { c: Chosen; l: ExpertsLayer; ctx: TabContext }) {
  const theme = useTheme()
  const [box, width] = useWidth<HTMLDivElement>()
  const i = c.stat.layers.indexOf(l)
  const layer = c.map?.layers[i]
  const t = useMemo(() => (c.map && c.data && layer ? new Tokens(c.map, layer, c.data) : null), [c, i])
  const key = (s: string) => s + (c.index ? 'b' : '')
  const last = (t?.columns ?? 1) - 1
  let from = whole(ctx.params[key('from')], last) ?? 0
  let to = whole(ctx.params[key('to')], last) ?? last
  if (to < from) [from, to] = [0, last]
  const shown = to - from + 1
  const per = Math.max(1, Math.ceil(shown / roomFor(width)))
  const cols = Math.ceil(shown / per)
  const group = Math.ceil(l.experts / maxRows)
  const rows = Math.ceil(l.experts / group)
  // Where one token alone makes four times the mean, a load says less than whether it was chosen before.
  const single = t?.wide === 1 && (per === 1 || per * 4 * l.used <= l.experts)
  const paint = useMemo(
    () => (t && width > 0 ? painted(t, from, to, per, group, single, reuseColors(theme)) : null),
    [t, from, to, per, group, single, theme, width > 0],
  )
  if (!t)
    return <p class="dim">What each token chose is not in this page: it was made by an older profinfer.</p>

  const tok = whole(ctx.params[key('tok')], last)
  const set = (a: number, b: number) => {
    const wide = Math.max(1, Math.min(t.columns, Math.round(b - a + 1)))
    const at = Math.max(0, Math.min(t.columns - wide, Math.round(a)))
    ctx.set(
      wide === t.columns
        ? { [key('from')]: undefined, [key('to')]: undefined }
        : { [key('from')]: at, [key('to')]: at + wide - 1 },
      true,
    )
  }
  const zoom = (f: number, mid?: number) => {
    const n = Math.max(8, shown * f)
    const m = mid ?? (tok !== null && tok >= from && tok <= to ? tok : (from + to) / 2)
    set(m - n * ((m - from) / shown), m - n * ((m - from) / shown) + n - 1)
  }
  const shift = (f: number) => set(from + f * shown, to + f * shown)
  const pick = (col: number) => ctx.set({ [key('tok')]: Math.min(to, from + col * per) }, true)
  const colors = reuseColors(theme)
  const expertsOf = (row: number) =>
    group === 1 ? `expert ${row}` : `experts ${row * group} to ${Math.min(l.experts, (row + 1) * group) - 1}`
  const read = ({ col, row }: { col: number; row: number }) => {
    const first = from + col * per
    const end = Math.min(to + 1, first + per)
    if (per === 1 && t.wide === 1) {
      const hits = t
        .chosen(first)
        .map((e, r) => [e, r])
        .filter(([e]) => Math.floor(e / group) === row)
      const e = hits[0]
      return `${placeText(t.place(first))}: ${e ? `chose expert ${e[0]} (rank ${e[1] + 1} of ${t.used}${first > 0 ? (t.has(first - 1, e[0]) ? `, ${before} too` : `, ${before} not`) : ''})` : `not ${expertsOf(row)}`}`
    }
    const counts = new Uint32Array(l.experts)
    const tokens = t.count(first, end, counts)
    let n = 0
    for (let e = row * group; e < Math.min(l.experts, (row + 1) * group); e++) n += counts[e]
    const a = t.place(first)
    const b = t.place(end - 1)
    return `${plural(tokens, 'token')}, ${a.step === b.last ? `step ${a.step}` : `steps ${a.step} to ${b.last}`}: ${count(n)} chose ${expertsOf(row)} (${share(n / tokens)}, ${timesTheMean((n * l.experts) / (tokens * t.used * Math.min(group, l.experts - row * group)))} the mean)`
  }
  const starts = t
    .starts(64)
    .filter((x) => x > from && x <= to)
    .map((x) => Math.ceil((x - from) / per))
  const about =
    `Columns are ${per * t.wide > 1 ? `up to ${count(per * t.wide)} tokens each` : 'tokens'}, in the order of the run${shown < t.columns ? `: ${count(from)} to ${count(to)} of ${plural(t.columns, 'column')}` : ''}.${starts.length ? ' Lines: a step begins.' : ''}` +
    (t.wide > 1
      ? ` The run is long: the page has counts of ${count(t.wide)} tokens together${c.run.has('time') ? ', profinfer serve of fewer' : ''}.`
      : '')
  return (
    <div ref={box} data-tokens={t.columns} data-wide={t.wide}>
      <div class="tools">
        <span class="choice" role="group" aria-label={`tokens shown${c.name && ', ' + c.name}`}>
          <button aria-pressed={shown === t.columns} onClick={() => set(0, last)}>
            whole run
          </button>
          <button disabled={shown >= t.columns} onClick={() => zoom(2)} aria-label="more tokens">
            −
          </button>
          <button disabled={shown <= 8} onClick={() => zoom(0.5)} aria-label="fewer tokens">
            +
          </button>
          <button disabled={from === 0} onClick={() => shift(-0.5)} aria-label="earlier tokens">
            ◀
          </button>
          <button disabled={to === last} onClick={() => shift(0.5)} aria-label="later tokens">
            ▶
          </button>
        </span>
      </div>
      {width > 0 && paint && (
        <Grid
          id={`experts-tokens-${c.index}`}
          title={`Experts that tokens chose in ${layerName(l)}${c.name && ', ' + c.name}`}
          about={about}
          label={`which of ${l.experts} experts ${plural(t.columns, 'column')} of tokens chose; arrow keys read cells, Enter chooses a token`}
          cols={cols}
          rows={rows}
          width={width}
          height={rows * Math.max(1, Math.min(14, Math.floor(420 / rows)))}
          paint={paint}
          color={(col, row) => paint[row * cols + col]}
          colName={per * t.wide > 1 ? 'tokens' : 'token'}
          rowName="expert"
          colLabel={(x) => count((from + x * per) * t.wide)}
          rowLabel={(y) => String(y * group)}
          legend={
            single ? (
              <>
                <Swatch shape="area" color={colors.again} name={`${before} chose it too`} />
                <Swatch shape="area" color={colors.fresh} name={`${before} did not`} />
              </>
            ) : (
              <LoadLegend />
            )
          }
          hint="click or Enter: this token; a drag, + and − zoom; Page keys move; Esc shows all"
          starts={starts}
          marked={{ col: tok !== null && tok >= from && tok <= to ? Math.floor((tok - from) / per) : -1 }}
          read={read}
          onPick={({ col }) => pick(col)}
          onRange={(a, b) => set(from + a * per, Math.min(to, from + (b + 1) * per - 1))}
          onKey={(k, at) => {
            const mid = at ? from + at.col * per : undefined
            if (k === '+' || k === '=') zoom(0.5, mid)
            else if (k === '-') zoom(2, mid)
            else if (k === 'PageDown') shift(0.5)
            else if (k === 'PageUp') shift(-0.5)
            else if (k === 'Escape') set(0, last)
            else return false
            return true
          }}
        />
      )}
      {tok !== null && <Picked t={t} tok={tok} c={c} ctx={ctx} />}
    </div>
  )
}

function placeText(p: Place): string {
  return `step ${p.step}${p.of > 1 ? `, token ${count(p.token)} of ${count(p.of)}` : ''}${p.pos == null ? '' : `, position ${count(p.pos)}`}`
}

/** The token that was chosen, with the way to its step. */
function Picked({ t, tok, c, ctx }: { t: Tokens; tok: number; c: Chosen; ctx: TabContext }) {
  const p = t.place(tok)
  const link = <a href={stepLink(ctx, c.index, p.step)}>step {p.step} in ProfTime</a>
  if (t.wide > 1) {
    return (
      <p class="links" data-token={tok}>
        <span>
          {plural(p.tokens, 'token')} of{' '}
          {p.last === p.step ? `step ${p.step}` : `steps ${p.step} to ${p.last}`}
        </span>
        {link}
      </p>
    )
  }
  const list = t.chosen(tok)
  const again = tok > 0 ? list.filter((e) => t.has(tok - 1, e)) : null
  return (
    <p class="links" data-token={tok} data-step={p.step} data-index={p.token} data-chosen={list.join(' ')}>
      <span>{placeText(p)}</span>
      <span>experts {list.join(', ')}</span>
      {again && (
        <span>
          {again.length === 0 ? `${before} chose none of them` : `${before} chose ${again.join(', ')} too`}
        </span>
      )}
      {link}
    </p>
  )
}

/** The pixels of all cells, row by row: by whether the token before chose the same (single), or by load. */
function painted(
  t: Tokens,
  from: number,
  to: number,
  per: number,
  group: number,
  single: boolean,
  c: { again: string; fresh: string },
): Uint32Array {
  const cols = Math.ceil((to - from + 1) / per)
  const rows = Math.ceil(t.experts / group)
  const out = new Uint32Array(cols * rows)
  if (single) {
    const [again, fresh, first] = [pixel(c.again), pixel(c.fresh), pixel('#8a8f98')]
    for (let k = from; k <= to; k++) {
      const col = Math.floor((k - from) / per)
      for (const e of t.chosen(k)) {
        const i = Math.floor(e / group) * cols + col
        if (k > 0 && t.has(k - 1, e)) out[i] = again
        else if (out[i] !== again) out[i] = k === 0 ? first : fresh
      }
    }
    return out
  }
  const counts = new Uint32Array(t.experts)
  for (let col = 0; col < cols; col++) {
    counts.fill(0)
    const tokens = t.count(from + col * per, Math.min(to + 1, from + (col + 1) * per), counts)
    const mean = (tokens * t.used) / t.experts
    for (let row = 0; row < rows; row++) {
      let n = 0
      const end = Math.min(t.experts, (row + 1) * group)
      for (let e = row * group; e < end; e++) n += counts[e]
      out[row * cols + col] = loadPixel(n / (end - row * group) / mean)
    }
  }
  return out
}
