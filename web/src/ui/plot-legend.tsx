// SPDX-License-Identifier: Apache-2.0

// Marks of plots, as a legend draws them.

export type Shape =
  | 'circle'
  | 'square'
  | 'triangle'
  | 'diamond'
  | 'open-circle'
  | 'open-square'
  | 'open-triangle'
  | 'open-diamond'

const paths: Record<string, string> = {
  circle: 'M6 2a4 4 0 1 1 0 8a4 4 0 1 1 0-8z',
  square: 'M2.5 2.5h7v7h-7z',
  triangle: 'M6 1.5l4.5 8h-9z',
  diamond: 'M6 1l5 5l-5 5l-5-5z',
  line: 'M0 5h12v2h-12z',
  area: 'M0 1h12v10h-12z',
}

export function Swatch({
  color,
  shape,
  name,
}: {
  color: string
  shape: Shape | 'line' | 'area'
  name: string
}) {
  const open = shape.startsWith('open-')
  return (
    <span class="swatch">
      <svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">
        <path
          d={paths[shape.replace('open-', '')]}
          fill={open ? 'none' : color}
          stroke={open ? color : 'none'}
          stroke-width="1.4"
        />
      </svg>
      {name}
    </span>
  )
}
