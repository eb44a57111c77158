// SPDX-License-Identifier: Apache-2.0

// Experts in the page: that it stands every look; its figures and the colours of its maps, for
// internal/browser to compare; keys and links.
import { open, ready, settled } from './browser.mjs'
import { check } from './checks.mjs'

async function go(page, hash) {
  await page.evaluate((h) => (location.hash = h), hash)
  await ready(page, hash.slice(1).split('?')[0])
  await page.waitForFunction(
    () => !/^Loading/m.test(document.querySelector('#view .page')?.innerText.slice(0, 60) ?? ''),
  )
  await settled(page)
}

const places = [
  '#stat?tab=experts',
  '#stat?tab=experts&phase=prefill&layer=1&order=load',
  '#stat?tab=experts&layer=2&tok=3&from=2&to=12',
  '#stat?tab=experts&layer=nothing&tok=9999&from=-1&to=x',
  '#stat?tab=experts&phase=prefill&tok=0',
  `#stat?tab=experts&layer=${encodeURIComponent('<img src=x onerror=alert(1)>')}&tok=1e999&from=5&to=2&order=__proto__`,
]

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
            wrong.push(...(await check(page)))
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
    if (p.name === 'compared')
      all.push({ name: 'compared/difference', run: (browser) => difference(browser, p) })
    if (p.brief) all.push({ name: `${p.name}/empty`, run: (browser) => empty(browser, p) })
    if (p.tables)
      all.push(
        { name: `${p.name}/figures`, run: (browser) => figures(browser, p) },
        { name: `${p.name}/keys`, run: (browser) => keys(browser, p) },
      )
  }
  return all
}

/** Where there are no experts the tab is greyed out, and an address of another recording says why. */
async function empty(browser, p) {
  const { page, context, wrong } = await open(browser, p.url)
  await ready(page, 'summary')
  await go(page, '#stat')
  if (!(await page.locator('#view nav.sub a.nothing', { hasText: 'Experts' }).count()))
    wrong.push('the tab of experts is not greyed out')
  await go(page, '#stat?tab=experts')
  const text = await page.locator('#view .page').innerText()
  if (!/No choice of experts was recorded|No step was seen/.test(text))
    wrong.push(`it says ${text.slice(0, 200)}`)
  wrong.push(...(await check(page)))
  await context.close()
  return { wrong }
}

/** The colours in the middle of each cell of a map. */
const pixels = (page, id) =>
  page.evaluate((id) => {
    const box = document.querySelector(`[data-plot="${id}"] .cells`)
    if (!box) return null
    const c = box.querySelector('canvas')
    const [cw, ch] = box.dataset.cell.split(' ').map(Number)
    const left = Number(box.dataset.left)
    const px = c.width / c.getBoundingClientRect().width
    const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', { willReadFrequently: true })
    copy.drawImage(c, 0, 0)
    const all = copy.getImageData(0, 0, c.width, c.height)
    const rows = []
    for (let r = 0; r < Number(box.dataset.rows); r++) {
      const row = []
      for (let k = 0; k < Number(box.dataset.cols); k++) {
        const i = 4 * (Math.floor((r + 0.5) * ch * px) * all.width + Math.floor((left + (k + 0.5) * cw) * px))
        row.push([...all.data.slice(i, i + 3)])
      }
      rows.push(row)
    }
    return rows
  }, id)

async function figures(browser, p) {
  const { page, context, wrong } = await open(browser, p.url)
  await ready(page, 'summary')
  const data = { figures: [], rows: {}, load: {}, tokens: {}, picked: {} }
  for (const phase of ['prefill', 'decode']) {
    const at = `#stat?tab=experts&phase=${phase}`
    await go(page, at)
    const more = page.locator('#view table.grid + button.more')
    if (await more.count()) await more.first().click()
    data.figures.push(
      ...(await page.evaluate(() =>
        [...document.querySelectorAll('#view [data-fig]')].map((e) => ({
          name: e.dataset.fig,
          v: e.dataset.v,
          text: e.innerText,
        })),
      )),
    )
    data.rows[phase] = await page.$$eval('#view table.grid tbody tr', (l) => l.map((r) => r.dataset.id))
    data.load[phase] = await pixels(page, 'experts-load-0')
    data.tokens[phase] = {}
    data.picked[phase] = []
    for (const layer of data.rows[phase]) {
      await go(page, `${at}&layer=${layer}`)
      if ((await page.getAttribute('#view .experts', 'data-layer')) !== layer)
        wrong.push(`${phase}: layer ${layer} is not shown`)
      data.tokens[phase][layer] = await pixels(page, 'experts-tokens-0')
      for (const tok of [0, 1, 7]) {
        await go(page, `${at}&layer=${layer}&tok=${tok}`)
        const picked = page.locator('#view [data-token]')
        if (await picked.count())
          data.picked[phase].push({
            layer,
            tok,
            ...(await picked.evaluate((e) => ({
              step: e.dataset.step,
              token: e.dataset.index,
              chosen: e.dataset.chosen,
            }))),
          })
      }
    }
  }
  await context.close()
  return { wrong, data }
}

/** The map of a second run against the first, and each one's own. */
async function difference(browser, p) {
  const { page, context, wrong } = await open(browser, p.url)
  await ready(page, 'summary')
  await go(page, '#stat?tab=experts&phase=decode')
  const data = {
    difference: await pixels(page, 'experts-load-difference'),
    own: [await pixels(page, 'experts-load-0'), await pixels(page, 'experts-load-1')],
  }
  await go(page, '#stat?tab=experts&phase=decode&tok=1&tokb=2')
  const links = await page.$$eval('#view [data-token] a', (l) => l.map((a) => a.getAttribute('href')))
  if (links.length !== 2 || /[?&]run=1/.test(links[0]) || !/[?&]run=1/.test(links[1]))
    wrong.push(`links to steps: ${links}`)
  await context.close()
  return { wrong, data }
}

/** The maps by keyboard and pointer. */
async function keys(browser, p) {
  const { page, context, wrong } = await open(browser, p.url)
  await ready(page, 'summary')
  const is = (what, got, want) =>
    got !== want && wrong.push(`${what}: ${JSON.stringify(got)}, not ${JSON.stringify(want)}`)
  const hash = () => page.evaluate(() => decodeURIComponent(location.hash))
  const press = async (...list) => {
    for (const k of list) await page.keyboard.press(k)
    await settled(page)
  }
  await go(page, '#stat?tab=experts&phase=decode')
  const map = page.locator('[data-plot="experts-load-0"]')
  const reads = []
  await map.locator('.cells').focus()
  await press('ArrowRight')
  for (const k of ['ArrowRight', 'ArrowDown', 'ArrowRight']) {
    await press(k)
    const f = map.locator('.readout [data-fig]')
    reads.push({
      name: await f.getAttribute('data-fig'),
      v: await f.getAttribute('data-v'),
      text: await f.innerText(),
    })
  }
  is('a cell that is read', reads[2]?.name.split('.').slice(-3).join('.'), '1.load.2')
  await press('Enter')
  is(
    'Enter takes the layer',
    await page.getAttribute('#view .experts', 'data-layer'),
    await page.$$eval('#view table.grid tbody tr', (l) => l[1].dataset.id),
  )
  const tokens = page.locator('[data-plot="experts-tokens-0"]')
  await tokens.locator('.cells').focus()
  await press('ArrowRight', 'ArrowRight', 'ArrowRight', 'Enter')
  is('Enter takes a token', /[?&]tok=2(&|$)/.test(await hash()), true)
  await press('+')
  is(
    '+ shows fewer',
    Number(await tokens.locator('.cells').getAttribute('data-cols')) <
      Number(await page.getAttribute('[data-tokens]', 'data-tokens')),
    true,
  )
  await press('Escape')
  is(
    'Escape shows all',
    await tokens.locator('.cells').getAttribute('data-cols'),
    await page.getAttribute('[data-tokens]', 'data-tokens'),
  )
  const box = await tokens.locator('canvas').boundingBox()
  await page.mouse.move(box.x + 100, box.y + 20)
  await page.mouse.down()
  await page.mouse.move(box.x + 400, box.y + 30, { steps: 4 })
  await page.mouse.up()
  await settled(page)
  is('a drag is in the address', /from=\d+&to=\d+/.test(await hash()), true)
  is('a drag is no click', /[?&]tok=2(&|$)/.test(await hash()), true)
  wrong.push(...(await check(page)))
  const picked = page.locator('#view [data-token]')
  is(
    'the link goes to the step',
    /[?&]step=(\d+)/.exec(await picked.locator('a').getAttribute('href'))?.[1],
    await picked.getAttribute('data-step'),
  )
  await picked.locator('a').click()
  await ready(page, 'time')
  is('the link leads to', await page.getAttribute('#view', 'data-view'), 'time')
  await context.close()
  return { wrong, data: { reads } }
}
