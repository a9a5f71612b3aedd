// Call tree.

import type { PanelProps } from '../panel.ts';

export function CallTreePanel(_: PanelProps) {
  return <h2>Call tree</h2>;
}
