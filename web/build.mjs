// SPDX-License-Identifier: Apache-2.0

// Bundles the page into views/report/bundle, where Go embeds it. Same sources, same bytes.
import { build } from 'esbuild'
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const here = fileURLToPath(new URL('.', import.meta.url))
const outdir = process.argv[2] ?? here + '../views/report/bundle'

const { metafile } = await build({
  absWorkingDir: here,
  entryPoints: { app: 'src/app/main.tsx', worker: 'src/app/worker.ts' },
  outdir,
  bundle: true,
  minify: true,
  format: 'iife',
  target: ['chrome110', 'firefox115', 'safari16.4'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  charset: 'ascii', // a script's hash is that of its text in any encoding
  loader: { '.woff2': 'dataurl' },
  legalComments: 'inline',
  metafile: true,
  logLevel: 'warning',
})

// The licences of what was bundled ask for their text to come along.
const bundled = new Set(
  Object.keys(metafile.inputs)
    .map((f) => f.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1])
    .filter(Boolean),
)
let text = ''
for (const name of [...bundled].sort()) {
  const dir = `${here}node_modules/${name}/`
  const { version, license } = JSON.parse(readFileSync(dir + 'package.json', 'utf8'))
  const file = readdirSync(dir).find((f) => /^licen[cs]e(\.|$)/i.test(f))
  if (!file) throw new Error(`${name} has no licence file: nothing can be bundled without one`)
  text += `${name} ${version} (${license})\n\n${readFileSync(dir + file, 'utf8')
    .replaceAll('\r\n', '\n')
    .trim()}\n\n\n`
}
writeFileSync(outdir + '/LICENSES.txt', text.trimEnd() + '\n')
