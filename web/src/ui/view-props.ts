// SPDX-License-Identifier: Apache-2.0

// What the frame gives each view.
import type { Report, Run } from '../api/load'
import type { Route } from './route'

/** What each view gets. b is the run that a is compared with, null if there is none. */
export interface ViewProps {
  report: Report
  a: Run
  b: Run | null
  route: Route
}
