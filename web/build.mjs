// SPDX-License-Identifier: Apache-2.0

// Bundles the page into views/report/bundle, where Go embeds it. Same sources, same bytes.
import { build } from 'esbuild'
import { fileURLToPath } from 'node:url'

const here = fileURLToPath(new URL('.', import.meta.url))
const outdir = process.argv[2] ?? here + '../views/report/bundle'

await build({
  absWorkingDir: here,
  entryPoints: { app: 'src/main.tsx', worker: 'src/worker.ts' },
  outdir,
  bundle: true,
  minify: true,
  format: 'iife',
  target: ['chrome110', 'firefox115', 'safari16.4'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  charset: 'ascii', // a script's hash is that of its text in any encoding
  legalComments: 'inline',
  logLevel: 'warning',
})
