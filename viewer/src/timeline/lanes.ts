// Puts spans that overlap on different lanes.

/** Each of the spans (sorted by start) goes to the first lane that is free; `lanes` gets it. Gives how many lanes there are. */
export function packLanes(spans: ArrayLike<number>, start: Float64Array, end: Float64Array, lanes: Uint32Array): number {
  // A tournament of when lanes become free: the first lane that is free in time is found in steps, not lane by lane, since spans
  // that all overlap have as many lanes.
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
    // A span of no length takes its moment.
    free[at] = Number.isNaN(end[span]!) ? Infinity : Math.max(end[span]!, begin + 1);
    for (at >>= 1; at >= 1; at >>= 1) free[at] = Math.min(free[2 * at]!, free[2 * at + 1]!);
  }
  return count;
}
