// SPDX-License-Identifier: Apache-2.0

// Uses ProfTime as a person does: node test/time.mjs PAGE The page is a report of one run with two phases and
// operators. Ends with 1 where something is not as it should be.
import assert from 'node:assert/strict'
import { pathToFileURL } from 'node:url'
import { launch, open, ready } from './browser.mjs'

const [target] = process.argv.slice(2)
if (!target) {
  console.error('usage: time.mjs PAGE')
  process.exit(2)
}
const url = /^https?:/.test(target) ? target : pathToFileURL(target).href
const browser = await launch()
try {
  const { page, wrong } = await open(browser, url + '#time')
  await ready(page, 'time')
  await page.waitForSelector('.time[data-idle]')
  const canvas = page.locator('.time-stage canvas').last()
  const box = await canvas.boundingBox()
  const params = async () => {
    await page.waitForTimeout(450)
    return Object.fromEntries(
      new URLSearchParams((await page.evaluate(() => location.hash)).split('?')[1] ?? ''),
    )
  }
  const values = (sel) => page.$$eval(sel, (all) => all.map((e) => Number(e.dataset.v)))
  const idle = await page.$$eval('table[aria-label="threads over the whole run"] tbody tr', (rows) =>
    rows.map((r) => [r.dataset.id, ...[...r.querySelectorAll('.fig')].map((f) => Number(f.dataset.v))]),
  )
  assert.ok(idle.length > 0, 'threads are told')

  // A range over all of the run has what its threads have.
  await page.keyboard.down('Shift')
  await page.mouse.move(box.x + 1, box.y + 8)
  await page.mouse.down()
  await page.mouse.move(box.x + box.width / 2, box.y + 8)
  await page.mouse.move(box.x + box.width - 1, box.y + 8)
  await page.mouse.up()
  await page.keyboard.up('Shift')
  await page.waitForSelector('[data-range="ready"]')
  const inRange = await page.$$eval('table[aria-label="range by thread"] tbody tr', (rows) =>
    rows.map((r) => [r.dataset.id, ...[...r.querySelectorAll('.fig')].map((f) => Number(f.dataset.v))]),
  )
  assert.deepEqual(
    new Map(inRange.map((r) => [r[0], r])),
    new Map(idle.map((r) => [r[0], r])),
    'a range over everything has the threads’ sums',
  )
  assert.match((await params()).range ?? '', /^-?\d+-\d+$/)
  await page.keyboard.press('Escape')
  assert.equal((await params()).range, undefined)

  // The slowest step, then an operator of it.
  await page.getByRole('button', { name: 'slowest', exact: true }).click()
  await page.waitForSelector('[data-selected="step"]')
  const [slow] = await values('.time-dur')
  const all = await page.$$eval('.time-dl', (l) => l.length)
  assert.ok(slow > 0 && all > 0)
  const at = await params()
  assert.ok(at.at, 'the step is in the address')
  await page.waitForSelector('.time[data-idle]')
  const rows = await page.$$eval('.time-label.thread', (l) =>
    l.map((e) => e.offsetTop + e.offsetHeight / 2 - 4),
  )
  await page.mouse.click(box.x + box.width * 0.9, box.y + rows[0])
  await page.waitForSelector('[data-selected="op"]')
  const op = await page.getAttribute('[data-selected="op"]', 'data-op')
  const [dur] = await values('.time-dur')
  const busy = await values('.time-busy')
  const wait = await values('.time-wait')
  const off = await values('.time-off')
  assert.equal(busy.length, rows.length, 'all its threads are listed')
  busy.forEach((b, i) => assert.ok(b + wait[i] + off[i] <= dur, 'no thread takes longer than the operator'))
  assert.equal((await params()).sel, op)

  // The same node in the step after and back again.
  await page.keyboard.press(']')
  await page.waitForFunction((was) => document.querySelector('[data-selected="op"]')?.dataset.op !== was, op)
  await page.keyboard.press('[')
  await page.waitForFunction((was) => document.querySelector('[data-selected="op"]')?.dataset.op === was, op)

  // Keys and wheel move and zoom.
  const before = await params()
  await canvas.focus()
  await page.keyboard.press('w')
  const zoomed = await params()
  assert.ok(zoomed.t1 - zoomed.t0 < before.t1 - before.t0, 'w zooms in')
  await page.keyboard.press('d')
  assert.ok((await params()).t0 > Number(zoomed.t0), 'd goes right')
  await page.mouse.move(box.x + box.width / 2, box.y + rows[0])
  await page.mouse.wheel(0, 300)
  assert.ok((await params()).t1 - (await params()).t0 > zoomed.t1 - zoomed.t0, 'the wheel zooms out')
  await page.keyboard.press('Home')
  const home = await params()

  // A link brings the same view again.
  await page.goto(`${url}#time?t0=${before.t0}&t1=${before.t1}&sel=${op}`)
  await page.waitForSelector(`[data-selected="op"][data-op="${op}"]`)
  const again = await params()
  assert.equal(again.t0, before.t0)
  assert.ok(again.t1 - again.t0 < home.t1 - home.t0)

  // Search goes from one to the next; a group folds.
  await page.keyboard.press('/')
  await page.keyboard.type('mul_mat')
  await page.keyboard.press('Enter')
  await page.waitForFunction((was) => document.querySelector('[data-selected="op"]')?.dataset.op !== was, op)
  const folds = page.locator('.time-label.group')
  await folds.first().click()
  assert.equal(await page.locator('.time-label.thread').count(), 0, 'the process is folded')
  await folds.first().click()
  assert.equal(await page.locator('.time-label.thread').count(), rows.length)
  assert.deepEqual(wrong, [])
  console.log('ProfTime: ok')
} finally {
  await browser.close()
}
