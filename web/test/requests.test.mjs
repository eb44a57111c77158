// SPDX-License-Identifier: Apache-2.0

// Requests and slow steps: figures for internal/browser to compare with `stat --json` and `stat --slow
// --json`, and what clicks and keys do.
import { open, ready, settled } from './browser.mjs'

const go = async (page, hash) => {
  await page.evaluate((h) => (location.hash = h), hash)
  await ready(page, hash.slice(1).split('?')[0])
  await settled(page)
}
const params = async (page) =>
  Object.fromEntries(new URLSearchParams((await page.evaluate(() => location.hash)).split('?')[1] ?? ''))

/** All tables of the view: figures of cells by column, of each row. */
async function tables(page) {
  for (let n = 0; n < 5; n++) {
    const more = page.locator('#view .table-scroll button.more')
    if (!(await more.count())) break
    await more.first().click()
  }
  return page.evaluate(() =>
    Object.fromEntries(
      [...document.querySelectorAll('#view table.grid')].map((t) => [
        t.getAttribute('aria-label'),
        [...t.querySelectorAll('tbody tr')].map((r) => ({
          id: r.dataset.id,
          cells: Object.fromEntries(
            [...r.querySelectorAll('td[data-col]')]
              .filter((d) => d.querySelector('.fig'))
              .map((d) => [d.dataset.col, d.querySelector('.fig').dataset.v]),
          ),
        })),
      ]),
    ),
  )
}

const named = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('#view [data-fig]')].map((e) => ({
      name: e.dataset.fig,
      v: e.dataset.v,
      text: e.innerText,
    })),
  )

/**
 * The bars of slow steps: what their parts stand for, and where their ends are drawn, in parts of the width.
 */
const bars = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('#view .excess')].map((e) => {
      const b = e.getBoundingClientRect()
      const at = (x) => (x - b.left) / b.width
      const parts = [...e.querySelectorAll('.part')]
      const less = e.querySelector('.less')
      return {
        step: e.closest('tr').dataset.id,
        excess: e.dataset.v,
        parts: parts.map((p) => ({ cause: p.dataset.cause, v: p.dataset.v })),
        less: less?.dataset.v ?? '',
        reach: parts.length ? at(parts.at(-1).getBoundingClientRect().right) : 0,
        end: at(e.querySelector('.end').getBoundingClientRect().right),
        lessFrom: less ? at(less.getBoundingClientRect().left) : null,
      }
    }),
  )

async function lanes(page, is, data) {
  const box = page.locator('#view .lane-box').first()
  const read = () => page.locator('#view .lanes .readout').first().innerText()
  await box.focus()
  const hint = await read()
  await page.keyboard.press('ArrowRight')
  const first = await read()
  is('an arrow key reads a request', first !== hint && /sequence/.test(first), true)
  await page.keyboard.press('ArrowRight')
  is('another reads the next', (await read()) !== first, true)
  await page.keyboard.press('ArrowDown')
  const request = async (keys) => {
    for (const k of keys) await page.keyboard.press(k)
    for (let i = 0; i < 5 && (await read()).startsWith('warm-up'); i++)
      await page.keyboard.press('ArrowRight')
    return read()
  }
  const below = await request([])
  // The space bar marks the request in the table, and again lets it go.
  await page.keyboard.press(' ')
  await settled(page)
  const sel = (await params(page)).sel
  is(
    'the request is in the address',
    !!sel && below.startsWith(`request ${Number(sel.split('/').pop()).toLocaleString('en-US')},`),
    true,
  )
  is(
    'its row is marked',
    await page.locator(`#view table[aria-label="requests"] tr.selected`).getAttribute('data-id'),
    sel,
  )
  is('its bars are marked', (await page.locator('#view .lane-box rect.marked').count()) > 0, true)
  await box.focus()
  await page.keyboard.press(' ')
  await settled(page)
  is('none is marked then', (await params(page)).sel, undefined)
  // Dragging zooms, Escape shows all again.
  const bars = () => page.locator('#view .lane-box rect:not(.at)').count()
  const before = await page.locator('#view .lane-box').first().getAttribute('aria-label')
  const n = await bars()
  await page.locator('#view .lane-box').first().locator('rect:not(.at)').first().scrollIntoViewIfNeeded()
  const b = await box.boundingBox()
  const y = Math.max(b.y + 15, 120) // not below the tabs, which stay where they are
  await page.mouse.move(b.x + b.width * 0.45, y)
  await page.mouse.down()
  await page.mouse.move(b.x + b.width * 0.6, y, { steps: 4 })
  await page.mouse.up()
  await page
    .waitForFunction(
      () => /shown/.test(document.querySelector('#view .lane-box').getAttribute('aria-label')),
      null,
      { timeout: 90000 },
    )
    .catch(() => {})
  const zoomed = await page.locator('#view .lane-box').first().getAttribute('aria-label')
  is('dragging zooms', zoomed !== before && /shown/.test(zoomed), true)
  is('it stays in the view', await page.getAttribute('#view', 'data-view'), 'stat')
  await box.focus()
  await page.keyboard.press('Escape')
  await settled(page)
  is(
    'Escape shows all again',
    (await page.locator('#view .lane-box').first().getAttribute('aria-label')) === before &&
      (await bars()) === n,
    true,
  )
  // Enter goes to ProfTime at the request's time, a click to where it was.
  await box.focus()
  data.entered = await request(['ArrowUp', 'ArrowUp', 'ArrowUp', 'Home'])
  await page.keyboard.press('Enter')
  await ready(page, 'time')
  await settled(page)
  data.enter = await params(page)
  await page.evaluate(() => history.back())
  await ready(page, 'stat')
  await settled(page)
  await page.locator('#view .lane-box').first().locator('rect:not(.at)').last().scrollIntoViewIfNeeded()
  const rect = await page.locator('#view .lane-box').first().locator('rect:not(.at)').last().boundingBox()
  await page.mouse.click(rect.x + rect.width * 0.5, rect.y + rect.height / 2)
  await ready(page, 'time')
  await settled(page)
  data.clicked = await params(page)
}

export function tests({ pages }) {
  return pages.map((p) => ({
    name: p.name,
    run: async (browser) => {
      const { page, context, wrong } = await open(browser, p.url, { width: 1440, height: 900 })
      const is = (what, got, want) =>
        got !== want &&
        wrong.push(`${what}: ${JSON.stringify(got)}, not ${JSON.stringify(want)}`.slice(0, 400))
      const data = {}
      await ready(page, 'summary')
      await go(page, '#stat?tab=requests')
      data.requests = {
        named: await named(page),
        tables: await tables(page),
        text: (await page.innerText('#view')).slice(0, 2000),
      }
      data.lanes = await page.evaluate(() =>
        [...document.querySelectorAll('#view [data-lane]')].map((g) => Number(g.dataset.lane)),
      )
      data.plots = await page.evaluate(() =>
        Object.fromEntries(
          [...document.querySelectorAll('#view [data-plot]')].map((e) => [
            e.dataset.plot,
            Number(e.dataset.points),
          ]),
        ),
      )
      if (data.lanes.length > 0) await lanes(page, is, data)
      await go(page, '#stat?tab=requests')
      const plot = page.locator('#view [data-plot="acceptance"] .plot-box')
      if (await plot.count()) {
        await plot.focus()
        await page.keyboard.press('ArrowRight')
        data.read = await page.locator('#view [data-plot="acceptance"] .readout').innerText()
        await page.keyboard.press('Enter')
        await ready(page, 'time')
        data.picked = await params(page)
      }
      await go(page, '#stat?tab=slow')
      data.slow = {
        named: await named(page),
        tables: await tables(page),
        text: (await page.innerText('#view')).slice(0, 2000),
      }
      data.bars = await bars(page)
      await context.close()
      return { wrong, data }
    },
  }))
}
