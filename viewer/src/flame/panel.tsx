// The flame graph.

import type { PanelProps } from '../panel.ts';

export function FlamePanel(_: PanelProps) {
  return <h2>Flame</h2>;
}
