// Sums samples: per stack, per call tree node, per function. Pure functions over columns, without recursion:
// a stack can be deeper than JavaScript's own.

import type { Model } from './model.ts';
import { NONE, type SampleTable } from './payload.ts';
import { FRAME, ownFunctions, Transforms, type Found, type Transform } from './transforms.ts';

/** Which samples count. */
export interface Selection {
  /** 1 for each thread that counts; undefined when all do. */
  threads: Uint8Array | undefined;
  /** From (inclusive) to (exclusive), in nanoseconds; undefined for all of the time. */
  range: readonly [number, number] | undefined;
  /** 1 for each sample that counts; undefined when all do. */
  mask: Uint8Array | undefined;
}

export interface ShapeOptions {
  /** Inlined functions get their own frames. */
  inline: boolean;
  /** Instances of a generic function are one function. */
  generics: boolean;
  /** A function that is already on the stack is not entered a second time. */
  collapse: boolean;
  /**
   * Only the user's own functions are frames. The weight of other code goes to the nearest of them around
   * it.
   */
  own: boolean;
  transforms: readonly Transform[];
  /** The places of transforms that have one. */
  places?: readonly (Found | undefined)[];
}

/**
 * A tree without values: it depends on what is merged, not on which samples are selected. Parents come
 * before their children.
 */
export interface Shape {
  /** Node 0 is the root, its own parent. */
  parent: Uint32Array;
  fn: Uint32Array;
  /** 1 when the function was inlined into its caller everywhere. */
  inlined: Uint8Array;
  depth: Uint32Array;
  /** 1 when no node around it has the same function, so that recursion counts once. */
  outermost: Uint8Array;
  /** The children of node N are `children[firstChild[N] .. firstChild[N + 1]]`. */
  firstChild: Uint32Array;
  children: Uint32Array;
  /** Stack → its innermost node; NONE for stacks that a transform leaves out. */
  nodeOfStack: Uint32Array;
}

/**
 * A call tree with values. Node 0 is the root. In a tree of callers, `total` of a node is the self weight of
 * its root-side function.
 */
export interface CallTree extends Omit<Shape, 'nodeOfStack' | 'outermost'> {
  self: Float64Array;
  total: Float64Array;
}

/** The first row with a time of at least `time`. */
export function lowerBound(times: Float64Array, time: number): number {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (times[middle]! < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The first row of a time range, and the first row after it. */
export type Rows = readonly [number, number];

/**
 * The rows that may overlap a time range. Rows of metrics with waits are intervals that end at their time:
 * one that ends after the range can start in it.
 */
export function rowsOf(samples: SampleTable, range: Selection['range']): Rows {
  const { time } = samples;
  if (!range) return [0, time.length];
  const behind = samples.reason ? longest(samples) : 0;
  return [lowerBound(time, range[0]), lowerBound(time, range[1] + behind)];
}

/** The weight of a row in a time range: for an interval, the part inside the range. */
export function weightIn({ time, value, reason }: SampleTable, range: Selection['range']): (row: number) => number {
  if (!range || !reason) return row => value[row]!;
  const [start, end] = range;
  return row => Math.max(0, Math.min(time[row]!, end) - Math.max(time[row]! - value[row]!, start));
}

/** Whether a row is in a time range: an interval by any part of it, one without a length by its time. */
export function isIn(samples: SampleTable, range: Selection['range']): (row: number) => boolean {
  if (!range || !samples.reason) return () => true;
  const weight = weightIn(samples, range), [start, end] = range, { time, value } = samples;
  return row => (value[row]! > 0 ? weight(row) > 0 : time[row]! >= start && time[row]! < end);
}

const longestKnown = new WeakMap<SampleTable, number>();

function longest(samples: SampleTable): number {
  const known = longestKnown.get(samples);
  if (known !== undefined) return known;
  const most = samples.value.reduce((most, value) => Math.max(most, value), 0);
  longestKnown.set(samples, most);
  return most;
}

/** The weight of the selected samples, per stack. */
export function stackWeights(samples: SampleTable, stackCount: number, selection: Selection): Float64Array {
  const weights = new Float64Array(stackCount);
  const [from, to] = rowsOf(samples, selection.range);
  addRows(weights, samples, selection, from, to, 1);
  return weights;
}

/**
 * The same, computed from the weights of other rows by the difference between the two; undefined when that
 * difference is larger than the current selection. Values are integers, so that subtracting restores the
 * earlier value exactly.
 */
export function movedWeights(samples: SampleTable, selection: Selection, before: Float64Array, [low, high]: Rows): Float64Array | undefined {
  // Each range cuts intervals at a different place.
  if (samples.reason) return undefined;
  const [from, to] = rowsOf(samples, selection.range);
  if (Math.abs(from - low) + Math.abs(to - high) >= to - from) return undefined;
  const weights = before.slice();
  addRows(weights, samples, selection, low, Math.min(from, high), -1);
  addRows(weights, samples, selection, from, Math.min(to, low), 1);
  addRows(weights, samples, selection, Math.max(low, to), high, -1);
  addRows(weights, samples, selection, Math.max(from, high), to, 1);
  return weights;
}

function addRows(weights: Float64Array, samples: SampleTable, { threads, range, mask }: Selection, from: number, to: number, sign: 1 | -1): void {
  const { thread, stack } = samples, weight = weightIn(samples, range);
  for (let i = from; i < to; i++) {
    if (threads !== undefined && threads[thread[i]!] !== 1) continue;
    if (mask !== undefined && mask[i] !== 1) continue;
    const at = stack[i]!;
    if (at !== NONE) weights[at]! += sign * weight(i);
  }
}

/** Visits the stacks of the selected samples; NONE for a sample without one. */
function eachStack(samples: SampleTable, { threads, range, mask }: Selection, visit: (stack: number) => void): void {
  const [from, to] = rowsOf(samples, range), inside = isIn(samples, range);
  for (let i = from; i < to; i++) {
    if ((!threads || threads[samples.thread[i]!] === 1) && (!mask || mask[i] === 1) && inside(i)) visit(samples.stack[i]!);
  }
}

/** How many samples are selected; with `counted`, only those of stacks that it has a 1 for. */
export function countSamples(samples: SampleTable, selection: Selection, counted?: Uint8Array): number {
  const { threads, range, mask } = selection, [from, to] = rowsOf(samples, range);
  if (!threads && !mask && !counted && !(range && samples.reason)) return to - from;
  let count = 0;
  eachStack(samples, selection, stack => { if (!counted || (stack !== NONE && counted[stack] === 1)) count++; });
  return count;
}

/** How many samples are selected, per stack. */
export function samplesPerStack(samples: SampleTable, stackCount: number, selection: Selection): Float64Array {
  const counts = new Float64Array(stackCount);
  eachStack(samples, selection, stack => { if (stack !== NONE) counts[stack]!++; });
  return counts;
}

/**
 * 1 for each sample inside one of the given spans (on the span's thread, if it has one and not all threads
 * count). The end is exclusive.
 */
export function spanMask(model: Model, samples: SampleTable, spans: Iterable<number>, isEverywhere = false): Uint8Array {
  const { spans: table } = model.profile;
  const perThread = new Map<number, [number, number][]>();
  for (const span of spans) {
    const thread = isEverywhere ? NONE : table.thread[span]!;
    const end = table.end[span]!;
    const list = perThread.get(thread);
    const range: [number, number] = [table.start[span]!, Number.isNaN(end) ? Infinity : end];
    if (list) list.push(range);
    else perThread.set(thread, [range]);
  }
  const mask = new Uint8Array(samples.time.length);
  const everywhere = merged(perThread.get(NONE) ?? []);
  const cursors = new Map<number, { ranges: [number, number][]; at: number }>();
  for (const [thread, ranges] of perThread) if (thread !== NONE) cursors.set(thread, { ranges: merged(ranges), at: 0 });
  const all = { ranges: everywhere, at: 0 };
  const inside = (cursor: { ranges: [number, number][]; at: number } | undefined, time: number): boolean => {
    if (!cursor) return false;
    while (cursor.at < cursor.ranges.length && cursor.ranges[cursor.at]![1] <= time) cursor.at++;
    return cursor.at < cursor.ranges.length && cursor.ranges[cursor.at]![0] <= time;
  };
  for (let i = 0; i < mask.length; i++) {
    const time = samples.time[i]!;
    if (inside(all, time) || inside(cursors.get(samples.thread[i]!), time)) mask[i] = 1;
  }
  return mask;
}

function merged(ranges: [number, number][]): [number, number][] {
  const out: [number, number][] = [];
  for (const [start, end] of [...ranges].sort((a, b) => a[0] - b[0])) {
    const last = out.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else out.push([start, end]);
  }
  return out;
}

/** Finds or adds nodes by (parent, function): a hash table in one typed array. */
export class Growing {
  parent = new Uint32Array(1024);
  fn = new Uint32Array(1024);
  inlined = new Uint8Array(1024);
  count = 1;
  private slots = new Uint32Array(4096);

  constructor(root: number) {
    this.fn[0] = root;
  }

  child(parent: number, fn: number, inlined: number): number {
    let slot = this.slotOf(parent, fn);
    for (;;) {
      const node = this.slots[slot]!;
      if (node === 0) break;
      if (this.parent[node] === parent && this.fn[node] === fn) {
        this.inlined[node]! &= inlined;
        return node;
      }
      slot = (slot + 1) & (this.slots.length - 1);
    }
    const node = this.count++;
    if (node >= this.parent.length) this.grow();
    this.parent[node] = parent;
    this.fn[node] = fn;
    this.inlined[node] = inlined;
    this.slots[slot] = node;
    if (this.count * 2 > this.slots.length) this.rehash();
    return node;
  }

  private slotOf(parent: number, fn: number): number {
    let hash = Math.imul(parent, 0x9e3779b1) ^ Math.imul(fn + 1, 0x85ebca6b);
    hash ^= hash >>> 15;
    return Math.imul(hash, 0x2c1b3c6d) >>> 7 & (this.slots.length - 1);
  }

  private grow(): void {
    const size = this.parent.length * 2;
    this.parent = widened(new Uint32Array(size), this.parent);
    this.fn = widened(new Uint32Array(size), this.fn);
    this.inlined = widened(new Uint8Array(size), this.inlined);
  }

  private rehash(): void {
    this.slots = new Uint32Array(this.slots.length * 2);
    for (let node = 1; node < this.count; node++) {
      let slot = this.slotOf(this.parent[node]!, this.fn[node]!);
      while (this.slots[slot] !== 0) slot = (slot + 1) & (this.slots.length - 1);
      this.slots[slot] = node;
    }
  }
}

/** Builds the tree of all stacks, from the root to the innermost frame. */
export function buildShape(model: Model, options: ShapeOptions): Shape {
  const { stacks, locations, frames } = model.profile;
  const same = options.generics ? model.generic : model.sameAs;
  const functionBase = model.profile.functions.count;
  const growing = new Growing(model.root);
  const nodeOf = new Uint32Array(stacks.count);

  const isOwn = options.own ? ownFunctions(model) : undefined;
  const transforms = options.transforms.length ? new Transforms(model, options.transforms, options.places ?? [], { isOwn, collapse: options.collapse }) : undefined;

  for (let stack = 0; stack < stacks.count; stack++) {
    const parent = stacks.parent[stack]!;
    let node = parent === NONE ? 0 : nodeOf[parent]!;
    transforms?.begin(parent);
    const location = stacks.location[stack]!;
    const first = locations.frames[location]!;
    const last = locations.frames[location + 1]!;
    const steps = first === last ? 1 : options.inline ? last - first : 1;
    for (let step = 0; step < steps; step++) {
      let fn: number;
      if (first !== last) fn = same[frames.function[first + step]!]!;
      else if (location === 0) fn = model.truncated;
      else fn = locations.module[location] === NONE ? model.unknown : functionBase + locations.module[location]!;
      if (transforms) {
        const fate = transforms.frame(fn);
        if (fate === FRAME.removed) continue;
        if (fate === FRAME.root) node = 0; // drops the frames around it
      }
      if (isOwn && isOwn[fn] !== 1) continue;
      if (options.collapse) {
        let around = node;
        while (around !== 0 && growing.fn[around] !== fn) around = growing.parent[around]!;
        if (around !== 0) { node = around; continue; }
      }
      node = growing.child(node, fn, step > 0 ? 1 : 0);
    }
    nodeOf[stack] = node;
    transforms?.end(stack);
  }
  if (isOwn) for (let stack = 0; stack < stacks.count; stack++) if (nodeOf[stack] === 0) nodeOf[stack] = growing.child(0, model.others, 0);
  if (transforms) for (let stack = 0; stack < stacks.count; stack++) if (transforms.isDropped(stack)) nodeOf[stack] = NONE;

  const count = growing.count;
  return shapeOf({ parent: growing.parent.slice(0, count), fn: growing.fn.slice(0, count), inlined: growing.inlined.slice(0, count), nodeOfStack: nodeOf },
    model.functionCount);
}

/** Node → its distance from the root. */
export function depths(parent: Uint32Array): Uint32Array {
  const depth = new Uint32Array(parent.length);
  for (let node = 1; node < parent.length; node++) depth[node] = depth[parent[node]!]! + 1;
  return depth;
}

/** The children of each node as slices of one array. */
export function childLists(parent: Uint32Array): { firstChild: Uint32Array; children: Uint32Array } {
  const count = parent.length;
  const firstChild = new Uint32Array(count + 1);
  for (let node = 1; node < count; node++) firstChild[parent[node]! + 1]!++;
  for (let node = 0; node < count; node++) firstChild[node + 1]! += firstChild[node]!;
  const next = firstChild.slice();
  const children = new Uint32Array(Math.max(0, count - 1));
  for (let node = 1; node < count; node++) children[next[parent[node]!]!++] = node;
  return { firstChild, children };
}

/** The shape of a tree for which children, depths and recursion are not known yet. */
export function shapeOf({ parent, fn, inlined, nodeOfStack }: Pick<Shape, 'parent' | 'fn' | 'inlined' | 'nodeOfStack'>, functionCount: number): Shape {
  const { firstChild, children } = childLists(parent);
  return {
    parent, fn, inlined, depth: depths(parent), firstChild, children,
    outermost: findOutermost(parent, fn, firstChild, children, functionCount), nodeOfStack,
  };
}

/** Walks the tree depth first and counts the open calls of each function. */
function findOutermost(parent: Uint32Array, fn: Uint32Array, firstChild: Uint32Array, children: Uint32Array, functionCount: number): Uint8Array {
  const outermost = new Uint8Array(parent.length);
  const open = new Uint32Array(functionCount);
  const next = firstChild.slice();
  let node = 0;
  outermost[0] = 1;
  for (;;) {
    const at = next[node]!;
    if (at < firstChild[node + 1]!) {
      next[node] = at + 1;
      node = children[at]!;
      if (open[fn[node]!]!++ === 0) outermost[node] = 1;
    } else {
      if (node === 0) return outermost;
      open[fn[node]!]!--;
      node = parent[node]!;
    }
  }
}

/** The values of a tree for the given stack weights. */
export function addUp(shape: Shape, weights: Float64Array): CallTree {
  const { parent, nodeOfStack } = shape;
  const self = new Float64Array(parent.length);
  for (let stack = 0; stack < weights.length; stack++) {
    const weight = weights[stack]!;
    if (weight === 0) continue;
    const node = nodeOfStack[stack]!;
    if (node !== NONE) self[node]! += weight;
  }
  const total = self.slice();
  for (let node = parent.length - 1; node > 0; node--) total[parent[node]!]! += total[node]!;
  return { ...shape, self, total };
}

/** Self and total per function. A function that is on a stack several times counts once. */
export function functionValues(shape: Shape, tree: CallTree, functionCount: number): { self: Float64Array; total: Float64Array } {
  const self = new Float64Array(functionCount), total = new Float64Array(functionCount);
  const { fn, outermost } = shape;
  for (let node = 1; node < fn.length; node++) {
    const value = tree.total[node]!;
    if (value === 0) continue;
    const of = fn[node]!;
    self[of]! += tree.self[node]!;
    if (outermost[node]) total[of]! += value;
  }
  return { self, total };
}

export interface InvertOptions {
  /**
   * Nodes that weigh less are not entered: an inverted tree of everything can be far larger than the tree
   * itself.
   */
  minimum: number;
  /** No more nodes than this. */
  limit: number;
  /** Only samples taken in this function. */
  of?: number;
  /** Enter only this path of functions, and everything below its end. */
  path?: readonly number[];
}

/**
 * The tree of callers: below the root are the functions in which samples were taken, below each its callers.
 * `self` of a node is the weight of stacks that end there: those with this function outermost.
 */
export function invert(tree: CallTree, root: number, { minimum, limit, of, path = [] }: InvertOptions): CallTree {
  // Places in the call tree (the next frame outwards) and the weight that goes through each. A node owns the
  // slice `low .. high` of them, its children parts of that slice: places with one function have different
  // callers, so no two ever become the same.
  let count = 0;
  for (let node = 1; node < tree.self.length; node++) if (tree.self[node]! > 0 && (of === undefined || tree.fn[node] === of)) count++;
  const place = new Uint32Array(count), weight = new Float64Array(count);
  const sortedPlace = new Uint32Array(count), sortedWeight = new Float64Array(count);
  let at = 0, functions = 0;
  for (let node = 1; node < tree.self.length; node++) {
    functions = Math.max(functions, tree.fn[node]! + 1);
    if (tree.self[node]! > 0 && (of === undefined || tree.fn[node] === of)) { place[at] = node; weight[at++] = tree.self[node]!; }
  }
  const childOf = new Uint32Array(functions); // function → its child of the current node, 0 for none

  const up = new Columns(root);
  up.high[0] = count;
  let onPath = 0, steps = 0; // the last node of the path built so far
  for (let node = 0; node < up.count; node++) {
    if (node > 0 && (up.total[node]! < minimum || up.count >= limit)) continue;
    const depth = up.depth[node]!;
    if (depth > 0 && depth <= path.length) {
      if (up.parent[node] !== onPath || depth !== steps + 1 || up.fn[node] !== path[steps]) continue;
      onPath = node;
      steps++;
    }
    const low = up.low[node]!, high = up.high[node]!, first = up.count;
    for (let i = low; i < high; i++) {
      const here = place[i]!;
      if (here === 0) { up.self[node]! += weight[i]!; continue; }
      const fn = tree.fn[here]!;
      let child = childOf[fn]!;
      if (child === 0) child = childOf[fn] = up.add(node, fn, depth + 1);
      up.total[child]! += weight[i]!;
      up.inlined[child]! &= tree.inlined[here]!;
      up.high[child]!++; // a count for now
    }
    let start = low;
    for (let child = first; child < up.count; child++) {
      up.low[child] = start;
      start += up.high[child]!;
      up.high[child] = up.low[child]!;
    }
    for (let i = low; i < high; i++) {
      const here = place[i]!;
      if (here === 0) continue;
      const to = up.high[childOf[tree.fn[here]!]!]!++;
      sortedPlace[to] = tree.parent[here]!;
      sortedWeight[to] = weight[i]!;
    }
    place.set(sortedPlace.subarray(low, start), low);
    weight.set(sortedWeight.subarray(low, start), low);
    for (let child = first; child < up.count; child++) childOf[up.fn[child]!] = 0;
  }
  for (let node = 1; node < up.count; node++) if (up.parent[node] === 0) up.total[0]! += up.total[node]!;
  const parent = up.parent.slice(0, up.count);
  return {
    parent, fn: up.fn.slice(0, up.count), inlined: up.inlined.slice(0, up.count), depth: up.depth.slice(0, up.count), ...childLists(parent),
    self: up.self.slice(0, up.count), total: up.total.slice(0, up.count),
  };
}

/** The columns of a growing tree of callers. */
class Columns {
  parent = new Uint32Array(1024);
  fn = new Uint32Array(1024);
  inlined = new Uint8Array(1024);
  depth = new Uint32Array(1024);
  low = new Uint32Array(1024);
  high = new Uint32Array(1024);
  self = new Float64Array(1024);
  total = new Float64Array(1024);
  count = 1;

  constructor(root: number) {
    this.fn[0] = root;
  }

  add(parent: number, fn: number, depth: number): number {
    const node = this.count++;
    if (node === this.parent.length) this.grow();
    this.parent[node] = parent;
    this.fn[node] = fn;
    this.depth[node] = depth;
    this.inlined[node] = 1;
    return node;
  }

  private grow(): void {
    const size = this.parent.length * 2;
    this.parent = widened(new Uint32Array(size), this.parent);
    this.fn = widened(new Uint32Array(size), this.fn);
    this.inlined = widened(new Uint8Array(size), this.inlined);
    this.depth = widened(new Uint32Array(size), this.depth);
    this.low = widened(new Uint32Array(size), this.low);
    this.high = widened(new Uint32Array(size), this.high);
    this.self = widened(new Float64Array(size), this.self);
    this.total = widened(new Float64Array(size), this.total);
  }
}

function widened<T extends Uint32Array | Uint8Array | Float64Array>(next: T, old: T): T {
  next.set(old);
  return next;
}

/**
 * The total weight of matches inside `within`, each sample counted once, and the number of matching nodes
 * with weight.
 */
export function matchedValue(tree: CallTree, isMatch: (node: number) => boolean, within: number): { value: number; nodes: number } {
  const state = new Uint8Array(tree.parent.length); // 1 inside of `within`, 2 inside of a match as well
  let value = 0, nodes = 0;
  for (let node = 0; node < state.length; node++) {
    let inside = node === within ? 1 : node === 0 ? 0 : state[tree.parent[node]!]!;
    if (inside && node !== 0 && tree.total[node]! > 0 && isMatch(node)) {
      nodes++;
      if (inside === 1) value += tree.total[node]!;
      inside = 2;
    }
    state[node] = inside;
  }
  return { value, nodes };
}
