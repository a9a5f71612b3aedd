// The spans that the span table shows for a state, and the weight of the samples inside them.

import { NONE, type SampleTable } from './payload.ts';
import type { Model } from './model.ts';
import { isIn, rowsOf, weightIn } from './aggregate.ts';
import { quantile } from './bounds.ts';
import { merged, ThreadSums, windowsOf, type SampleTimes, type Window } from './spans.ts';
import { timeRange, type Range, type State } from './state.ts';

export interface SpanName {
  name: string;
  /** Rows of the span table, by start. */
  spans: number[];
  total: number;
  mean: number;
  p50: number;
  p95: number;
  max: number;
  /** Value of the samples inside at least one of the spans: on their threads, and on all threads during them. */
  inside: number;
  during: number;
}

const sums = new WeakMap<SampleTable, { key: string; sums: ThreadSums }>();

/** Sums of the samples; for intervals, of their parts in a time range. */
function sumsOf(samples: SampleTable, range: Range | undefined): ThreadSums {
  const key = String(samples.reason && range), known = sums.get(samples);
  if (known?.key === key) return known.sums;
  const found = new ThreadSums(samples.reason && range ? partsIn(samples, range) : samples);
  sums.set(samples, { key, sums: found });
  return found;
}

function partsIn(samples: SampleTable, range: Range): SampleTimes {
  const [from, to] = rowsOf(samples, range), weight = weightIn(samples, range), inside = isIn(samples, range);
  const rows = Uint32Array.from({ length: to - from }, (_, at) => from + at).filter(inside);
  return { time: Float64Array.from(rows, row => samples.time[row]!), thread: Uint32Array.from(rows, row => samples.thread[row]!), value: Float64Array.from(rows, weight) };
}

/** The length of a span. One without an end lasts until the end of the recording. */
export function spanLength(model: Model, span: number): number {
  const { start, end } = model.profile.spans;
  return Math.max(0, (Number.isNaN(end[span]!) ? model.duration : end[span]!) - start[span]!);
}

/** All spans with the name of one. */
export function namedLike(model: Model, span: number): number[] {
  const { count, name } = model.profile.spans, wanted = model.text(name[span]!);
  return Array.from({ length: count }, (_, at) => at).filter(at => model.text(name[at]!) === wanted);
}

/** Spans that overlap the selected time on the selected threads. */
export function spansInView(model: Model, state: State): number[] {
  const { spans } = model.profile;
  const range = timeRange(state);
  const rows: number[] = [];
  for (let span = 0; span < spans.count; span++) {
    const thread = spans.thread[span]!;
    if (state.threads && thread !== NONE && !state.threads.includes(thread)) continue;
    if (range && (spans.start[span]! >= range[1] || spans.start[span]! + spanLength(model, span) < range[0])) continue;
    rows.push(span);
  }
  return rows;
}

/**
 * Value of the selected samples inside any of the spans: of the spans' threads, or of all. Ignores the span
 * filter.
 */
export function valueInside(model: Model, state: State, rows: readonly number[], all = false): number {
  const samples = model.profile.samples[state.metric];
  if (!samples) return 0;
  const { spans } = model.profile;
  const range = timeRange(state);
  const windows = windowsOf(spans, rows).flatMap((window): Window[] => {
    // An interval counts at its end, which can be after the range.
    const clipped = range && !samples.reason ? { start: Math.max(window.start, range[0]), end: Math.min(window.end, range[1]) } : window;
    const thread = all ? NONE : window.thread;
    return (thread === NONE && state.threads ? state.threads : [thread]).map(thread => ({ ...clipped, thread }));
  });
  const inThreads = sumsOf(samples, range);
  return merged(windows).reduce((sum, window) => sum + inThreads.within(window), 0);
}

/** One row per name. */
export function spanNames(model: Model, state: State): SpanName[] {
  const byName = new Map<string, number[]>();
  for (const span of spansInView(model, state)) {
    const name = model.text(model.profile.spans.name[span]!) || '[unnamed]';
    const rows = byName.get(name);
    if (rows) rows.push(span);
    else byName.set(name, [span]);
  }
  return [...byName].map(([name, spans]) => {
    const lengths = Float64Array.from(spans, span => spanLength(model, span)).sort();
    const total = lengths.reduce((sum, value) => sum + value, 0);
    return {
      name, spans, total, mean: total / spans.length, p50: quantile(lengths, 50), p95: quantile(lengths, 95), max: lengths.at(-1)!,
      inside: valueInside(model, state, spans), during: valueInside(model, state, spans, true),
    };
  });
}
