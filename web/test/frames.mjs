// SPDX-License-Identifier: Apache-2.0

// Measures frames of ProfTime: node test/frames.mjs PAGE[#time?...] [SECONDS] [WIDTHxHEIGHT] Pans and zooms
// through the run and prints how long frames took: the time from one to the next, and the drawing alone. Ends
// with 1 if the page had errors or the 95th percentile is above 33 ms.
import { pathToFileURL } from 'node:url'
import { launch, open, ready } from './browser.mjs'

const [target, seconds = '6', size = '1440x900'] = process.argv.slice(2)
if (!target) {
  console.error('usage: frames.mjs PAGE[#time?...] [SECONDS] [WIDTHxHEIGHT]')
  process.exit(2)
}
const [width, height] = size.split('x').map(Number)
const [file, hash = 'time'] = target.split('#', 2)
const url = (/^https?:/.test(file) ? file : pathToFileURL(file).href) + '#' + hash
const browser = await launch()
const { page, wrong } = await open(browser, url, { width, height })
await ready(page, 'time')
await page.waitForTimeout(1500)
const box = await page.locator('.time-stage canvas').last().boundingBox()
const got = await page.evaluate(
  async ({ ms, box }) => {
    const canvas = [...document.querySelectorAll('.time-stage canvas')].at(-1)
    const gaps = []
    const draws = []
    const watch = new PerformanceObserver((l) =>
      l.getEntries().forEach((e) => e.name === 'profinfer-frame' && draws.push(e.duration)),
    )
    watch.observe({ entryTypes: ['measure'] })
    const start = performance.now()
    let last = start
    let n = 0
    await new Promise((done) => {
      const frame = (now) => {
        if (n > 2) gaps.push(now - last)
        last = now
        if (now - start > ms) return done()
        // In and out in turn, always moving sideways, the pointer wandering.
        const part = ((now - start) / ms) * 4
        const x = box.x + box.width * (0.5 + 0.4 * Math.sin(now / 700))
        const y = box.y + box.height * 0.4
        canvas.dispatchEvent(
          new WheelEvent('wheel', {
            deltaY: Math.floor(part) % 2 === 0 ? -60 : 60,
            clientX: x,
            clientY: y,
            bubbles: true,
            cancelable: true,
          }),
        )
        canvas.dispatchEvent(
          new WheelEvent('wheel', {
            deltaX: 25 * Math.sin(now / 300),
            deltaY: 0,
            clientX: x,
            clientY: y,
            bubbles: true,
            cancelable: true,
          }),
        )
        canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: x, clientY: y, bubbles: true }))
        n++
        requestAnimationFrame(frame)
      }
      requestAnimationFrame(frame)
    })
    await new Promise((r) => setTimeout(r, 100))
    watch.disconnect()
    return { gaps, draws, spans: document.querySelector('.time')?.dataset.spans }
  },
  { ms: Number(seconds) * 1000, box },
)
await browser.close()
const at = (v, p) => [...v].sort((a, b) => a - b)[Math.min(v.length - 1, Math.floor(v.length * p))] ?? NaN
const line = (name, v) =>
  console.log(
    `${name.padEnd(18)} n ${String(v.length).padStart(5)}   p50 ${at(v, 0.5).toFixed(1)} ms   p95 ${at(v, 0.95).toFixed(1)} ms   max ${at(v, 1).toFixed(1)} ms`,
  )
line('frame to frame', got.gaps)
line('drawing', got.draws)
console.log(`spans loaded at the end: ${got.spans}`)
for (const w of wrong) console.error(w)
process.exit(wrong.length || !(at(got.gaps, 0.95) <= 33) ? 1 : 0)
