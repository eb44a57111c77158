// SPDX-License-Identifier: Apache-2.0

import type { ViewProps } from '../shell'
import { Empty } from '../figure'

export function Statistics({ a }: ViewProps) {
  return <div data-ready><Empty>{a.file}</Empty></div>
}
