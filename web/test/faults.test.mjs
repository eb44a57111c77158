// SPDX-License-Identifier: Apache-2.0

// Page faults in the page: every state of the tab stands every look, its figures go to internal/browser for
// comparison, maps are read by keyboard, and a fault is found in ProfTime.
import { open, ready, settled } from './browser.mjs'
import { check } from './checks.mjs'

const tab = '#stat?tab=faults'

async function go(page, hash) {
  await page.evaluate((h) => (location.hash = h), hash)
  await ready(page, hash.slice(1).split('?')[0])
  await page.waitForFunction(
    () => !/^Loading/.test(document.querySelector('#view .page .empty, #view .empty')?.innerText ?? ''),
  )
  if (hash.startsWith('#time')) await page.waitForSelector('.time[data-idle]')
  await settled(page)
}

/** Shows all rows of all tables. */
async function whole(page) {
  const more = page.locator('#view button.more')
  while (await more.count()) await more.first().click()
}

/** States of the tab, and addresses that nobody made. */
const places = [
  tab,
  `${tab}&phase=prefill`,
  `${tab}&x=time`,
  `${tab}&of=major`,
  `${tab}&of=read`,
  `${tab}&of=memory`,
  `${tab}&show=start`,
  `${tab}&show=end`,
  `${tab}&sort=up:op`,
  `${tab}&order=tensor`,
  `${tab}&sel=blk.0.ffn_up_exps.weight`,
  `${tab}&file=1`,
  `${tab}&file=-1&show=x&of=%3Cimg%3E&sel=__proto__&phase=%00&order=up:&sort=constructor`,
  '#time?fault=3',
  '#time?fault=99999999',
  '#time?fault=-1',
]

export function tests({ pages }) {
  const all = []
  for (const p of pages) {
    for (const [width, height, dark] of p.looks) {
      all.push({
        name: `${p.name}/${width}x${height}${dark ? ' dark' : ''}`,
        run: async (browser) => {
          const { page, context, wrong } = await open(browser, p.url, { width, height, dark: !!dark })
          await ready(page, 'summary')
          for (const h of places) {
            const before = wrong.length
            await go(page, h).catch((e) => wrong.push(e.message.split('\n')[0]))
            wrong.push(...(await check(page)))
            if (
              h === tab &&
              p.brief &&
              !(await page.evaluate(() =>
                /record --faults/.test(document.querySelector('#view .empty')?.innerText ?? ''),
              ))
            )
              wrong.push('it does not say how faults are recorded')
            for (let i = before; i < wrong.length; i++) wrong[i] = `${h}: ${wrong[i]}`
          }
          await context.close()
          return { wrong }
        },
      })
    }
    if (p.brief) continue
    all.push(
      { name: `${p.name}/figures`, run: (browser) => figures(browser, p) },
      { name: `${p.name}/keys`, run: (browser) => keys(browser, p) },
      { name: `${p.name}/time`, run: (browser) => time(browser, p) },
    )
  }
  return all
}

async function figures(browser, p) {
  const { page, context, wrong } = await open(browser, p.url)
  await go(page, tab)
  await whole(page)
  await settled(page)
  const data = await page.evaluate(() => ({
    figures: [...document.querySelectorAll('#view [data-fig]')].map((e) => ({
      name: e.dataset.fig,
      v: e.dataset.v,
    })),
    tables: Object.fromEntries(
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
    maps: Object.fromEntries(
      [...document.querySelectorAll('#view [data-cells] canvas')].map((c) => [
        c.closest('[data-cells]').dataset.cells,
        Number(c.dataset.rows),
      ]),
    ),
    points: [...document.querySelectorAll('#view figure.plot')].map((f) => Number(f.dataset.points)),
  }))
  await context.close()
  return { wrong, data }
}

/** Maps by keyboard, and the selection of a tensor, which is an address. */
async function keys(browser, p) {
  const { page, context, wrong } = await open(browser, p.url)
  await go(page, tab)
  const told = (c) => c.locator('xpath=ancestor::*[@data-cells]').locator('.readout').innerText()
  for (const c of await page.locator('#view [data-cells] canvas').all()) {
    await c.focus()
    await page.keyboard.press('ArrowDown')
    const first = await told(c)
    await page.keyboard.press('End')
    const last = await told(c)
    if (/arrow keys/.test(first) || first === '') wrong.push('an arrow key reads nothing')
    await page.keyboard.press('ArrowRight')
    if ((await told(c)) !== last) wrong.push('the arrow key leaves the map at its end')
    await page.keyboard.press('Escape')
    if (!/arrow keys/.test(await told(c))) wrong.push('Escape does not end reading')
  }
  const file = page.locator('#view [data-cells^="file"] canvas').first()
  await file.focus()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await settled(page)
  const sel = await page.evaluate(() => new URLSearchParams(location.hash.split('?')[1]).get('sel'))
  if (!sel) wrong.push('Enter in the map of the file selects no tensor')
  await page.reload()
  await ready(page, 'stat')
  await page.waitForSelector('#view table[aria-label="tensors in the file"]')
  await whole(page)
  if ((await page.locator('#view table[aria-label="tensors in the file"] tr.selected').count()) !== 1)
    wrong.push('the tensor is not selected when its address is opened anew')
  // A step leads into ProfTime.
  await page.locator('#view [data-plot="fault-steps"] .plot-box').focus()
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('Enter')
  await ready(page, 'time')
  await settled(page)
  if (!(await page.locator('[data-selected="step"]').count()))
    wrong.push('a point of the plot does not lead to its step')
  await context.close()
  return { wrong }
}

/** A fault from the list in ProfTime, and by pointing at it. */
async function time(browser, p) {
  const { page, context, wrong } = await open(browser, p.url)
  await go(page, tab)
  const link = page.locator('#view table[aria-label="the longest page faults"] a').first()
  if (!(await link.count())) return { wrong: [...wrong, 'no fault is listed'] }
  await link.click()
  await ready(page, 'time')
  await page.waitForSelector('[data-selected="fault"]')
  await page.waitForSelector('.time[data-idle]')
  const of = await page.getAttribute('[data-selected="fault"]', 'data-fault')
  const text = await page.locator('.time-panel').innerText()
  if (!/page fault/.test(text) || !/address 0x/.test(text) || !/read from disk/.test(text))
    wrong.push(`the panel says ${JSON.stringify(text.slice(0, 200))}`)
  const params = () => page.evaluate(() => new URLSearchParams(location.hash.split('?')[1]).get('fault'))
  if ((await params()) !== of) wrong.push('the address has another fault than the panel')
  await page.keyboard.press('f')
  await page.waitForSelector('.time[data-idle]')
  // In the middle of the view, at the lower edge of a thread's operators.
  const rows = await page.locator('.time-label.thread').all()
  const box = await page.locator('.time-stage canvas').last().boundingBox()
  let found = false
  for (const r of rows) {
    await page.keyboard.press('Escape')
    const b = await r.boundingBox()
    await page.mouse.click(box.x + box.width / 2, b.y + b.height - 15)
    await settled(page)
    found ||= (await page.locator(`[data-selected="fault"][data-fault="${of}"]`).count()) > 0
  }
  if (!found && !p.untimed) wrong.push('pointing at a fault does not select it')
  await context.close()
  return { wrong }
}
