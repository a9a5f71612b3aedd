// Formats changes.

import { amount } from '../format.ts';
import type { Change } from './changes.ts';

/** `+1.20 s`, `−300 ms`, `0`. */
export function difference({ before, after }: Change, unit: number): string {
  const by = after - before;
  return by === 0 ? '0' : (by > 0 ? '+' : '−') + amount(Math.abs(by), unit);
}

/** `×0.75`, `new`, `removed`; empty where neither side has a value. */
export function ratio({ before, after, ratio }: Change): string {
  if (!before) return after ? 'new' : '';
  if (!after) return 'removed';
  const of = Number.isNaN(ratio) ? after / before : ratio;
  return `×${of.toFixed(of < 10 ? 2 : 1)}`;
}

/** `0.72 to 0.78` for the ratio of several runs, else `± 12 ms` for the difference; empty for counted values. */
export function interval({ before, after, low, high, margin }: Change, unit: number): string {
  if (before && after && Number.isFinite(high) && low !== high) return `${low.toFixed(2)} to ${high.toFixed(2)}`;
  return Number.isNaN(margin) ? '' : `± ${amount(margin, unit)}`;
}

/** `0.012`, `<0.001`; empty where it is not known. */
export const qValue = ({ q }: Change): string => (Number.isNaN(q) ? '' : q < .001 ? '<0.001' : q.toFixed(3));

/** `3.00 s → 1.20 s`. */
export const beforeAfter = ({ before, after }: Change, unit: number): string => `${amount(before, unit)} → ${amount(after, unit)}`;

/** `−1.80 s (×0.40, 95 %: 0.38 to 0.42, q 0.012)`. */
export function worth(change: Change, unit: number): string {
  const sure = interval(change, unit), q = qValue(change);
  const parts = [ratio(change), sure && `95 %: ${sure}`, q && `q ${q}`].filter(Boolean);
  return difference(change, unit) + (parts.length ? ` (${parts.join(', ')})` : '');
}
