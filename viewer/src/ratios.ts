// Ratios of CPU counters per function, as in `whyslow report`.
//
//     IPC  = instructions / cycles              of the same samples' functions
//     MPKI = misses / instructions · 1000       for each event with `miss` in its name

import { addUp, functionValues, stackWeights } from './aggregate.ts';
import { selection, shape } from './derive.ts';
import { UNIT_COUNT } from './format.ts';
import type { Model } from './model.ts';
import type { State } from './state.ts';

/** A column: the metrics above and below the fraction line. */
export interface RatioColumn { title: string; help: string; above: number; below: number; scale: number }

export type RatioOf = 'self' | 'total';

/** `cycles` of `cycles:u`, of `cpu/cycles/` and of `cpu_core/cycles/u`. */
function plain(name: string): string {
  const inner = name.split(':')[0]!;
  return inner.split('/')[1] ?? inner;
}

/** The columns that the profile has counters for; more do not fit next to the names. */
export function ratioColumns(model: Model, most = 4): readonly RatioColumn[] {
  const { count } = model.profile.metrics, found: RatioColumn[] = [];
  const events = Array.from({ length: count }, (_, metric) => metric).filter(metric => model.unit(metric) === UNIT_COUNT).map(metric => ({ metric, name: plain(model.metricName(metric)) }));
  const instructions = events.find(({ name }) => name === 'instructions'), cycles = events.find(({ name }) => name === 'cycles' || name === 'cpu-cycles');
  if (!instructions) return [];
  if (cycles) found.push({ title: 'IPC', help: 'Instructions per cycle', above: instructions.metric, below: cycles.metric, scale: 1 });
  for (const { metric, name } of events) {
    if (name.includes('miss')) found.push({ title: `${name.replace(/-misses$/, '').slice(0, 24)}/k`, help: `${name.slice(0, 60)} per thousand instructions`, above: metric, below: instructions.metric, scale: 1000 });
  }
  return found.slice(0, most);
}

/** Counts have no error: as if each row were this many samples. */
const EXACT = 1e12;

/** One event per function: values, and the number of samples behind them. */
interface Parts { value: Float64Array; samples: Float64Array }

function partsOf(model: Model, state: State, metric: number, of: RatioOf): Parts {
  const table = model.profile.samples[metric]!, chosen = selection(model, { ...state, metric }), tree = shape(model, state);
  const added = (value: Float64Array): Float64Array =>
    functionValues(tree, addUp(tree, stackWeights({ ...table, value }, model.profile.stacks.count, chosen)), model.functionCount)[of];
  return { value: added(table.value), samples: added(new Float64Array(table.value.length).fill(model.isSampled(metric) ? 1 : EXACT)) };
}

/** The cell texts of a function, for the selected samples. */
export function ratiosOf(model: Model, state: State, columns: readonly RatioColumn[], of: RatioOf): (fn: number) => string[] {
  const known = new Map<number, Parts>();
  const parts = (metric: number): Parts => {
    let found = known.get(metric);
    if (!found) known.set(metric, found = partsOf(model, state, metric, of));
    return found;
  };
  return fn => columns.map(({ above, below, scale }) => cell(parts(above), parts(below), fn, scale));
}

/** `1.25`; `-` where nothing was counted; `?` where there are too few samples for a number. */
function cell(above: Parts, below: Parts, fn: number, scale: number): string {
  if (!below.value[fn] || !below.samples[fn]) return '-';
  const value = above.value[fn]! / below.value[fn]! * scale, error = Math.sqrt(1 / Math.max(1, above.samples[fn]!) + 1 / below.samples[fn]!);
  if (value === 0) return '0';
  if (1.96 * error >= 1) return '?';
  return value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
}
