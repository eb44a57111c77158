// SPDX-License-Identifier: Apache-2.0

// Counters and roofline in all views: their figures, for internal/browser to compare; that nothing of them is
// there where there are none; that they stand every look.
import { open, ready, settled } from './browser.mjs'
import { check } from './checks.mjs'

const rows = (page, label) =>
  page.evaluate((label) => {
    const t = [...document.querySelectorAll('#view table')].find(
      (e) => e.getAttribute('aria-label') === label,
    )
    return t
      ? [...t.querySelectorAll('tbody tr')].map((r) => ({
          id: r.dataset.id,
          cells: Object.fromEntries(
            [...r.querySelectorAll('td[data-col]')]
              .filter((d) => d.querySelector('.fig'))
              .map((d) => [d.dataset.col, d.querySelector('.fig').dataset.v]),
          ),
        }))
      : null
  }, label)

async function go(page, hash) {
  await page.evaluate((h) => (location.hash = h), hash)
  await ready(page, hash.slice(1).split('?')[0])
  await page.waitForFunction(
    () =>
      !/^Loading/m.test(document.querySelector('#view .page, #view .empty')?.innerText.slice(0, 60) ?? ''),
  )
  await settled(page)
}

/** Where counters and roofline are drawn. */
const places = [
  '#stat?cols=counters',
  '#stat?cols=counters&per=call&by=op&phase=prefill',
  '#stat?cols=rates',
  '#stat?tab=roofline',
  '#stat?tab=roofline&by=op&color=type&scope=phase',
  '#stat?tab=counters',
  '#stat?tab=counters&of=ffn_gate',
  '#dag?color=ipc&q=ffn_gate',
  '#dag?color=counter:cycles',
  '#dag?color=llc-miss',
  '#time?color=ipc',
  '#time?color=counter:cycles&op=ffn_gate-0',
  '#stat?tab=roofline&filter=nothing+has+this',
  '#stat?tab=products&filter=nothing+has+this',
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
            if (h.startsWith('#time')) await page.waitForSelector('.time[data-idle]')
            // The frame itself is made for 1000 pixels: of a narrower window only what the view draws is
            // looked at.
            wrong.push(
              ...(await check(page)).filter((w) => width >= 1000 || !/^(the bar|the page is)/.test(w)),
            )
            if (
              await page.evaluate(
                () => !!document.querySelector('#view > .empty')?.innerText.includes('This view failed'),
              )
            )
              wrong.push('the view failed')
            for (let i = before; i < wrong.length; i++) wrong[i] = `${h}: ${wrong[i]}`
          }
          await context.close()
          return { wrong }
        },
      })
    }
    all.push({ name: `${p.name}/choices`, run: (browser) => choices(browser, p) })
    if (p.tables)
      all.push(
        { name: `${p.name}/figures`, run: (browser) => figures(browser, p) },
        { name: `${p.name}/plots`, run: (browser) => plots(browser, p) },
      )
  }
  return all
}

/** What can be chosen: counters where there are some, nothing of them where there are none. */
async function choices(browser, p) {
  const { page, context, wrong } = await open(browser, p.url)
  await ready(page, 'summary')
  const some = !p.brief
  const expect = (what, got) => got !== some && wrong.push(`${what}: ${got ? 'there' : 'not there'}`)
  await go(page, '#stat')
  expect(
    'the tab of counters',
    (await page.locator('#view nav.sub a:not(.nothing)', { hasText: 'Counters' }).count()) > 0,
  )
  expect(
    'the choice of columns',
    (await page.locator('#view .choice button', { hasText: /^counters$/ }).count()) > 0,
  )
  if (!(await page.locator('#view nav.sub a', { hasText: 'Roofline' }).count()))
    wrong.push('there is no tab for the roofline')
  await go(page, '#dag')
  expect(
    'colours of the graph by counters',
    (await page.locator('#view [data-color] option[value="ipc"]').count()) > 0,
  )
  for (const no of [
    'stall-frontend',
    'branch-misses',
    'counter:branch-misses',
    'counter:stalled-cycles-frontend',
  ]) {
    if (await page.locator(`#view [data-color] option[value="${no}"]`).count())
      wrong.push(`${no} can be chosen: it reads 0 or is void`)
  }
  await go(page, '#time')
  expect(
    'colours of the timeline by counters',
    (await page.locator('#view [data-color] option[value="ipc"]').count()) > 0,
  )
  if (!some) {
    // An address of another recording.
    await go(page, '#stat?tab=counters')
    if (!/--counters/.test(await page.locator('#view [data-empty-tab="counters"]').innerText()))
      wrong.push('the tab of counters without counters does not say the flag')
    await go(page, '#stat?tab=nothing')
    if (!/There is no tab “nothing”/.test(await page.locator('#view .page').innerText()))
      wrong.push('a tab that does not exist is not told')
    if (await page.evaluate(() => /\bIPC\b/.test(document.querySelector('#view').innerText)))
      wrong.push('IPC stands in a page without counters')
  }
  await context.close()
  return { wrong }
}

async function figures(browser, p) {
  const { page, context, wrong } = await open(browser, p.url)
  await ready(page, 'summary')
  const data = { tables: {} }
  for (const { phase } of p.tables) {
    await go(page, `#stat?cols=counters&phase=${phase}`)
    data.tables[`weight ${phase}`] = await rows(page, `${phase} by weight`)
  }
  await go(page, '#stat?tab=roofline')
  const more = page.locator('#view button.more')
  if (await more.count()) await more.first().click()
  data.roofline = await rows(page, 'roofline')
  data.roofs = await rows(page, 'ceilings')
  await go(page, '#stat?tab=counters')
  data.threads = await rows(page, 'counters by threads')
  const metrics = () =>
    page.evaluate(() =>
      Object.fromEntries(
        [...document.querySelectorAll('#view [data-metric]')].map((e) => [
          e.dataset.metric,
          e.querySelector('.fig').dataset.v,
        ]),
      ),
    )
  await go(page, '#dag?phase=decode&q=ffn_gate')
  await page.waitForSelector('.dag-panel')
  data.dag = await metrics()
  await go(page, '#time?op=ffn_gate-0')
  await page.waitForSelector('[data-selected="op"]')
  data.time = await metrics()
  await context.close()
  return { wrong, data }
}

/** The plots by pointer and keyboard. */
async function plots(browser, p) {
  const { page, context, wrong } = await open(browser, p.url)
  await ready(page, 'summary')
  const is = (what, got, want) =>
    got !== want && wrong.push(`${what}: ${JSON.stringify(got)}, not ${JSON.stringify(want)}`)
  await go(page, '#stat?tab=roofline')
  const drawn = await page.evaluate(() => [...window.__drawn])
  for (const want of [
    /^4\.00 GB\/s, 1 thread$/,
    /^8\.00 GB\/s, 2 threads$/,
    /^160 GOP\/s int8, 2 threads$/,
    /^ridge 20\.0 FLOP\/byte$/,
    /matrix instructions/,
  ]) {
    if (!drawn.some((t) => want.test(t))) wrong.push(`the plot has no label ${want}`)
  }
  const box = page.locator('[data-plot="roofline"] .plot-box')
  await box.focus()
  await page.keyboard.press('End')
  const read = await page.locator('[data-plot="roofline"] .readout').innerText()
  for (const unit of ['FLOP/byte', 'GFLOP/s', 'GB/s', 'of peak', 'per step'])
    if (!read.includes(unit)) wrong.push(`the point that is read out has no ${unit}: ${read}`)
  await page.keyboard.press('Enter')
  await settled(page)
  const sel = await page.getAttribute('[data-selected]', 'data-selected')
  is('the row that Enter selects', await page.getAttribute('#view tr.selected', 'data-id'), sel)
  is(
    'the address has it',
    decodeURIComponent(await page.evaluate(() => location.hash))
      .replaceAll('+', ' ')
      .includes(`sel=${sel}`),
    true,
  )
  const links = await page.$$eval('[data-selected] a', (l) => l.map((a) => a.getAttribute('href')))
  is('links', links.length, 3)
  for (const l of links) {
    await go(page, l)
    if (l.startsWith('#stat')) is('the row of the tables', await page.locator('#view tr.selected').count(), 1)
    if (l.startsWith('#dag')) is('a node is shown', await page.locator('.dag-panel').count(), 1)
  }
  await go(page, '#stat?tab=counters')
  is(
    'plots by threads',
    (await page.$$eval('[data-plot^="threads-"]', (l) => l.map((e) => e.dataset.plot))).join(),
    'threads-ipc,threads-stall-backend,threads-llc-miss',
  )
  is('points of a plot', await page.getAttribute('[data-plot="threads-ipc"]', 'data-points'), '4')
  await go(page, '#time?color=ipc')
  is('levels in the legend', await page.locator('[data-levels="ipc"]').count(), 1)
  await page.locator('#view [data-color]').selectOption('')
  await settled(page)
  is('levels after the kinds were chosen', await page.locator('[data-levels]').count(), 0)
  await context.close()
  return { wrong }
}
