// SPDX-License-Identifier: Apache-2.0

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { operatorKinds } from '../../src/api/types'
import { backendColor } from '../../src/lib/backend-color'
import { diverge, ink, kindColors, sequential } from '../../src/lib/color'

const light = (css: string) =>
  css
    .match(/\d+/g)!
    .map(Number)
    .reduce((a, b, i) => a + b * [0.2126, 0.7152, 0.0722][i], 0)

test('scales rise in lightness and end at their ends', () => {
  const steps = Array.from({ length: 11 }, (_, i) => light(sequential(i / 10)))
  steps.slice(1).forEach((v, i) => assert.ok(v > steps[i], `step ${i}: ${v} after ${steps[i]}`))
  assert.equal(sequential(-5), sequential(0))
  assert.equal(sequential(7), sequential(1))
  assert.equal(sequential(NaN), sequential(0))
  assert.equal(diverge(0), 'rgb(235,235,235)')
  assert.notEqual(diverge(-1), diverge(1))
})

test('text is read on its colour', () => {
  assert.equal(ink('#ffffff'), '#000')
  assert.equal(ink('#000000'), '#fff')
  assert.equal(ink('rgb(255,222,72)'), '#000')
  assert.equal(ink('rgb(0,32,76)'), '#fff')
  assert.equal(ink('#00a000'), '#000')
  assert.equal(ink('#0000ff'), '#fff')
})

test('each kind of operator and each backend has a colour', () => {
  for (const k of operatorKinds) assert.match(kindColors[k].join(), /^#[0-9a-f]{6},#[0-9a-f]{6}$/)
  assert.equal(new Set(operatorKinds.map((k) => kindColors[k][0])).size, operatorKinds.length)
  assert.equal(backendColor('Made up', 'light'), backendColor('Made up', 'light'))
  assert.notEqual(backendColor('CPU', 'light'), backendColor('Vulkan', 'light'))
  assert.match(backendColor('__proto__', 'dark'), /^#/)
})
