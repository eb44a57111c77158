// SPDX-License-Identifier: Apache-2.0

import type { Task } from '../../api/task'
import type { Ask, Places } from './layout'

/** Lays out a graph: layout.ts, in the worker. */
export const layoutTask: Task<Ask, Places> = { name: 'layout' }
