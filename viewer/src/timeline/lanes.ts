// Puts overlapping spans on different lanes.

/**
 * Puts each of the spans (sorted by start) on the first free lane and stores it in `lanes`. Returns the
 * number of lanes.
 */
export function packLanes(spans: ArrayLike<number>, start: Float64Array, end: Float64Array, lanes: Uint32Array): number {
  // A tournament tree of the times when lanes become free: finds the first free lane in logarithmic time,
  // because spans that all overlap need as many lanes as there are spans.
  let size = 1;
  while (size < spans.length) size *= 2;
  const free = new Float64Array(2 * size).fill(-Infinity);
  let count = 0;
  for (let i = 0; i < spans.length; i++) {
    const span = spans[i]!, begin = start[span]!;
    let at = 1;
    while (at < size) at = free[2 * at]! <= begin ? 2 * at : 2 * at + 1;
    const lane = at - size;
    lanes[span] = lane;
    count = Math.max(count, lane + 1);
    // A span of length zero occupies one nanosecond.
    free[at] = Number.isNaN(end[span]!) ? Infinity : Math.max(end[span]!, begin + 1);
    for (at >>= 1; at >= 1; at >>= 1) free[at] = Math.min(free[2 * at]!, free[2 * at + 1]!);
  }
  return count;
}
