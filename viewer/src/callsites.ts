// Where functions call each other: for each caller and callee, the lines of the calls and the weight that
// goes through each.

import { weights } from './derive.ts';
import type { Model } from './model.ts';
import { NONE } from './payload.ts';
import type { State } from './state.ts';

export interface CallSite {
  /** `src/main.rs:12`: the line with most of the calls. */
  place: string;
  /** How many other lines have the same call. */
  more: number;
}

/** Each call of each stack, and its line: the part that does not depend on the selected samples. */
interface Calls {
  /** Call → its stack and its line (a row of the arrays below). */
  stack: Uint32Array;
  line: Uint32Array;
  /** Pair → its lines. */
  lines: Map<number, number[]>;
  file: number[];
  number: number[];
}

const known = new WeakMap<Model, Map<string, Calls>>();
const sums = new WeakMap<Float64Array, Map<Calls, Float64Array>>();

/** A pair of functions as one number. */
const pairOf = (model: Model, caller: number, callee: number): number => caller * model.functionCount + callee;

function callsOf(model: Model, { inline, generics }: Pick<State, 'inline' | 'generics'>): Calls {
  let tables = known.get(model);
  if (!tables) known.set(model, tables = new Map());
  let calls = tables.get(`${inline} ${generics}`);
  if (!calls) tables.set(`${inline} ${generics}`, calls = findCalls(model, inline, generics));
  return calls;
}

function findCalls(model: Model, inline: boolean, generics: boolean): Calls {
  const { stacks, locations, frames, functions } = model.profile;
  const same = generics ? model.generic : model.sameAs;
  const stack: number[] = [], line: number[] = [];
  const calls = { lines: new Map<number, number[]>(), file: [] as number[], number: [] as number[] };
  const rows = new Map<number, Map<number, number>>();
  /** The function of a frame; for code without symbols, as in `buildShape`. */
  const functionOf = (location: number, frame: number): number => {
    if (frame < locations.frames[location + 1]!) return same[frames.function[frame]!]!;
    if (location === 0) return model.truncated;
    return locations.module[location] === NONE ? model.unknown : functions.count + locations.module[location]!;
  };
  const add = (of: number, location: number, frame: number, callee: number): void => {
    const isNamed = frame < locations.frames[location + 1]!;
    if (!isNamed || frames.file[frame] === NONE) return;
    const pair = pairOf(model, functionOf(location, frame), callee), at = frames.file[frame]! * 0x200000 + Math.min(frames.line[frame]!, 0x1fffff);
    let lines = rows.get(pair);
    if (!lines) rows.set(pair, lines = new Map());
    let row = lines.get(at);
    if (row === undefined) {
      lines.set(at, row = calls.file.push(frames.file[frame]!) - 1);
      calls.number.push(frames.line[frame]!);
      const list = calls.lines.get(pair);
      if (list) list.push(row);
      else calls.lines.set(pair, [row]);
    }
    stack.push(of);
    line.push(row);
  };
  for (let at = 0; at < stacks.count; at++) {
    const location = stacks.location[at]!, first = locations.frames[location]!, end = locations.frames[location + 1]!;
    const parent = stacks.parent[at]!;
    if (parent !== NONE) {
      const outer = stacks.location[parent]!, innermost = locations.frames[outer + 1]! - 1;
      add(at, outer, inline ? Math.max(locations.frames[outer]!, innermost) : locations.frames[outer]!, functionOf(location, first));
    }
    if (inline) for (let frame = first + 1; frame < end; frame++) add(at, location, frame - 1, functionOf(location, frame));
  }
  return { ...calls, stack: Uint32Array.from(stack), line: Uint32Array.from(line) };
}

/** The weight that goes through each line, for the selected samples. */
function valuesOf(model: Model, state: State, calls: Calls): Float64Array {
  const own = weights(model, state);
  let of = sums.get(own);
  if (!of) sums.set(own, of = new Map());
  let values = of.get(calls);
  if (values) return values;
  const { parent } = model.profile.stacks, total = own.slice();
  for (let stack = total.length - 1; stack >= 0; stack--) if (parent[stack] !== NONE) total[parent[stack]!]! += total[stack]!;
  values = new Float64Array(calls.file.length);
  for (let call = 0; call < calls.stack.length; call++) values[calls.line[call]!]! += total[calls.stack[call]!]!;
  of.set(calls, values);
  return values;
}

/** The line from which a function calls another; undefined when it does not, or when the line is not known. */
export function callSite(model: Model, state: State, caller: number, callee: number): CallSite | undefined {
  const calls = callsOf(model, state), values = valuesOf(model, state, calls);
  const lines = (calls.lines.get(pairOf(model, caller, callee)) ?? []).filter(line => values[line]! > 0);
  if (!lines.length) return undefined;
  const most = lines.reduce((best, line) => (values[line]! > values[best]! ? line : best));
  return { place: model.text(calls.file[most]!) + (calls.number[most] ? `:${calls.number[most]}` : ''), more: lines.length - 1 };
}

/** `src/main.rs:12 and 2 more lines`. */
export const siteWords = ({ place, more }: CallSite): string => (more ? `${place} and ${more} more ${more === 1 ? 'line' : 'lines'}` : place);
