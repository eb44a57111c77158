// SPDX-License-Identifier: Apache-2.0

// Takes a picture of a page: node test/shot.mjs PAGE[#VIEW?...] OUT.png [WIDTHxHEIGHT] [dark] [full]
// [wait=MS] [click=SELECTOR]... Ends with 1 if the page had errors or asked for anything.
import { pathToFileURL } from 'node:url'
import { launch, open } from './browser.mjs'

const [target, out, ...opts] = process.argv.slice(2)
if (!target || !out) {
  console.error(
    'usage: shot.mjs PAGE[#VIEW?...] OUT.png [WIDTHxHEIGHT] [dark] [full] [wait=MS] [click=SELECTOR]...',
  )
  process.exit(2)
}
const size = opts
  .find((o) => /^\d+x\d+$/.test(o))
  ?.split('x')
  .map(Number) ?? [1440, 900]
const [file, hash = ''] = target.split('#', 2)
const url = /^https?:/.test(file) ? target : pathToFileURL(file).href + (hash && '#' + hash)
const browser = await launch()
const { page, wrong } = await open(browser, url, {
  width: size[0],
  height: size[1],
  dark: opts.includes('dark'),
})
await page
  .waitForSelector('#view [data-ready]', { timeout: 20000 })
  .catch(() => wrong.push('no view got ready'))
for (const o of opts) {
  if (o.startsWith('click=')) await page.click(o.slice(6))
  if (o.startsWith('wait=')) await page.waitForTimeout(Number(o.slice(5)))
}
await page.waitForTimeout(150)
await page.screenshot({ path: out, fullPage: opts.includes('full') })
await browser.close()
for (const w of wrong) console.error(w)
process.exit(wrong.length ? 1 : 0)
