// SPDX-License-Identifier: Apache-2.0

// Measures the page of a recording: node test/bench.mjs PROFINFER FILE.pinf. Prints the report's size, how
// long writing it took, the time to the first view, of switching to each view, and of the graph's layout;
// then frame times, where test/frames.mjs is there.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { launch, open, ready } from './browser.mjs'

const [program, file] = process.argv.slice(2)
if (!program || !file) {
  console.error('usage: bench.mjs PROFINFER FILE.pinf')
  process.exit(2)
}
const dir = mkdtempSync(join(tmpdir(), 'profinfer'))
const out = join(dir, 'report.html')
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]
const say = (what, value, unit, limits = '') =>
  console.log(
    `${what.padEnd(34)} ${value.toFixed(unit === 'MB' ? 2 : 0).padStart(8)} ${unit.padEnd(3)} ${limits}`,
  )

try {
  const began = performance.now()
  execFileSync(program, ['report', '-i', file, '-o', out], { stdio: ['ignore', 'ignore', 'inherit'] })
  say('writing the report', performance.now() - began, 'ms')
  say('size of the report', statSync(out).size / 1e6, 'MB', 'must be below 6, aim 3')

  const browser = await launch()
  const url = pathToFileURL(out).href
  // From the navigation's start to the frame in which the view is there, on the page's own clock.
  const first = async (hash) => {
    const { page, context, wrong } = await open(browser, 'about:blank')
    await context.addInitScript(() => {
      const seen = new MutationObserver(() => {
        if (document.querySelector('#view [data-ready]'))
          requestAnimationFrame(() => (window.__first ??= performance.now()), seen.disconnect())
      })
      seen.observe(document, {
        childList: true,
        subtree: true,
        attributes: true,
        attributeFilter: ['data-ready'],
      })
    })
    await page.goto(url + hash)
    await page.waitForFunction(() => window.__first, null, { timeout: 60000 })
    const t = await page.evaluate(() => window.__first)
    const layout = Number(
      await page.evaluate(() => document.querySelector('[data-layout-ms]')?.dataset.layoutMs ?? NaN),
    )
    await context.close()
    const bad = wrong.filter((w) => !w.startsWith('request: file:'))
    if (bad.length) console.error(bad.join('\n'))
    return { t, layout }
  }
  for (const v of ['summary', 'dag', 'time', 'stat']) {
    const runs = []
    for (let i = 0; i < 5; i++) runs.push(await first('#' + v))
    say(
      `time to the first view, ${v}`,
      median(runs.map((r) => r.t)),
      'ms',
      v === 'summary' ? 'must be below 1500, aim 500; median of 5' : '',
    )
    if (v === 'dag' && Number.isFinite(runs[0].layout))
      say('layout of the graph', median(runs.map((r) => r.layout)), 'ms', 'must be below 1000; median of 5')
  }
  // All layers by themselves is the largest graph that the view draws.
  const { page, context } = await open(browser, url + '#dag?all=1')
  await ready(page, 'dag', 60000)
  const all = Number(
    await page.evaluate(() => document.querySelector('[data-layout-ms]')?.dataset.layoutMs ?? NaN),
  )
  if (Number.isFinite(all)) say('layout of the graph, all layers', all, 'ms')
  await context.close()
  await browser.close()
  const frames = fileURLToPath(new URL('frames.mjs', import.meta.url))
  if (existsSync(frames))
    process.exitCode = spawnSync(process.execPath, [frames, out], { stdio: 'inherit' }).status ?? 1
} finally {
  rmSync(dir, { recursive: true, force: true })
}
