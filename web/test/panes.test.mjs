// SPDX-License-Identifier: Apache-2.0

// ProfTime of two runs: search, step numbers and slowest steps go by the run that was chosen, or that the
// last selection is of.
import { open, ready, settled } from './browser.mjs'

export function tests({ pages }) {
  return pages.map((p) => ({
    name: p.name,
    run: async (browser) => {
      const { page, context, wrong } = await open(browser, p.url)
      await ready(page, 'summary')
      await page.evaluate(() => (location.hash = '#time'))
      await ready(page, 'time')
      await settled(page)
      const params = async (name) => {
        await page
          .waitForFunction((n) => new URLSearchParams(location.hash.split('?')[1] ?? '').has(n), name, {
            timeout: 90000,
          })
          .catch(() => wrong.push(`no ${name} in the address`))
        await settled(page)
        return Object.fromEntries(
          new URLSearchParams((await page.evaluate(() => location.hash)).split('?')[1] ?? ''),
        )
      }
      const of = page.locator('#view [data-of]')
      const slowest = page.getByRole('button', { name: 'slowest', exact: true })
      const next = page.getByRole('button', { name: 'next slowest', exact: true })
      const search = page.locator('#view input[type="search"]')
      const data = {}
      await slowest.click()
      data.first = (await params('at')).at
      await of.selectOption('1')
      await slowest.click()
      data.second = (await params('atb')).atb
      await next.click()
      await page
        .waitForFunction(
          (v) => new URLSearchParams(location.hash.split('?')[1]).get('atb') !== v,
          data.second,
          { timeout: 90000 },
        )
        .catch(() => {})
      data.next = (await params('atb')).atb
      await search.fill('ffn_down')
      data.found = await page.locator('#view .time-search .dim').innerText()
      await search.press('Enter')
      const q = await params('selb')
      data.op = { sel: q.sel ?? '', selb: q.selb ?? '' }
      // The address leads back to the second run's operator, and what is done then is done there.
      await page.evaluate((h) => (location.hash = h), `#time?sel=${p.sel ?? 1}`)
      await params('sel')
      data.follows = await of.inputValue()
      await page.keyboard.press('Escape')
      await settled(page, 1000) // the view writes its state into the address a little later
      await page.evaluate((h) => (location.hash = h), `#time?selb=${q.selb}`)
      await params('selb')
      data.back = await of.inputValue()
      await context.close()
      return { wrong, data }
    },
  }))
}
