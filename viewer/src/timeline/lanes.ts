// Puts spans that overlap on different lanes.

/** More than this are not told apart: the last lane takes the rest. */
export const MOST_LANES = 4;

/** Spans are sorted by start; each goes to the first lane that is free. */
export function packLanes(start: Float64Array, end: Float64Array): { lanes: Uint8Array; count: number } {
  const lanes = new Uint8Array(start.length);
  const free: number[] = [];
  for (let span = 0; span < start.length; span++) {
    let lane = free.findIndex(until => until <= start[span]!);
    if (lane < 0) lane = Math.min(free.length, MOST_LANES - 1);
    const until = Number.isNaN(end[span]!) ? Infinity : end[span]!;
    free[lane] = Math.max(free[lane] ?? 0, until);
    lanes[span] = lane;
  }
  return { lanes, count: free.length };
}
