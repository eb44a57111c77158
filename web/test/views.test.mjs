// SPDX-License-Identifier: Apache-2.0

// Every view of every page: it gets ready, nothing is wrong in the console, nothing is asked for, nothing
// overlaps.
import { open, ready, settled } from './browser.mjs'
import { check } from './checks.mjs'

export const views = ['summary', 'dag', 'time', 'stat']

/** Tabs of ProfStat that draw what no other does. */
export const tabs = ['requests', 'slow', 'experts', 'faults', 'backends', 'remote']

export function tests({ pages }) {
  const all = []
  for (const p of pages) {
    for (const look of p.looks) {
      const [width, height, dark] = look
      all.push({
        name: `${p.name}/${width}x${height}${dark ? ' dark' : ''}`,
        run: async (browser) => {
          const { page, context, wrong } = await open(browser, p.url, { width, height, dark })
          const data = { texts: {} }
          for (const v of views) {
            const at = (w) => `${v}: ${w}`
            const before = wrong.length
            const began = Date.now()
            await page.evaluate((v) => (location.hash = '#' + v), v)
            try {
              await ready(page, v)
            } catch {
              wrong.push('it did not get ready')
            }
            await settled(page)
            data[v] = Date.now() - began
            const first = await check(page)
            wrong.push(...first)
            data.texts[v] = (
              await page.evaluate(() => document.getElementById('view')?.innerText ?? '')
            ).slice(0, 200_000)
            if (!p.brief) wrong.push(...(await poke(page, v, p.thorough, first)))
            for (let i = before; i < wrong.length; i++) wrong[i] = at(wrong[i])
          }
          for (const t of tabs) {
            await page.evaluate((t) => (location.hash = '#stat?tab=' + t), t)
            await ready(page, 'stat')
            await settled(page)
            const told = await check(page)
            // they have tests of their own that use them in every look
            const used = p.thorough && look === p.looks[0] ? await poke(page, 'stat', false, told) : []
            wrong.push(...[...told, ...used].map((w) => `${t}: ${w}`))
          }
          if (p.shows)
            for (const s of p.shows)
              if (!Object.values(data.texts).some((t) => t.includes(s)))
                wrong.push(`no view shows ${JSON.stringify(s)}`)
          delete data.texts
          await context.close()
          return { wrong, data }
        },
      })
    }
  }
  return all
}

/**
 * Uses a view as somebody who tries everything: points at it all over, takes every choice, opens rows. Comes
 * back to the view.
 */
async function poke(page, view, thorough, told) {
  const wrong = []
  // Once is enough: what else is the same, at another place.
  const same = (w) => w.replace(/\d+/g, '#')
  const seen = new Set(told.map(same))
  const look = async (what) => {
    await settled(page)
    for (const w of await check(page))
      if (!seen.has(same(w))) (seen.add(same(w)), wrong.push(`after ${what}: ${w}`))
  }
  const box = await page.locator('#view').boundingBox()
  for (let y = 1; y < 4; y++)
    for (let x = 1; x < 4; x++)
      await page.mouse.move(box.x + (box.width * x) / 4, box.y + (box.height * y) / 4)
  await look('pointing')
  const selects = await page.locator('#view select').count()
  for (let i = 0; i < Math.min(selects, 6); i++) {
    const s = page.locator('#view select').nth(i)
    const values = await s
      .evaluate((e) => [...e.options].filter((o) => !o.disabled).map((o) => o.value))
      .catch(() => [])
    for (const v of values.slice(0, thorough ? 12 : 3)) {
      await s.selectOption(v, { timeout: 2000 }).catch(() => {})
      await look(`choosing ${JSON.stringify(v.slice(0, 30))}`)
      if (wrong.length > 5) return wrong.slice(0, 5)
    }
  }
  const rows = await page.locator('#view tr.can').count()
  for (let i = 0; i < Math.min(rows, thorough ? 4 : 2); i++) {
    await page
      .locator('#view tr.can')
      .nth(i)
      .click({ timeout: 2000, position: { x: 4, y: 4 } })
      .catch(() => {})
    await look(`opening row ${i}`)
    if ((await page.getAttribute('#view', 'data-view')) !== view) {
      await page.evaluate((v) => (location.hash = '#' + v), view)
      await ready(page, view)
    }
  }
  // The middle of a canvas or drawing is where things are.
  for (const kind of ['canvas', 'svg']) {
    const c = page.locator(`#view ${kind}`).first()
    if (!(await c.count())) continue
    const b = await c.boundingBox().catch(() => null)
    if (!b || b.width < 50 || b.height < 50) continue
    for (const [fx, fy] of [
      [0.5, 0.5],
      [0.3, 0.25],
      [0.6, 0.12],
    ]) {
      const x = b.x + b.width * fx
      const y = Math.min(b.y + b.height * fy, box.y + box.height - 5)
      await page.mouse.click(x, y)
      await look(`clicking the ${kind}`)
    }
    if ((await page.getAttribute('#view', 'data-view')) !== view) return wrong.slice(0, 5)
  }
  return wrong.slice(0, 5)
}
