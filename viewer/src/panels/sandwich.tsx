// Sandwich.

import type { PanelProps } from '../panel.ts';

export function SandwichPanel(_: PanelProps) {
  return <h2>Sandwich</h2>;
}
