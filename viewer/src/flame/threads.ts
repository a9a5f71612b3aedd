// The thread with most of a frame's weight.

import { addUp, functionValues, lowerBound } from '../aggregate.ts';
import { flameShape, selection } from '../derive.ts';
import type { Model } from '../model.ts';
import { NONE } from '../payload.ts';
import type { State } from '../state.ts';

/** Threads with their own colour; the others share one. */
const MOST = 8;

export interface ThreadShares {
  /** The threads with colours, heaviest first, and their weights. */
  threads: { thread: number; value: number }[];
  /** Node of the call tree → index in `threads`, or their number when another thread weighs more. */
  ofNode: Uint8Array;
  /** The same for functions by their self weight, for trees of callers. */
  ofFunction: Uint8Array;
}

export function threadShares(model: Model, state: State): ThreadShares {
  const samples = model.profile.samples[state.metric];
  const stacks = model.profile.stacks.count, tree = flameShape(model, state);
  const out: ThreadShares = { threads: [], ofNode: new Uint8Array(tree.parent.length), ofFunction: new Uint8Array(model.functionCount) };
  if (!samples) return out;
  const { threads, range, mask } = selection(model, state);
  const from = range ? lowerBound(samples.time, range[0]) : 0, to = range ? lowerBound(samples.time, range[1]) : samples.time.length;
  const counts = (i: number): boolean => (!threads || threads[samples.thread[i]!] === 1) && (!mask || mask[i] === 1) && samples.stack[i] !== NONE;
  const total = new Float64Array(Math.max(1, model.profile.threads.count));
  for (let i = from; i < to; i++) if (counts(i)) total[samples.thread[i]!]! += samples.value[i]!;
  const heaviest = [...total.keys()].filter(thread => total[thread]! > 0).sort((a, b) => total[b]! - total[a]!);
  const place = new Uint8Array(total.length).fill(MOST);
  heaviest.slice(0, MOST).forEach((thread, at) => { place[thread] = at; out.threads.push({ thread, value: total[thread]! }); });

  const weights = Array.from({ length: Math.min(heaviest.length, MOST + 1) }, () => new Float64Array(stacks));
  for (let i = from; i < to; i++) if (counts(i)) weights[Math.min(place[samples.thread[i]!]!, weights.length - 1)]![samples.stack[i]!]! += samples.value[i]!;
  const most = new Float64Array(tree.parent.length), mostOf = new Float64Array(model.functionCount);
  weights.forEach((weight, at) => {
    const values = addUp(tree, weight), own = functionValues(tree, values, model.functionCount).self;
    for (let node = 0; node < most.length; node++) if (values.total[node]! > most[node]!) { most[node] = values.total[node]!; out.ofNode[node] = at; }
    for (let fn = 0; fn < own.length; fn++) if (own[fn]! > mostOf[fn]!) { mostOf[fn] = own[fn]!; out.ofFunction[fn] = at; }
  });
  return out;
}
