// Source.

import type { PanelProps } from '../panel.ts';

export function SourcePanel(_: PanelProps) {
  return <h2>Source</h2>;
}
