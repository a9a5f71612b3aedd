// What panels compute from a model and a state: call trees, function tables, matches. Each result is cached
// until an input changes, so every panel may call these in every render.

import { addUp, buildShape, countSamples, functionValues, invert, movedWeights, rowsOf, samplesPerStack, shapeOf, spanMask, stackWeights, weightIn, type CallTree, type Rows, type Selection, type Shape } from './aggregate.ts';
import { nodeAt, pathOf } from './flame/path.ts';
import { framesOf } from './findings.ts';
import { fold, type Folded } from './fold.ts';
import type { Model } from './model.ts';
import { NONE, type SampleTable } from './payload.ts';
import { Pattern, PatternError } from './regex.ts';
import { namedLike } from './spanrows.ts';
import { timeRange, type State } from './state.ts';
import type { Found } from './transforms.ts';

/** Caches the last few results of one function, per model. */
function remembered<T>(keep: number, key: (state: State) => string, answer: (model: Model, state: State) => T): (model: Model, state: State) => T {
  const known = new WeakMap<Model, Map<string, T>>();
  return (model, state) => {
    let answers = known.get(model);
    if (!answers) known.set(model, answers = new Map());
    const question = key(state);
    let value = answers.get(question);
    if (value === undefined) {
      value = answer(model, state);
      if (answers.size >= keep) answers.delete(answers.keys().next().value!);
    } else {
      answers.delete(question);
    }
    answers.set(question, value);
    return value;
  };
}

/** The code of `Subject` for a metric whose values are numbers of samples. */
const OF_SAMPLES = 6;

const maskKey = (state: State) => JSON.stringify([state.metric, state.spans]);
const selectionKey = (state: State) => JSON.stringify([state.metric, state.threads, timeRange(state), state.spans]);
const hasPlaces = ({ transforms }: State): boolean => transforms.some(transform => 'path' in transform);
const shapeKey = (state: State) => JSON.stringify([state.inline, state.generics, state.collapse, state.own, state.transforms,
  ...(hasPlaces(state) ? [state.metric, state.whole] : [])]); // what is folded around a place depends on these
const foldKey = (state: State) => `${shapeKey(state)} ${state.metric} ${state.whole}`;
const treeKey = (state: State) => `${shapeKey(state)} ${selectionKey(state)}`;

/** 1 for each sample inside the chosen spans; undefined when all samples count. */
const chosenSpans = remembered<{ mask: Uint8Array | undefined }>(2, maskKey, (model, { metric, spans }) => {
  const samples = model.profile.samples[metric];
  if (!spans || !samples) return { mask: undefined };
  const rows = spans.kind === 'one' ? [spans.span] : namedLike(model, spans.span);
  return { mask: spanMask(model, samples, rows, spans.all) };
});

/** Which samples of the selected metric count. */
export function selection(model: Model, state: State): Selection {
  let threads: Uint8Array | undefined;
  if (state.threads) {
    threads = new Uint8Array(Math.max(1, model.profile.threads.count));
    for (const thread of state.threads) threads[thread] = 1;
  }
  // Live bytes are those at the end of the selected time.
  if (state.metric === model.live) return { threads, range: [0, liveAt(model, state) + 1], mask: undefined };
  return { threads, range: timeRange(state), mask: chosenSpans(model, state).mask };
}

/** The point in time for which live bytes are shown. */
export const liveAt = (model: Model, state: State): number => timeRange(state)?.[1] ?? model.duration;

/** The last computed weights, and the rows they cover. */
interface Weighed { key: string; rows: Rows; weights: Float64Array }

const weighed = new WeakMap<Model, Weighed>();

/**
 * Weights of the selected samples. While the user drags the time selection, they are updated by the rows it
 * gains and loses.
 */
function brushedWeights(model: Model, state: State, samples: SampleTable, count: number): Float64Array {
  const key = JSON.stringify([state.metric, state.threads, state.spans]), chosen = selection(model, state);
  const before = weighed.get(model);
  const moved = before?.key === key ? movedWeights(samples, chosen, before.weights, before.rows) : undefined;
  const weights = moved ?? stackWeights(samples, count, chosen);
  weighed.set(model, { key, rows: rowsOf(samples, chosen.range), weights });
  return weights;
}

/** The weight of the selected samples, per stack. */
export const weights = remembered<Float64Array>(2, selectionKey, (model, state) => {
  const samples = model.profile.samples[state.metric];
  const { count } = model.profile.stacks;
  if (!samples) return new Float64Array(count);
  const weights = brushedWeights(model, state, samples, count);
  // A free of a block from before the recording has no allocation to subtract from.
  return state.metric === model.live ? weights.map(weight => Math.max(0, weight)) : weights;
});

/** The weight of each thread in the selected time and spans, independent of the selected threads. */
export const threadValues = remembered<Float64Array>(2, state => JSON.stringify([state.metric, timeRange(state), state.spans]), (model, state) => {
  const values = new Float64Array(Math.max(1, model.profile.threads.count));
  const samples = model.profile.samples[model.drawn(state.metric)];
  if (!samples) return values;
  const { mask } = selection(model, state);
  const range = timeRange(state), [from, to] = rowsOf(samples, range), weight = weightIn(samples, range);
  for (let i = from; i < to; i++) if (!mask || mask[i] === 1) values[samples.thread[i]!]! += weight(i);
  return values;
});

/** 1 for each stack with samples that transforms leave in; undefined when all stacks are. */
function countedStacks(model: Model, state: State): Uint8Array | undefined {
  const notSampled = model.notSampled, isCut = state.transforms.some(({ kind }) => kind === 'focus' || kind === 'hide' || kind === 'subtree');
  if (!notSampled && !isCut) return undefined;
  const { nodeOfStack } = shape(model, state);
  return nodeOfStack.length ? Uint8Array.from(nodeOfStack, (node, stack) => (node === NONE || notSampled?.[stack] === 1 ? 0 : 1)) : undefined;
}

/**
 * How many samples are shown. Other tools add up the samples of equal stacks: then a metric has their
 * number, and a stack without it has one per row.
 */
export const sampleCount = remembered<number>(4, treeKey, (model, state) => {
  const { samples: tables, metrics, stacks } = model.profile;
  const samples = tables[state.metric];
  if (!samples) return 0;
  const counted = countedStacks(model, state), summed = metrics.of.indexOf(OF_SAMPLES);
  if (summed < 0) return countSamples(samples, selection(model, state), counted);
  const rows = samplesPerStack(samples, stacks.count, selection(model, state));
  const sums = stackWeights(tables[summed]!, stacks.count, selection(model, { ...state, metric: summed }));
  return rows.reduce((sum, row, stack) => sum + (!counted || counted[stack] === 1 ? Math.max(row, sums[stack]!) : 0), 0);
});

/** The tree without values: inlining, generics, recursion and transforms applied. */
export const shape = remembered<Shape>(3, shapeKey, (model, state) => buildShape(model, hasPlaces(state) ? { ...state, places: placesOf(model, state) } : state));

/** The places of transforms in the call tree that the transforms before them give, as far as their paths exist there. */
function placesOf(model: Model, state: State): (Found | undefined)[] {
  return state.transforms.map((transform, at) => {
    if (!('path' in transform)) return undefined;
    const before = { ...state, transforms: state.transforms.slice(0, at) }, tree = shape(model, before);
    const shown = flameShape(model, before), { node } = nodeAt(shown, transform.path);
    if (node === 0) return undefined;
    const { nodeOfWhole } = shown as Partial<FoldedShape>, isThere = new Uint8Array(shown.parent.length);
    for (let of = node; of < isThere.length; of++) isThere[of] = of === node || (transform.kind === 'subtree' && isThere[shown.parent[of]!] === 1) ? 1 : 0;
    return { tree, isPlace: Uint8Array.from(tree.parent, (_, of) => isThere[nodeOfWhole ? nodeOfWhole[of]! : of]!) };
  });
}

/** The weight of all samples of the metric, per stack: folding does not depend on the selection. */
const allWeights = remembered<Float64Array>(2, state => String(state.metric), (model, state) => {
  const samples = model.profile.samples[model.drawn(state.metric)];
  const { count } = model.profile.stacks;
  return samples ? stackWeights(samples, count, { threads: undefined, range: undefined, mask: undefined }) : new Float64Array(count);
});

/** A tree without values, with recursion and carriers folded. */
export interface FoldedShape extends Shape, Omit<Folded, 'nodeOf'> {
  /** Node of the tree without folding → its node here. */
  nodeOfWhole: Uint32Array;
}

export type FoldedTree = CallTree & Omit<FoldedShape, keyof Shape | 'nodeOfWhole'>;

/** A function with a larger share of self weight is always shown; the same limit as in `whyslow report`. */
const NOTABLE = 0.01;

function foldTree(model: Model, state: State, keep: number | undefined): FoldedShape {
  const whole = shape(model, state), all = addUp(whole, allWeights(model, state)), self = new Float64Array(model.functionCount);
  all.self.forEach((value, node) => { if (node > 0) self[whole.fn[node]!]! += value; });
  const small = Math.floor(all.total[0]! * NOTABLE);
  const family = Int8Array.from(self, (own, fn) => (state.whole || own > small || fn === keep ? -1 : model.carrier(fn)));
  const { nodeOf, ...tree } = fold(whole, all.self, {
    family, joins: (family, around) => model.joins(family, around), fn: family => model.carrierFunction(family),
    isFunction: fn => model.isFunction(fn), isLeftOut: fn => model.isLeftOut(fn),
  }, small);
  const nodeOfStack = whole.nodeOfStack.map(node => (node === NONE ? NONE : nodeOf[node]!));
  return { ...tree, ...shapeOf({ ...tree, nodeOfStack }, model.functionCount), nodeOfWhole: nodeOf };
}

/** The tree as shown: recursion is always folded, carriers unless whole stacks are on. */
const foldedShape = remembered<FoldedShape>(3, foldKey, (model, state) => foldTree(model, state, undefined));

/** The same with values. */
export const foldedTree = remembered<FoldedTree>(2, state => `${foldKey(state)} ${selectionKey(state)}`, (model, state) =>
  addUp(foldedShape(model, state), weights(model, state)) as FoldedTree);

/** The same, with the selected function in it even if it is a carrier. */
export const treeAroundFunction = remembered<FoldedTree>(2, state => `${foldKey(state)} ${selectionKey(state)} ${state.fn}`, (model, state) =>
  state.fn === undefined || model.carrier(state.fn) < 0 ? foldedTree(model, state)
    : addUp(foldTree(model, state, state.fn), weights(model, state)) as FoldedTree);

/** The shape of the flame graph when it shows callees. */
export const flameShape = (model: Model, state: State): Shape => (state.whole ? shape(model, state) : foldedShape(model, state));

/**
 * 1 for each frame of the flame graph that only has samples of the highlighted finding; undefined without
 * one, and when the graph is inverted.
 */
export const findingFrames = remembered<{ marked: Uint8Array | undefined }>(2, state => `${foldKey(state)} ${state.inverted} ${state.finding}`, (model, state) => {
  const { finding, inverted } = state;
  return { marked: finding === undefined || inverted ? undefined : framesOf(model, flameShape(model, state), allWeights(model, state), finding) };
});

const flameBase = (model: Model, state: State): CallTree => (state.whole ? callTree(model, state) : foldedTree(model, state));

/** The call tree from the root to the innermost frames, for the selected samples. */
export const callTree = remembered<CallTree>(2, treeKey, (model, state) => addUp(shape(model, state), weights(model, state)));

/** Self and total of each function (index: number of the function), recursion counted once. */
export const functionTable = remembered<{ self: Float64Array; total: Float64Array }>(2, treeKey, (model, state) =>
  functionValues(shape(model, state), callTree(model, state), model.functionCount));

/**
 * The weight that counts towards each function of the user, as in the answer of whyslow: its own code, and the
 * code of others that it calls. Undefined where the metric is not charged that way.
 */
export const ownValues = remembered<{ own: Float64Array | undefined }>(2, treeKey, (model, state) => {
  const { charges } = model.profile;
  if (!charges.count || model.isHeapMetric(state.metric)) return { own: undefined };
  const { nodeOfStack } = shape(model, state), values = weights(model, state);
  const own = new Float64Array(model.functionCount);
  for (let stack = 0; stack < values.length; stack++) {
    const charge = charges.ofStack[stack]!;
    if (values[stack] !== 0 && charge !== NONE && nodeOfStack[stack] !== NONE) own[state.generics ? model.generic[charges.function[charge]!]! : charges.function[charge]!]! += values[stack]!;
  }
  return { own: own.some(value => value > 0) ? own : undefined };
});

/** No canvas is wider than this many narrow frames. */
const FINEST = 2500;

/** The total weight, without a tree: it follows every step of a drag. */
export const whole = remembered<number>(4, treeKey, (model, state) => {
  const { nodeOfStack } = shape(model, state), values = weights(model, state);
  let sum = 0;
  for (let stack = 0; stack < values.length; stack++) if (nodeOfStack[stack] !== NONE) sum += values[stack]!;
  return sum;
});

/** Self of each function, without a tree. */
export const selfValues = remembered<Float64Array>(2, treeKey, (model, state) => {
  const { nodeOfStack, fn } = shape(model, state), values = weights(model, state);
  const self = new Float64Array(model.functionCount);
  for (let stack = 0; stack < values.length; stack++) {
    const value = values[stack]!;
    if (value !== 0 && nodeOfStack[stack] !== NONE) self[fn[nodeOfStack[stack]!]!]! += value;
  }
  // The root is no function: stacks that merging emptied end there.
  self[model.root] = 0;
  return self;
});

/**
 * The tree of callers. Nodes lighter than 1/2,500 of the total have no children here; use {@link callersOf}
 * for one function.
 */
export const callers = remembered<CallTree>(2, state => `${foldKey(state)} ${selectionKey(state)}`, (model, state) => {
  const tree = flameBase(model, state);
  return invert(tree, model.root, { minimum: tree.total[0]! / FINEST, limit: 400_000 });
});

/** The tree that the flame graph draws: callees, or callers with full detail inside the zoomed frame. */
export const flameTree = remembered<CallTree>(2, state => `${foldKey(state)} ${selectionKey(state)} ${state.inverted ? state.zoom.join() : '-'}`, (model, state) => {
  const tree = flameBase(model, state);
  if (!state.inverted) return tree;
  let up = callers(model, state);
  // Frames inside a narrow one are not in the tree of everything: build it again around the zoomed frame. The
  // path may lead further down than the coarser tree does, so this can take several steps.
  for (let step = 0, last = 0; step < 6 && state.zoom.length; step++) {
    const { node, whole } = nodeAt(up, state.zoom);
    if (node === last || up.total[node]! > up.total[0]! / 4) break;
    last = whole ? node : 0;
    up = invert(tree, model.root, { minimum: up.total[node]! / FINEST, limit: 400_000, path: pathOf(up, node) });
    if (whole) break;
  }
  return up;
});

/** The tree of callers for samples in one function itself. */
export function callersOf(model: Model, state: State, fn: number, minimum: number): CallTree {
  return invert(callTree(model, state), model.root, { minimum, limit: 100_000, of: fn });
}

export interface Search {
  /** 1 for each function (or span) with a matching name. */
  matched: Uint8Array;
  /** How many match. */
  count: number;
}

export type SearchResult = { kind: 'none' } | { kind: 'invalid'; message: string } | ({ kind: 'found' } & Search);

const searchKey = (state: State) => JSON.stringify([state.search, state.regex]);

/** Returns a test for names that match the search. Throws a `PatternError`. */
function matcher({ search: text, regex }: State): (name: string) => boolean {
  if (regex) {
    const pattern = new Pattern(text);
    return name => pattern.test(name);
  }
  const small = text.toLowerCase();
  return name => name.toLowerCase().includes(small);
}

/** 1 for each of `count` names that match the search. */
function matching(state: State, count: number, nameOf: (at: number) => string): SearchResult {
  if (!state.search) return { kind: 'none' };
  try {
    const test = matcher(state), matched = new Uint8Array(count);
    let found = 0;
    for (let at = 0; at < count; at++) if (test(nameOf(at))) { matched[at] = 1; found++; }
    return { kind: 'found', matched, count: found };
  } catch (problem) {
    if (problem instanceof PatternError) return { kind: 'invalid', message: problem.message };
    throw problem;
  }
}

/** The functions that match the search. */
export const search = remembered<SearchResult>(4, searchKey, (model, state) => {
  const found = matching(state, model.functionCount, fn => model.name(fn));
  if (found.kind !== 'found') return found;
  const { matched } = found;
  // Folded frames match when a function of their family does.
  for (let fn = 0; fn < model.root; fn++) if (matched[fn] && model.carrier(fn) >= 0) matched[model.carrierFunction(model.carrier(fn))] = 1;
  if (!matched[model.root]) return found;
  matched[model.root] = 0;
  return { ...found, count: found.count - 1 };
});

/** The spans with names that match the search. */
export const searchSpans = remembered<SearchResult>(2, searchKey, (model, state) =>
  matching(state, model.profile.spans.count, span => model.text(model.profile.spans.name[span]!)));
