// SPDX-License-Identifier: Apache-2.0

// Runs one suite of tests on pages: node test/suite.mjs SUITE < PLAN. The plan is JSON, {"pages": [{"name",
// "url", ...}], ...}; a line of JSON is printed for each test: {"test": NAME, "wrong": [TEXT...], "data":
// ...}. internal/browser makes the pages and reads the lines.
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { launch, listener } from './browser.mjs'

const [name] = process.argv.slice(2)
const { tests } = await import(`./${name}.test.mjs`)
const plan = JSON.parse(readFileSync(0, 'utf8'))
const net = await listener()
const browser = await launch(net.url)
const report = (test, wrong, data) => console.log(JSON.stringify({ test, wrong, data }))

const todo = tests(plan, net)
async function work() {
  for (let t; (t = todo.shift());) {
    try {
      const { wrong, data } = await t.run(browser)
      report(t.name, wrong, data)
    } catch (e) {
      report(t.name, [`the test failed: ${e.message.split('\n').slice(0, 3).join(' ')}`])
    }
  }
}
await Promise.all(Array.from({ length: plan.parallel ?? Math.max(4, availableParallelism()) }, work))
await browser.close()
net.close()
// Nothing may leave the machine, whoever in a page asks. Chromium itself asks its makers for updates, in
// vain.
report(
  'network',
  net.asked
    .filter((a) => !/^\S+ (https?:\/\/)?[\w.-]+\.google(apis)?\.com[:/]/.test(a))
    .map((a) => `the browser asked for ${a}`),
)
