// How each frame's weight splits into kinds of time.

import { addUp, rowsOf, weightIn, type CallTree } from '../aggregate.ts';
import { flameShape, selection } from '../derive.ts';
import { duration, share } from '../format.ts';
import type { Model } from '../model.ts';
import { NONE } from '../payload.ts';
import type { State } from '../state.ts';
import { timeKinds } from '../timekinds.ts';
import { RUNNING } from '../waits.ts';

export interface TimeShares {
  kinds: number;
  /** A node's weight of a kind: `ofNode[node * kinds + kind]`. */
  ofNode: Float64Array;
}

/** The kinds of time of `tree`, the flame graph's tree of callees or callers. */
export function timeShares(model: Model, state: State, tree: CallTree): TimeShares {
  const kinds = model.profile.timeKinds.length, samples = model.profile.samples[state.metric];
  const out: TimeShares = { kinds, ofNode: new Float64Array(kinds * tree.total.length) };
  if (!samples?.reason) return out;
  const { threads, range, mask } = selection(model, state), { reasons } = model.profile;
  const weights = Array.from({ length: kinds }, () => new Float64Array(model.profile.stacks.count));
  const [from, to] = rowsOf(samples, range), weight = weightIn(samples, range);
  for (let i = from; i < to; i++) {
    if ((threads && threads[samples.thread[i]!] !== 1) || (mask && mask[i] !== 1) || samples.stack[i] === NONE) continue;
    const code = samples.reason[i]!;
    weights[code ? reasons[code - 1]!.kind : RUNNING]![samples.stack[i]!]! += weight(i);
  }
  const shape = flameShape(model, state);
  const callersOf = state.inverted ? callerWalk(tree) : undefined;
  weights.forEach((weight, kind) => {
    const { total, self } = addUp(shape, weight);
    if (!callersOf) total.forEach((value, node) => { out.ofNode[node * kinds + kind] = value; });
    else self.forEach((value, node) => { if (value > 0) callersOf(shape, node, at => { out.ofNode[at * kinds + kind]! += value; }); });
  });
  return out;
}

/**
 * Visits the nodes of a tree of callers that samples at a node of the call tree count for, as deep as that
 * tree goes.
 */
function callerWalk(up: CallTree): (down: { parent: Uint32Array; fn: Uint32Array }, node: number, visit: (at: number) => void) => void {
  const childOf = new Map<string, number>();
  for (let node = 1; node < up.parent.length; node++) childOf.set(`${up.parent[node]} ${up.fn[node]}`, node);
  return ({ parent, fn }, node, visit) => {
    let at = 0;
    visit(0);
    for (let frame = node; frame !== 0; frame = parent[frame]!) {
      const next = childOf.get(`${at} ${fn[frame]}`);
      if (next === undefined) return;
      visit(at = next);
    }
  };
}

/** The kinds of a node with weight, in drawing order from left to right. */
export function timesOf(model: Model, times: TimeShares, node: number): { kind: number; word: string; value: number }[] {
  return timeKinds(model).map(({ kind, word }) => ({ kind, word, value: times.ofNode[node * times.kinds + kind]! })).filter(({ value }) => value > 0);
}

/** `running 1.20 s (40.0 %), blocked: I/O 1.80 s (60.0 %)`. */
export function splitWords(model: Model, times: TimeShares, tree: CallTree, node: number): string {
  return timesOf(model, times, node).map(({ word, value }) => `${word} ${duration(value)} (${share(value, tree.total[node]!)})`).join(', ');
}
