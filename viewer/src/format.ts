// Formats numbers, with the same digits as the text reports.

export const UNIT_COUNT = 0;
export const UNIT_NANOSECONDS = 1;
export const UNIT_BYTES = 2;

const TIME: [string, number][] = [['s', 1e9], ['ms', 1e6], ['µs', 1e3], ['ns', 1]];
const SIZE: [string, number][] = [['TiB', 1024 ** 4], ['GiB', 1024 ** 3], ['MiB', 1024 ** 2], ['KiB', 1024], ['B', 1]];

/** `1.23 s`, `456 ms`, `12.3 µs`, `3 min 20 s`. */
export function duration(ns: number): string {
  const minutes = Math.floor(ns / 60e9);
  const pad = (n: number) => String(n).padStart(2, '0');
  if (minutes >= 60) return `${Math.floor(minutes / 60)} h ${pad(minutes % 60)} min`;
  if (minutes >= 2) return `${minutes} min ${pad(Math.floor(ns % 60e9 / 1e9))} s`;
  return scaled(ns, TIME);
}

/** `512 B`, `1.50 MiB`. */
export const bytes = (size: number): string => scaled(size, SIZE);

/** `4,812`. */
export const count = (number: number): string => String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, ',');

/** `1.05`, `2.4`, `18`: more digits would be false precision for a bound. */
export const times = (factor: number): string => factor.toFixed(factor < 1.995 ? 2 : factor < 9.95 ? 1 : 0);

/** A value in its metric's unit. */
export function amount(value: number, unit: number): string {
  if (unit === UNIT_NANOSECONDS) return duration(value);
  return unit === UNIT_BYTES ? bytes(value) : count(value);
}

/** `12.3 %`; never 0 for a value above 0. */
export function share(value: number, whole: number): string {
  const percent = whole ? 100 * value / whole : 0;
  return (percent > 0 && percent < .01 ? '<0.01' : percent.toFixed(percent < 10 ? 2 : 1)) + ' %';
}

function scaled(value: number, units: [string, number][]): string {
  const sign = value < 0 ? '−' : '', size = Math.abs(value);
  // 999.6 of one unit would be shown as 1000 of it.
  const [name, of] = units.find(([, unit]) => size >= .9995 * unit) ?? units.at(-1)!;
  const amount = size / of;
  const decimals = of === 1 ? 0 : amount < 9.995 ? 2 : amount < 99.95 ? 1 : 0;
  return `${sign}${amount.toFixed(decimals)} ${name}`;
}
