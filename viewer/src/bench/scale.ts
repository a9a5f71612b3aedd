// Positions along an axis.

/** From values to pixels, with a little room on both sides. */
export interface Scale { low: number; high: number; at: (value: number) => number }

const ROOM = .04;

/** Undefined without values. `must`: values that the axis always includes. */
export function scale(values: Iterable<number>, from: number, to: number, must: readonly number[] = []): Scale | undefined {
  let low = Infinity, high = -Infinity, count = 0;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    [low, high, count] = [Math.min(low, value), Math.max(high, value), count + 1];
  }
  if (!count) return undefined;
  for (const value of must) [low, high] = [Math.min(low, value), Math.max(high, value)];
  const room = Math.max((high - low) * ROOM, Math.abs(high) * 1e-6, Number.MIN_VALUE);
  const [left, right] = [low - room, high + room];
  return { low, high, at: value => from + (value - left) / (right - left) * (to - from) };
}

/** Round values between two, about `wanted` of them: multiples of 1, 2 or 5 times a power of ten. */
export function roundValues(low: number, high: number, wanted: number): number[] {
  const room = (high - low) / Math.max(1, wanted);
  if (!(room > 0) || !Number.isFinite(room)) return [];
  const power = 10 ** Math.floor(Math.log10(room)), step = [1, 2, 5, 10].map(times => times * power).find(step => step >= room * .999)!;
  const first = Math.ceil(low / step - 1e-9), out: number[] = [];
  for (let at = first; at * step <= high + step * 1e-9 && out.length < 50; at++) out.push(at * step);
  return out;
}

/** A ratio as a change: `−11.6 %`. */
export function change(ratio: number): string {
  const percent = (ratio - 1) * 100;
  if (Math.abs(percent) < .05) return '0.0 %';
  return `${percent < 0 ? '−' : '+'}${Math.abs(percent).toFixed(1)} %`;
}
