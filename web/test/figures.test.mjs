// SPDX-License-Identifier: Apache-2.0

// Reads the figures that a page shows: their exact values (data-v) by name, for internal/browser to compare
// with `stat --json` and the exported tables; and that what is written says the same as the exact value.
import { open, ready, settled } from './browser.mjs'

const units = {
  ns: 1,
  µs: 1e3,
  ms: 1e6,
  s: 1e9,
  '%': 0.01,
  B: 1,
  KiB: 1024,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
  K: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  kFLOP: 1e3,
  MFLOP: 1e6,
  GFLOP: 1e9,
  TFLOP: 1e12,
  '': 1,
}

/** What is wrong with a text as a way to write v; empty: nothing. bare: the unit stands elsewhere. */
function misread(text, v, name) {
  const t = text.trim()
  if (v === '')
    return t === '–' || t === 'not known' || t === 'unknown'
      ? ''
      : `${name}: "${t}" stands for what is not known`
  const m = t.match(/^([+−-]?)([\d,]+(?:\.\d+)?)(?: ?(\S+))?$/)
  if (!m) return '' // "<0.1 %", "1 min 3 s", a range
  let unit = units[m[3] ?? '']
  if (m[3] === 'B' && Number(v) > 1e6) unit = 1e9 // parameters
  if (unit === undefined) unit = 1 // GB/s, tokens: as they are
  const got = Number(m[2].replaceAll(',', '')) * unit * (m[1] && m[1] !== '+' ? -1 : 1)
  const want = Number(v)
  // three digits, or a tenth of a percent, or the last digit that is written
  const last = (unit * 0.51) / 10 ** (m[2].split('.')[1]?.length ?? 0)
  return Math.abs(got - want) <= Math.max(Math.abs(want) * 0.006, last)
    ? ''
    : `${name}: "${t}" stands for ${v}`
}

export function tests({ pages }) {
  return pages.map((p) => ({
    name: p.name,
    run: async (browser) => {
      const { page, context, wrong } = await open(browser, p.url)
      await ready(page, 'summary')
      await settled(page)
      const summary = await page.evaluate(() =>
        [...document.querySelectorAll('#view [data-fig]')].map((e) => ({
          name: e.dataset.fig,
          v: e.dataset.v,
          text: e.innerText,
        })),
      )
      for (const f of summary) {
        const m = misread(f.text, f.v, f.name)
        if (m) wrong.push(m)
      }
      const tables = {}
      for (const { phase, model, by } of p.tables) {
        await page.evaluate(
          (h) => (location.hash = h),
          `#stat?tab=tables&by=${by}&phase=${phase}&model=${model ?? 'none'}`,
        )
        await ready(page, 'stat')
        await settled(page)
        const more = page.locator('#view table.grid + button.more')
        if (await more.count()) await more.first().click()
        const got = await page.evaluate((label) => {
          const t = document.querySelector(`#view table.grid[aria-label="${label}"]`)
          return (
            t &&
            [...t.querySelectorAll('tbody tr')].map((r) => ({
              id: r.dataset.id,
              cells: Object.fromEntries(
                [...r.querySelectorAll('td[data-col]')]
                  .filter((d) => d.querySelector('.fig'))
                  .map((d) => [d.dataset.col, d.querySelector('.fig').dataset.v]),
              ),
            }))
          )
        }, `${phase} by ${by}`)
        if (!got) wrong.push(`there is no table "${phase} by ${by}"`)
        tables[`${by} ${phase} ${model ?? 'none'}`] = got ?? []
      }
      await context.close()
      return { wrong, data: { summary, tables } }
    },
  }))
}
