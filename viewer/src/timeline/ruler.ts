// Round times for the axis.

/** Times from `from` to `to` (nanoseconds), at most about one per `room` of `width` pixels, at 1, 2 or 5 times a power of ten. */
export function ticks(from: number, to: number, width: number, room = 110): { at: number; text: string }[] {
  const wanted = (to - from) / Math.max(1, width / room);
  const power = 10 ** Math.floor(Math.log10(Math.max(wanted, 1)));
  const step = [1, 2, 5, 10].map(times => times * power).find(step => step >= wanted) ?? power * 10;
  const out: { at: number; text: string }[] = [];
  for (let n = Math.ceil(from / step); n * step <= to && out.length < 1000; n++) out.push({ at: n * step, text: clock(n * step, step) });
  return out;
}

/** A time with the precision that steps of this size need: `1.25 s`, `850 µs`, `2:05 min`. */
export function clock(time: number, step: number): string {
  if (time === 0) return '0';
  const [unit, size] = time >= 1e9 ? ['s', 1e9] as const : time >= 1e6 ? ['ms', 1e6] as const : time >= 1e3 ? ['µs', 1e3] as const : ['ns', 1] as const;
  const decimals = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / size) - 1e-9)));
  if (time >= 120e9) {
    const minutes = Math.floor(time / 60e9), seconds = (time - minutes * 60e9) / 1e9;
    return `${minutes}:${seconds.toFixed(decimals).padStart(decimals ? decimals + 3 : 2, '0')} min`;
  }
  return `${(time / size).toFixed(decimals)} ${unit}`;
}
