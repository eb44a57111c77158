// SPDX-License-Identifier: Apache-2.0

// Checks the page's sources: their types, and that imports go one way (imports.mjs). Who imports whom is what
// TypeScript itself resolved (tsc --explainFiles), types included. With --graph it says how many files,
// imports and circles there are.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { circles, faults, importsOf } from './imports.mjs'

const run = spawnSync(
  process.execPath,
  ['node_modules/typescript/lib/tsc.js', '--noEmit', '--explainFiles'],
  {
    cwd: fileURLToPath(new URL('.', import.meta.url)),
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  },
)
if (run.error) throw run.error
const graph = importsOf(run.stdout)
const bad = faults(graph)
if (run.status !== 0)
  bad.push(...run.stdout.split('\n').filter((l) => l.includes('error TS')), run.stderr.trim())
const n = [...graph.values()].reduce((k, s) => k + s.size, 0)
if (n < graph.size) bad.push('tsc --explainFiles does not print imports as it did: nothing was checked')
for (const b of bad.filter(Boolean)) console.error(b)
if (process.argv.includes('--graph'))
  console.log(`${graph.size} files, ${n} imports, ${circles(graph).length} circles`)
process.exit(bad.length ? 1 : 0)
