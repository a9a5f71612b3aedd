// System calls in the selected time, by call and by the user's line: the table of `whyslow report syscalls`.

import { lowerBound, spanMask } from './aggregate.ts';
import { selection, shape } from './derive.ts';
import type { Model } from './model.ts';
import { NONE, type SampleTable } from './payload.ts';
import { namedLike } from './spanrows.ts';
import { timeRange, type State } from './state.ts';
import { chargedFunction, chargeOf } from './places.ts';

/** The calls of one kind from one line. Times are in nanoseconds. */
export interface SyscallRow {
  call: string;
  onlyWaits: boolean;
  /** A row of `charges`, or NONE. */
  charge: number;
  /** The function of the line; NONE when not known. */
  fn: number;
  count: number;
  failed: number;
  total: number;
  max: number;
  p50: number;
  p99: number;
  bytes: number;
  /** Errors, most frequent first. */
  errors: readonly (readonly [name: string, count: number])[];
  /** Files and other targets, most time first. */
  files: readonly (readonly [name: string, total: number])[];
}

interface Sum extends Pick<SyscallRow, 'call' | 'onlyWaits' | 'charge' | 'fn' | 'count' | 'failed' | 'total' | 'max' | 'bytes'> {
  bars: Map<number, number>;
  errors: Map<number, number>;
  files: Map<number, number>;
}

/** Most time first. A row counts in a time range when its last call returned in it. */
export function syscallRows(model: Model, state: State): SyscallRow[] {
  const { syscalls, syscallBars } = model.profile;
  const isSelected = selected(model, state);
  const sums = new Map<string, Sum>();
  const sumOf = new Map<number, Sum>();
  for (let row = 0; row < syscalls.count; row++) {
    if (!isSelected(row)) continue;
    const charge = chargeOf(model, syscalls.stack[row]!), key = `${syscalls.call[row]} ${charge}`;
    let sum = sums.get(key);
    if (!sum) {
      sum = { call: model.text(syscalls.call[row]!), onlyWaits: syscalls.onlyWaits[row] === 1, charge, fn: chargedFunction(model, charge), count: 0, failed: 0, total: 0, max: 0, bytes: 0, bars: new Map(), errors: new Map(), files: new Map() };
      sums.set(key, sum);
    }
    const calls = syscalls.calls[row]!, error = syscalls.error[row]!, file = syscalls.file[row]!;
    sum.count += calls;
    sum.total += syscalls.total[row]!;
    sum.max = Math.max(sum.max, syscalls.max[row]!);
    sum.bytes += syscalls.bytes[row]!;
    if (error !== NONE) {
      sum.failed += calls;
      add(sum.errors, error, calls);
    }
    if (file !== NONE) add(sum.files, file, syscalls.total[row]!);
    sumOf.set(row, sum);
  }
  for (let bar = 0; bar < syscallBars.count; bar++) {
    const sum = sumOf.get(syscallBars.row[bar]!);
    if (sum) add(sum.bars, syscallBars.bar[bar]!, syscallBars.calls[bar]!);
  }
  const byValue = (of: Map<number, number>): [string, number][] => [...of].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([text, value]) => [model.text(text), value]);
  return [...sums.values()].map(({ bars, errors, files, ...sum }): SyscallRow => ({
    ...sum, p50: Math.min(quantile(bars, 50), sum.max), p99: Math.min(quantile(bars, 99), sum.max), errors: byValue(errors), files: byValue(files),
  })).sort((a, b) => b.total - a.total || b.count - a.count || (a.call < b.call ? -1 : 1));
}

const add = (sums: Map<number, number>, key: number, more: number): void => { sums.set(key, (sums.get(key) ?? 0) + more); };

/** Which rows count: by thread, time, span and transforms. */
function selected(model: Model, state: State): (row: number) => boolean {
  const { time, thread, stack, total } = model.profile.syscalls;
  const { threads } = selection(model, state), range = timeRange(state), { nodeOfStack } = shape(model, state);
  const from = range ? lowerBound(time, range[0]) : 0, to = range ? lowerBound(time, range[1]) : time.length;
  const rows: SampleTable = { time, thread, stack, value: total };
  const mask = state.spans && spanMask(model, rows, state.spans.kind === 'one' ? [state.spans.span] : namedLike(model, state.spans.span), state.spans.all);
  return row => row >= from && row < to && (!threads || threads[thread[row]!] === 1) && (!mask || mask[row] === 1)
    && (stack[row] === NONE || nodeOfStack[stack[row]!] !== NONE);
}

/** The largest length of a bar: bars are an eighth of a power of two wide. */
function longest(bar: number): number {
  if (bar < 8) return bar;
  const width = 2 ** (Math.floor(bar / 8) - 1);
  return (8 + bar % 8) * width + width - 1;
}

/** The length that this percentage of the calls does not exceed, rounded up by at most an eighth. */
export function quantile(bars: ReadonlyMap<number, number>, percent: number): number {
  const sorted = [...bars].sort((a, b) => a[0] - b[0]);
  const rank = Math.max(1, Math.ceil(sorted.reduce((sum, [, calls]) => sum + calls, 0) * percent / 100));
  let seen = 0;
  for (const [bar, calls] of sorted) if ((seen += calls) >= rank) return longest(bar);
  return 0;
}
