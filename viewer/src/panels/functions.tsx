// Functions.

import type { PanelProps } from '../panel.ts';

export function FunctionsPanel(_: PanelProps) {
  return <h2>Functions</h2>;
}
