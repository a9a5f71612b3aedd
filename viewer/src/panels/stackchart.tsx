// Stack chart.

import type { PanelProps } from '../panel.ts';

export function StackChartPanel(_: PanelProps) {
  return <h2>Stack chart</h2>;
}
