// SPDX-License-Identifier: Apache-2.0

// A Chromium for tests and pictures: the machine's own, or the one that PROFINFER_CHROMIUM names.
import { existsSync } from 'node:fs'
import { chromium } from 'playwright-core'

/** The browser's path, undefined if there is none. */
export const browserPath = [process.env.PROFINFER_CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((p) => p && existsSync(p))

export async function launch() {
  if (!browserPath) throw new Error('no Chromium: apt-get install chromium, or name one in PROFINFER_CHROMIUM')
  // Root may not use Chromium's sandbox; what is opened here are pages of our own.
  return chromium.launch({ executablePath: browserPath, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] })
}

/**
 * Opens a page and keeps what must not happen: errors in the console, exceptions, and requests to anywhere but the page itself
 * (a served page: its server).
 */
export async function open(browser, url, { width = 1440, height = 900, dark = false, ...more } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? 'dark' : 'light', ...more })
  const page = await context.newPage()
  const wrong = []
  const origin = url.startsWith('file:') ? url.split('#')[0] : new URL(url).origin
  page.on('console', (m) => ['error', 'warning'].includes(m.type()) && wrong.push(`console ${m.type()}: ${m.text()}`))
  page.on('pageerror', (e) => wrong.push(`exception: ${e.message}`))
  page.on('request', (r) => {
    const u = r.url()
    if (!u.startsWith(origin) && !u.startsWith('blob:') && !u.startsWith('data:')) wrong.push(`request: ${u}`)
  })
  page.on('dialog', (d) => (wrong.push(`dialog: ${d.message()}`), d.dismiss()))
  await page.goto(url)
  return { page, context, wrong }
}

/** Waits until a view has drawn: it marks its root with data-ready. */
export async function ready(page, view) {
  await page.waitForSelector(`#view[data-view="${view}"] [data-ready]`, { timeout: 20000 })
}
