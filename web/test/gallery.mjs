// SPDX-License-Identifier: Apache-2.0

// Takes all pictures of the documents: node test/gallery.mjs DIR OUT [NAME...]. DIR holds what
// scripts/gallery.sh made: reports, and tables of what has to be found in them; the README's pictures are of
// the sample's page. Ends with 1 if a page had errors, asked for anything, or drew nothing.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { launch, open } from './browser.mjs'

const [dir, out, ...only] = process.argv.slice(2)
if (!dir || !out) {
  console.error('usage: gallery.mjs DIR OUT [NAME...]')
  process.exit(2)
}

const table = (name) =>
  readFileSync(join(dir, `${name}.ndjson`), 'utf8')
    .trim()
    .split('\n')
    .filter(Boolean)
    .map((l) => JSON.parse(l))

/** When the timeline's time 0 was, on the clock of the tables. */
function zero(report) {
  const page = readFileSync(join(dir, `${report}.html`), 'utf8')
  const text = /<script type="text\/plain" id="s\/0\/time">([^<]*)</.exec(page)
  if (!text) throw new Error(`${report}.html has no timeline`)
  return Number(JSON.parse(gunzipSync(Buffer.from(text[1], 'base64')).toString()).start_ns)
}

const link = (view, params) => `${view}?${new URLSearchParams(params)}`
const span = (z, from, to) => ({ t0: Math.round(from - z), t1: Math.round(to - z) })

/** The operators of the decode step whose duration is the median: one as most are. */
function typicalStep(name) {
  const steps = table(`${name}-steps`)
    .filter((s) => s.phase === 'decode')
    .sort((a, b) => a.dur_ns - b.dur_ns)
  const step = steps[steps.length >> 1]
  return {
    step,
    ops: table(`${name}-ops`)
      .filter((o) => o.step === step.step)
      .sort((a, b) => a.start_ns - b.start_ns),
  }
}

const end = (o) => o.start_ns + o.dur_ns

/** All operators of one layer, in their order on all threads. */
function layerLink() {
  const ops = typicalStep('llama').ops.filter((o) => o.layer === 5)
  const from = ops[0].start_ns
  const to = end(ops[ops.length - 1])
  return link('time', span(zero('llama'), from - 0.03 * (to - from), to + 0.03 * (to - from)))
}

/** A norm, which one thread computes while the others wait, between products that all share. */
function normLink() {
  const o = typicalStep('llama').ops.find(
    (x) => x.layer === 5 && x.block === 'norm' && x.weight?.includes('ffn_norm'),
  )
  return link('time', {
    ...span(zero('llama'), o.start_ns - 4 * o.dur_ns, end(o) + 5 * o.dur_ns),
    sel: o.op_id,
  })
}

/** From shortly before the other process came until it went. */
function intruder() {
  const there = table('interference-sched').filter((s) => s.next_comm === 'yes' && s.event === 'switch')
  if (there.length === 0) throw new Error('no process yes ran in interference.pinf')
  return [there[0].ts_ns, there[there.length - 1].ts_ns]
}

function intruderLink() {
  const [from, to] = intruder()
  return link('time', span(zero('interference'), from - 0.25 * (to - from), to + 0.1 * (to - from)))
}

/** Where it takes the core from a step, and gives it back. */
function takenLink() {
  const [from, to] = intruder()
  const steps = table('interference-steps')
    .filter((s) => s.start_ns < to && s.start_ns + s.dur_ns > from)
    .sort((a, b) => b.dur_ns - a.dur_ns)
  if (steps.length === 0) throw new Error('yes ran in no step of interference.pinf')
  return link('time', { step: steps[0].step })
}

/** A decode step that is split over two backends, and the one after it. */
function splitLink() {
  const steps = table('vulkan-steps')
    .filter((s) => s.phase === 'decode')
    .sort((a, b) => a.dur_ns - b.dur_ns)
  const s = steps[steps.length >> 1]
  return link('time', span(zero('vulkan'), s.start_ns - 0.05 * s.dur_ns, end(s) + 0.6 * s.dur_ns))
}

const dag = (block, color) => link('dag', { phase: 'decode', color, open: `k0,k0.${block}` })

const sample = fileURLToPath(new URL('../../docs/sample/llama-1b.html', import.meta.url))

const shots = [
  {
    file: 'report-summary.png',
    name: 'report-summary',
    page: sample,
    to: () => 'summary',
    size: [1200, 860],
  },
  {
    file: 'report-dag.png',
    name: 'report-dag',
    page: sample,
    to: () => link('dag', { phase: 'decode', open: 'k0,k0.ffn' }),
    size: [1200, 860],
  },
  {
    file: 'report-time.png',
    name: 'report-time',
    page: sample,
    to: () => link('time', { step: 4 }),
    size: [1200, 860],
  },
  {
    file: 'report-stat.png',
    name: 'report-stat',
    page: sample,
    to: () => link('stat', { tab: 'tables', by: 'weight', phase: 'decode' }),
    size: [1200, 860],
  },
  { name: '3-ffn', report: 'llama', to: () => dag('ffn', 'bandwidth'), size: [1000, 1000] },
  ...['llama', 'qwen', 'gemma'].map((m) => ({
    name: `4-attention-${m}`,
    report: m,
    to: () => dag('attention', 'kind'),
    size: [720, 1200],
  })),
  {
    name: '4-side-by-side',
    report: 'attention',
    to: () => `${dag('attention', 'kind')}&run=0&with=2`,
    size: [1440, 1100],
  },
  { name: '5-sequence', report: 'llama', to: layerLink, size: [1440, 560] },
  {
    name: '6-threads',
    report: 'llama',
    to: () => link('stat', { tab: 'threads', phase: 'decode' }),
    size: [1440, 800],
  },
  { name: '6-norm', report: 'llama', to: normLink, size: [1440, 840] },
  { name: '8-interference', report: 'interference', to: intruderLink, size: [1440, 560] },
  { name: '8-taken', report: 'interference', to: takenLink, size: [1440, 680] },
  {
    name: '9-growth',
    report: 'long',
    to: () => link('stat', { tab: 'steps', phase: 'decode', x: 'pos' }),
    size: [1440, 880],
  },
  { name: '10-products', report: 'types', to: () => link('stat', { tab: 'products' }), size: [1440, 620] },
  {
    name: '13-experts',
    report: 'experts',
    to: () => link('stat', { tab: 'experts', phase: 'decode' }),
    size: [1440, 900],
  },
  {
    name: '13-load',
    report: 'experts-warm',
    to: () => link('stat', { tab: 'experts', phase: 'decode' }),
    size: [1200, 900],
    large: true,
    part: '.experts .pair',
  },
  {
    name: '13-new',
    report: 'experts-short',
    to: () => link('stat', { tab: 'experts', phase: 'decode' }),
    size: [1000, 900],
    large: true,
    part: '[data-plot=experts-new]',
  },
  {
    name: '12-operators',
    report: 'backends',
    to: () => link('stat', { tab: 'backends', phase: 'prefill' }),
    size: [1440, 1160],
  },
  { name: 'roofline', report: 'llama', to: () => link('stat', { tab: 'roofline' }), size: [1440, 900] },
  {
    name: 'backends-step',
    report: 'vulkan',
    to: () => link('stat', { tab: 'backends', phase: 'decode' }),
    size: [1440, 900],
  },
  { name: 'backends-time', report: 'vulkan', to: splitLink, size: [1440, 640] },
]

const browser = await launch()
let bad = 0
for (const s of shots) {
  if (only.length && !only.includes(s.name)) continue
  const file = s.page ?? join(dir, `${s.report}.html`)
  if (!existsSync(file)) {
    if (s.large && !only.length) continue // recorded with --large only
    console.error(`${s.name}: ${file} is not there`)
    bad++
    continue
  }
  let wrong
  try {
    const [width, height] = s.size ?? [1440, 900]
    const opened = await open(browser, `${pathToFileURL(file).href}#${s.to()}`, {
      width,
      height,
      deviceScaleFactor: 1,
    })
    wrong = opened.wrong
    await opened.page.waitForSelector('#view [data-ready]', { timeout: 20000 })
    await opened.page.waitForTimeout(300) // what is drawn on canvases follows
    for (const e of await opened.page.locator('#view .empty').allTextContents())
      wrong.push(`nothing is drawn: ${e}`)
    await (s.part ? opened.page.locator(s.part).first() : opened.page).screenshot({
      path: join(out, s.file ?? `gallery-${s.name}.png`),
    })
    await opened.context.close()
  } catch (e) {
    wrong = [...(wrong ?? []), e.message]
  }
  for (const w of wrong) console.error(`${s.name}: ${w}`)
  bad += wrong.length
}
await browser.close()
process.exit(bad ? 1 : 0)
