// SPDX-License-Identifier: Apache-2.0

// The tab of backends: its figures, for internal/browser to compare with `stat --json`; its splits by pointer
// and keyboard; that it stands every look; and backends in the operator graph and the timeline.
import { open, ready, settled } from './browser.mjs'
import { check } from './checks.mjs'

const places = [
  '#stat?tab=backends&phase=decode',
  '#stat?tab=backends&phase=prefill',
  '#stat?tab=backends&phase=prefill&scale=order',
  '#stat?tab=backends&phase=prefill&split=1',
  '#stat?tab=backends&split=99999&left=none&right=%00&filter=nothing+has+this',
  '#dag?phase=decode&color=backend',
  '#time',
  '#time?step=1',
]

async function go(page, hash) {
  await page.evaluate((h) => (location.hash = h), hash)
  await ready(page, hash.slice(1).split('?')[0])
  await page.waitForFunction(
    () =>
      !/^Loading/m.test(document.querySelector('#view .page, #view .empty')?.innerText.slice(0, 60) ?? ''),
  )
  if (hash.startsWith('#time')) await page.waitForSelector('.time[data-idle]')
  await settled(page)
}

const tables = (page) =>
  page.evaluate(() =>
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

export function tests({ pages }) {
  const all = []
  for (const p of pages) {
    for (const [width, height, dark] of p.looks ?? []) {
      all.push({
        name: `${p.name}/${width}x${height}${dark ? ' dark' : ''}`,
        run: async (browser) => {
          const { page, context, wrong } = await open(browser, p.url, { width, height, dark: !!dark })
          await ready(page, 'summary')
          for (const h of places) {
            const before = wrong.length
            await go(page, h).catch((e) => wrong.push(e.message.split('\n')[0]))
            wrong.push(
              ...(await check(page)).filter((w) => width >= 1000 || !/^(the bar|the page is)/.test(w)),
            )
            if (
              await page.evaluate(
                () => !!document.querySelector('#view .empty')?.innerText.includes('This view failed'),
              )
            )
              wrong.push('the view failed')
            for (let i = before; i < wrong.length; i++) wrong[i] = `${h}: ${wrong[i]}`
          }
          const text = await page.evaluate(() => document.body.innerText)
          for (const s of p.shows ?? [])
            if (!text.includes(s) && !p.brief) wrong.push(`it does not show ${JSON.stringify(s)}`)
          await context.close()
          return { wrong }
        },
      })
    }
    if (p.tables) {
      all.push({ name: `${p.name}/figures`, run: (browser) => figures(browser, p) })
      all.push({ name: `${p.name}/splits`, run: (browser) => splits(browser, p) })
    }
  }
  return all
}

async function figures(browser, p) {
  const { page, context, wrong } = await open(browser, p.url)
  await ready(page, 'summary')
  const data = {}
  for (const { phase } of p.tables) {
    await go(page, `#stat?tab=backends&phase=${phase}`)
    data[phase] = await tables(page)
    data[phase].splits = await page.evaluate(() =>
      [...document.querySelectorAll('#view svg.offload [data-at]')].map((g) => ({
        id: g.dataset.at,
        cells: { words: g.getAttribute('aria-label') },
      })),
    )
    data[phase].arrows = await page.evaluate(() =>
      [...document.querySelectorAll('#view svg.offload .offload-arrow title')].map((g, i) => ({
        id: String(i),
        cells: { words: g.textContent },
      })),
    )
  }
  await context.close()
  return { wrong, data }
}

/** Splits by pointer and keys; each state is an address. */
async function splits(browser, p) {
  const { page, context, wrong } = await open(browser, p.url)
  const is = (what, got, want) =>
    got !== want && wrong.push(`${what}: ${JSON.stringify(got)}, not ${JSON.stringify(want)}`)
  await ready(page, 'summary')
  await go(page, '#stat?tab=backends&phase=prefill')
  const chosen = () => page.evaluate(() => document.querySelector('#view [data-split]')?.dataset.split ?? '')
  const focus = () => page.evaluate(() => document.activeElement?.dataset?.at ?? '')
  const tab = await page.evaluate(
    () =>
      [...document.querySelectorAll('#view svg.offload [data-at]')].filter((g) => g.tabIndex === 0).length,
  )
  is('splits that Tab reaches', tab, 1)
  await page.locator('#view svg.offload [data-at="1"] rect').last().click()
  await settled(page)
  is('after a click', await chosen(), '1')
  is(
    'the address',
    new URLSearchParams((await page.evaluate(() => location.hash)).split('?')[1]).get('split'),
    '1',
  )
  const nodes = await page.locator('#view [data-split] table.grid tbody tr').count()
  is('nodes of split 1', nodes, 2)
  await page.locator('#view svg.offload [data-at="1"]').focus()
  await page.keyboard.press('ArrowRight')
  is('after the right arrow', await focus(), '2')
  await page.keyboard.press('End')
  is('after End', await focus(), '5')
  await page.keyboard.press('Enter')
  await settled(page)
  is('after Enter', await chosen(), '5')
  await page.keyboard.press('Escape')
  await settled(page)
  is('after Escape', await chosen(), '')
  await go(page, '#stat?tab=backends&phase=prefill&split=3&scale=order')
  await page.reload()
  await ready(page, 'stat')
  await page.waitForSelector('#view [data-split]')
  is('opened anew', await chosen(), '3')
  // a link goes to the operator graph by backend
  await page.locator('#view a', { hasText: 'operator graph by backend' }).first().click()
  await ready(page, 'dag')
  await settled(page)
  const legend = await page.locator('#view [data-legend="backend"]').innerText()
  for (const b of ['CPU', 'BLAS', 'GPU'])
    if (!legend.includes(b)) wrong.push(`the legend has no ${b}: ${legend}`)
  // the timeline has a row for each, and tells of the device what the tab tells
  await go(page, '#time?step=1')
  const labels = await page.evaluate(() =>
    [...document.querySelectorAll('.time-label')].map((l) => l.textContent),
  )
  for (const b of ['BLAS', 'GPU', 'copies'])
    if (!labels.includes(b)) wrong.push(`the timeline has no row ${b}: ${labels.join()}`)
  const told = async (label, f) => {
    const row = await page.evaluate((label) => {
      const l = [...document.querySelectorAll('.time-label')].find((e) => e.textContent === label)
      const b = l.getBoundingClientRect()
      return { x: b.right, y: b.top + b.height / 2 }
    }, label)
    const w = await page.evaluate(() => innerWidth)
    for (let x = row.x + 4; x < w - 20; x += 6) {
      await page.mouse.move(x, row.y)
      const text = await page.evaluate(() =>
        document.querySelector('.time-tip').hidden ? '' : document.querySelector('.time-tip').textContent,
      )
      if (f(text)) return text
    }
    wrong.push(`nothing of ${label} in the timeline tells so`)
    return ''
  }
  await told('GPU', (t) => t.includes('on GPU') && t.includes('after 100 µs'))
  await told('BLAS', (t) => t.includes('on BLAS') && t.includes('60.0 µs'))
  await told(
    'copies',
    (t) =>
      t.includes('GPU0#l_out-0#0') &&
      t.includes('2.00 KiB') &&
      t.includes('CPU to GPU') &&
      t.includes('4.00 µs'),
  )
  await context.close()
  return { wrong }
}
