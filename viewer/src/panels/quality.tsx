// Quality: what the profile says about itself.

import type { PanelProps } from '../panel.ts';

export function QualityPanel(_: PanelProps) {
  return <h2>Quality</h2>;
}

/** Always in sight, above the timeline, when something is wrong; nothing otherwise. */
export function QualityBanner(_: PanelProps) {
  return null;
}
