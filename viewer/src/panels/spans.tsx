// Spans.

import type { PanelProps } from '../panel.ts';

export function SpansPanel(_: PanelProps) {
  return <h2>Spans</h2>;
}
