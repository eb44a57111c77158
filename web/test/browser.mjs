// SPDX-License-Identifier: Apache-2.0

// A Chromium for tests and pictures: the machine's own, or the one that PROFINFER_CHROMIUM names.
import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import { chromium } from 'playwright-core'

/** The browser's path, undefined if there is none. */
export const browserPath = [
  process.env.PROFINFER_CHROMIUM,
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find((p) => p && existsSync(p))

/** Starts the browser. proxy: all that it asks for beyond this machine goes there. */
export async function launch(proxy) {
  if (!browserPath)
    throw new Error('no Chromium: apt-get install chromium, or name one in PROFINFER_CHROMIUM')
  // Root may not use Chromium's sandbox; what is opened here are pages of our own.
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  return chromium.launch({
    executablePath: browserPath,
    args,
    ...(proxy && { proxy: { server: proxy, bypass: '127.0.0.1,localhost' } }),
  })
}

/** A proxy that answers nothing and keeps what it was asked for. */
export async function listener() {
  const asked = []
  const server = createServer((req, res) => {
    asked.push(`${req.method} ${req.url}`)
    res.writeHead(502).end()
  })
  server.on('connect', (req, socket) => {
    asked.push(`CONNECT ${req.url}`)
    socket.end('HTTP/1.1 502 nothing here\r\n\r\n')
  })
  await new Promise((r) => server.listen(0, '127.0.0.1', r))
  return { asked, url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() }
}

/**
 * Runs in the page before its own code: tells what its policy refused, keeps what is drawn as text on
 * canvases.
 */
function watch() {
  addEventListener('securitypolicyviolation', (e) =>
    console.error(`policy: ${e.violatedDirective} refused ${e.blockedURI || e.sourceFile}`),
  )
  const drawn = (window.__drawn = new Set())
  for (const name of ['fillText', 'strokeText']) {
    const draw = CanvasRenderingContext2D.prototype[name]
    CanvasRenderingContext2D.prototype[name] = function (text, ...more) {
      if (drawn.size < 20000) drawn.add(String(text))
      return draw.call(this, text, ...more)
    }
  }
}

/**
 * Runs in the page before its own code: counts what it has begun and not ended. __idle() resolves when nothing
 * of it is left (frames, timers of up to `patience` ms, requests, unpacking, the worker's answers) and what it
 * led to has been drawn.
 */
function track() {
  const frame = requestAnimationFrame.bind(window)
  const cancel = cancelAnimationFrame.bind(window)
  const later = setTimeout.bind(window)
  const forget = clearTimeout.bind(window)
  const frames = new Set()
  const timers = new Map()
  let open = 0
  window.requestAnimationFrame = (f) => {
    const id = frame((now) => (frames.delete(id), f(now)))
    frames.add(id)
    return id
  }
  window.cancelAnimationFrame = (id) => (frames.delete(id), cancel(id))
  window.setTimeout = (f, ms, ...more) => {
    if (typeof f !== 'function') return later(f, ms, ...more) // code as text: the page's policy says no
    const id = later((...a) => (timers.delete(id), f(...a)), ms, ...more)
    timers.set(id, ms ?? 0)
    return id
  }
  window.clearTimeout = (id) => (timers.delete(id), forget(id))
  const until = (promise) => {
    const end = () => void open--
    open++
    promise.then(end, end)
    return promise
  }
  const ask = fetch.bind(window)
  window.fetch = (...a) => until(ask(...a))
  for (const way of ['arrayBuffer', 'text', 'json']) {
    const read = Response.prototype[way]
    Response.prototype[way] = function () {
      return until(read.call(this))
    }
  }
  const post = Worker.prototype.postMessage
  const heard = new WeakSet()
  Worker.prototype.postMessage = function (...a) {
    if (!heard.has(this)) {
      heard.add(this)
      this.addEventListener('message', () => void open--)
    }
    open++
    return post.apply(this, a)
  }
  const busy = (patience) => open > 0 || frames.size > 0 || [...timers.values()].some((ms) => ms <= patience)
  window.__idle = (patience) =>
    new Promise((done) => {
      const end = Date.now() + 20000
      let still = 0
      const look = () => {
        still = busy(patience) ? 0 : still + 1
        if (still > 1) done(true)
        else if (Date.now() > end) done(false)
        else frame(look)
      }
      frame(look)
    })
}

/** Waits until the page has drawn all that was started; timers beyond so many ms are not waited for. */
export async function settled(page, patience = 100) {
  if (!(await page.evaluate((ms) => __idle(ms), patience))) throw new Error('the page does not come to rest')
}

/**
 * Opens a page and keeps what must not happen: errors in the console, exceptions, dialogs, new windows, and requests to anywhere
 * but the page itself (a served page: its server).
 */
export async function open(browser, url, { width = 1440, height = 900, dark = false, ...more } = {}) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? 'dark' : 'light',
    ...more,
  })
  await context.addInitScript(watch)
  await context.addInitScript(track)
  context.setDefaultTimeout(patient)
  const page = await context.newPage()
  const wrong = []
  const served = !url.startsWith('file:')
  const own = served ? new URL(url).origin + '/' : url.split('#')[0]
  page.on(
    'console',
    (m) => ['error', 'warning'].includes(m.type()) && wrong.push(`console ${m.type()}: ${m.text()}`),
  )
  page.on('pageerror', (e) => wrong.push(`exception: ${e.message}`))
  page.on('request', (r) => {
    const u = r.url()
    if (
      !(served ? u.startsWith(own) : u.split('#')[0] === own) &&
      !u.startsWith('blob:') &&
      !u.startsWith('data:')
    )
      wrong.push(`request: ${u}`)
  })
  page.on('dialog', (d) => (wrong.push(`dialog: ${d.message()}`), d.dismiss()))
  context.on('page', () => wrong.push('a window was opened'))
  await page.goto(url)
  return { page, context, wrong }
}

/** How long anything in a page may take, in ms: long, as much else may run here, and nothing is judged by it. */
const patient = 90000

/** Waits until a view has drawn: it marks its root with data-ready. */
export async function ready(page, view, timeout = patient) {
  await page
    .waitForSelector(
      `#view[data-view="${view}"] [data-ready], #view[data-view="${view}"] > .empty:has-text("This view failed")`,
      { timeout, state: 'attached' },
    )
    .catch(async () => {
      throw new Error(
        `${view} did not get ready; the page is at ${decodeURIComponent(await page.evaluate(() => location.hash.slice(0, 200)))}, shows ${await page.getAttribute('#view', 'data-view')}`,
      )
    })
}
