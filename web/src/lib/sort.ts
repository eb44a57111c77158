// SPDX-License-Identifier: Apache-2.0

// The order of a table, as an address has it.

export function sortOrder(s: string | undefined): { key: string; up: boolean } | null {
  if (!s) return null
  return s.startsWith('up:') ? { key: s.slice(3), up: true } : { key: s, up: false }
}
