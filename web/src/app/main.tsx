// SPDX-License-Identifier: Apache-2.0

// The page's entry: unpacks what the first view needs and draws the shell.
import './style.css'
import { render } from 'preact'
import { openReport } from '../api/load'
import { fontReady } from '../ui/font'
import { Shell } from './shell'

const root = document.getElementById('app')!
document.getElementById('loading')?.remove() // this runs once the whole file is there
Promise.all([openReport(), fontReady()]).then(
  ([report]) => render(<Shell report={report} />, root),
  (e) => render(<p class="fatal">This page cannot be shown: {String(e?.message ?? e)}</p>, root),
)
