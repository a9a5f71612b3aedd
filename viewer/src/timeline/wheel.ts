// Zooms and moves the visible time: with the wheel, and in panels on the same axis.

import type { Range } from '../state.ts';

/** A shorter time is not shown, in nanoseconds. */
const LEAST = 1000;

/**
 * The ranges after a turn of the wheel at `time`: the last one narrower or wider, or a new one inside it
 * when `fresh`. A range as wide as the one around it is removed.
 */
export function wheelRanges(ranges: readonly Range[], whole: Range, time: number, factor: number, fresh: boolean): readonly Range[] {
  const [from, to] = ranges.at(-1) ?? whole;
  return shownRanges(ranges, whole, [time - (time - from) * factor, time + (to - time) * factor], fresh);
}

/** The same for a given time: it replaces the last range, or is a new one inside it when `fresh`. */
export function shownRanges(ranges: readonly Range[], whole: Range, [from, to]: Range, fresh: boolean): readonly Range[] {
  const around = fresh ? ranges : ranges.slice(0, -1), [least, most] = around.at(-1) ?? whole;
  const next: Range = [Math.round(Math.max(least, from)), Math.round(Math.min(most, to))];
  if (next[1] - next[0] < LEAST) return ranges;
  return next[0] <= least && next[1] >= most ? around : [...around, next];
}

/** The last range moved by a time, inside the one around it. */
export function movedRanges(ranges: readonly Range[], whole: Range, by: number): readonly Range[] {
  const range = ranges.at(-1), [least, most] = ranges.at(-2) ?? whole;
  if (!range) return ranges;
  const moved = Math.max(least - range[0], Math.min(most - range[1], by));
  return shownRanges(ranges, whole, [range[0] + moved, range[1] + moved], false);
}
