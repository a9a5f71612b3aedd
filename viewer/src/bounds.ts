// Places in sorted columns: binary search and quantiles.

/** The first of `count` places where `isBefore` no longer holds. */
export function lowerBound(count: number, isBefore: (at: number) => boolean): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The smallest of the sorted values that at least `percent` percent of them do not exceed; 0 without values. */
export const quantile = (sorted: Float64Array, percent: number): number => sorted[Math.max(1, Math.ceil(sorted.length * percent / 100)) - 1] ?? 0;
