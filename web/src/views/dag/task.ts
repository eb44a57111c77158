// SPDX-License-Identifier: Apache-2.0

import type { Task } from '../../api/task'
import type { LayoutRequest, GraphLayout } from './layout'

/** Lays out a graph: layout.ts, in the worker. */
export const layoutTask: Task<LayoutRequest, GraphLayout> = { name: 'layout' }
