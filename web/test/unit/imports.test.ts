// SPDX-License-Identifier: Apache-2.0

// The check of imports sees what it has to.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { circles, faults, importsOf } from '../../imports.mjs'

const graph = (o: Record<string, string[]>) => new Map(Object.entries(o).map(([k, v]) => [k, new Set(v)]))

test('imports against the direction', () => {
  const wrong = (from: string, to: string) => faults(graph({ [from]: [to], [to]: [] })).length
  const bad: [string, string][] = [
    ['src/lib/a.ts', 'src/ui/b.tsx'],
    ['src/api/a.ts', 'src/lib/b.ts'],
    ['src/ui/a.tsx', 'src/views/dag/b.ts'],
    ['src/views/dag/a.ts', 'src/app/b.ts'],
    ['src/views/dag/a.ts', 'src/views/time/b.ts'],
    ['src/views/stat/slow/a.tsx', 'src/views/stat/faults/b.tsx'],
  ]
  for (const [from, to] of bad) assert.equal(wrong(from, to), 1, `${from} ${to}`)
  const good: [string, string][] = [
    ['src/app/a.ts', 'src/views/dag/b.ts'],
    ['src/views/dag/a.ts', 'src/views/dag/b.ts'],
    ['src/views/stat/slow/a.tsx', 'src/views/stat/b.ts'],
    ['src/ui/a.tsx', 'src/api/b.ts'],
  ]
  for (const [from, to] of good) assert.equal(wrong(from, to), 0, `${from} ${to}`)
  assert.equal(faults(graph({ 'src/lib/a.ts': ['preact'] })).length, 1)
  assert.equal(faults(graph({ 'src/ui/a.ts': ['preact'] })).length, 0)
  assert.equal(faults(graph({ 'src/other.ts': ['preact'] })).length, 1)
})

test('circles', () => {
  assert.deepEqual(circles(graph({ a: ['b'], b: ['c'], c: ['a', 'd'], d: [], e: ['a'] })), [['a', 'b', 'c']])
  assert.deepEqual(circles(graph({ a: ['b', 'c'], b: ['c'], c: [] })), [])
})

test('what tsc tells of imports', () => {
  const g = importsOf(
    `src/lib/a.ts\n   Matched by include pattern 'src' in 'tsconfig.json'\n   Imported via './a' from file 'src/lib/b.ts'\nnode_modules/preact/src/index.d.ts\n   Imported via "preact/hooks" from file 'src/ui/c.tsx' with packageId 'preact'\nsrc/lib/b.ts(1,2): error TS1: no\n`,
  )
  assert.deepEqual(
    [...g].map(([k, v]) => [k, [...v]]),
    [
      ['src/lib/a.ts', []],
      ['src/lib/b.ts', ['src/lib/a.ts']],
      ['src/ui/c.tsx', ['preact']],
    ],
  )
})
