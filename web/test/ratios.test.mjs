// SPDX-License-Identifier: Apache-2.0

// What follows from counters, of each weight: internal/browser compares it with what package profile computes
// of the same counts.
import { open, ready, settled } from './browser.mjs'

export function tests({ pages }) {
  return pages.map((p) => ({
    name: p.name,
    run: async (browser) => {
      const { page, context, wrong } = await open(browser, p.url)
      await ready(page, 'summary')
      const data = {}
      for (const phase of ['prefill', 'decode']) {
        await page.evaluate((h) => (location.hash = h), `#stat?cols=counters&phase=${phase}`)
        await ready(page, 'stat')
        await settled(page)
        data[phase] = await page.evaluate(() =>
          [...document.querySelectorAll('#view table.grid tbody tr')].map((r) => ({
            id: r.dataset.id,
            cells: Object.fromEntries(
              [...r.querySelectorAll('td[data-col]')]
                .filter((d) => d.querySelector('.fig'))
                .map((d) => [d.dataset.col, d.querySelector('.fig').dataset.v]),
            ),
          })),
        )
      }
      await context.close()
      return { wrong, data }
    },
  }))
}
