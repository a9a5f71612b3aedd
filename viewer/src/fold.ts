// Folds recursion in a call tree: `f` calling itself 500 times becomes one node with a count.
//
// The shape of the folded tree does not depend on the selected samples, so it is built once per tree. A new
// time selection only sums the values again.

import { Growing, type Shape } from './aggregate.ts';

/** Cycles of more functions than this are not recognised as recursion; the same limit as in `whyslow report`. */
const LONGEST_CYCLE = 4;

/** A folded tree without values. Node 0 is the root, its own parent. */
export interface Folded extends Pick<Shape, 'parent' | 'fn' | 'inlined'> {
  /** Rounds on the deepest stack per node; 0 without recursion. */
  times: Uint32Array;
  /** Frames in one round per node. */
  frames: Uint8Array;
  /** Node of the whole tree → its folded node. */
  nodeOf: Uint32Array;
}

/** Folds a tree. Parents remain before their children. */
export function foldRecursion(tree: Pick<Shape, 'parent' | 'fn' | 'inlined'>): Folded {
  const count = tree.parent.length;
  const nodeOf = new Uint32Array(count);
  // Per node of the whole tree: the round it is in, so that its children can continue it.
  const roundFrames = new Uint8Array(count);
  const roundTimes = new Uint32Array(count);
  const sinceRound = new Uint32Array(count);
  const growing = new Growing(tree.fn[0] ?? 0);
  const times = new Uint32Array(count);
  const frames = new Uint8Array(count);

  for (let at = 1; at < count; at++) {
    const above = tree.parent[at]!;
    const name = tree.fn[at]!;
    const under = nodeOf[above]!;
    const back = roundBack(growing, under, name);
    if (back > 0) {
      let first = under;
      for (let step = 1; step < back; step++) first = growing.parent[first]!;
      const goesOn = roundFrames[above] === back && sinceRound[above]! + 1 === back;
      roundFrames[at] = back;
      roundTimes[at] = goesOn ? roundTimes[above]! + 1 : 2;
      nodeOf[at] = first;
      growing.inlined[first]! &= tree.inlined[at]!;
      if (roundTimes[at]! > times[first]!) {
        times[first] = roundTimes[at]!;
        frames[first] = back;
      }
      continue;
    }
    nodeOf[at] = growing.child(under, name, tree.inlined[at]!);
    roundFrames[at] = roundFrames[above]!;
    roundTimes[at] = roundTimes[above]!;
    sinceRound[at] = sinceRound[above]! + 1;
  }
  const nodes = Math.min(count, growing.count);
  return {
    parent: growing.parent.slice(0, nodes), fn: growing.fn.slice(0, nodes), inlined: growing.inlined.slice(0, nodes),
    times: times.slice(0, nodes), frames: frames.slice(0, nodes), nodeOf,
  };
}

/**
 * The number of frames in the round that a call of `name` from `node` completes again; 0 when it completes
 * none.
 */
function roundBack({ parent, fn }: Growing, node: number, name: number): number {
  let end = node;
  for (let frames = 1; frames <= LONGEST_CYCLE && end !== 0; frames++, end = parent[end]!) {
    if (fn[end] !== name) continue;
    let inner = node;
    let outer = parent[end]!;
    let same = 1;
    while (same < frames && outer !== 0 && fn[inner] === fn[outer]) {
      inner = parent[inner]!;
      outer = parent[outer]!;
      same++;
    }
    if (same === frames) return frames;
  }
  return 0;
}
