// SPDX-License-Identifier: Apache-2.0

// Runs the tests of test/unit in Node.js: what of the page needs no browser. node test/unit.mjs [arguments of
// node --test]
import { build } from 'esbuild'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = fileURLToPath(new URL('./unit/', import.meta.url))
const out = mkdtempSync(join(tmpdir(), 'profinfer-unit-'))
try {
  const tests = readdirSync(here).filter((f) => f.endsWith('.test.ts'))
  await build({
    absWorkingDir: here,
    entryPoints: tests,
    outdir: out,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    format: 'esm',
    sourcemap: 'inline',
    logLevel: 'warning',
  })
  const run = spawnSync(
    process.execPath,
    [
      '--enable-source-maps',
      '--test',
      ...process.argv.slice(2),
      ...tests.map((f) => join(out, f.replace(/\.ts$/, '.mjs'))),
    ],
    { stdio: 'inherit' },
  )
  process.exitCode = run.status ?? 1
} finally {
  rmSync(out, { recursive: true, force: true })
}
