// Zooms time with the wheel.

import type { Range } from '../state.ts';

/**
 * The ranges after a turn of the wheel at `time`: the last one narrower or wider, or a new one inside it
 * when `fresh`. A range as wide as the one around it is removed.
 */
export function wheelRanges(ranges: readonly Range[], whole: Range, time: number, factor: number, fresh: boolean): readonly Range[] {
  const around = fresh ? ranges : ranges.slice(0, -1);
  const [from, to] = ranges.at(-1) ?? whole, [least, most] = around.at(-1) ?? whole;
  const next: Range = [Math.round(Math.max(least, time - (time - from) * factor)), Math.round(Math.min(most, time + (to - time) * factor))];
  if (next[1] - next[0] < 1000) return ranges;
  if (next[0] <= least && next[1] >= most) return around;
  return [...around, next];
}
