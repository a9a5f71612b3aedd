// Folds chains of frames that only start or carry other code. A chain is drawn as its outermost frame, which
// has its own verdict: no values are summed, so no new verdict is needed.

import { childLists, depths, type CallTree } from '../aggregate.ts';
import type { FoldedTree } from '../derive.ts';
import type { Model } from '../model.ts';

/** Shorter chains are faster to read than a folded frame. */
const LEAST_FRAMES = 3;
/** A chain continues where it loses no more than this share of everything. */
const SMALL = .01;

export type FoldedPaths = CallTree & Pick<FoldedTree, 'hidden' | 'families'> & {
  /** 1 for each node that is drawn as the outermost frame of its chain. */
  inside: Uint8Array;
};

/**
 * Nodes keep their numbers. Those inside chains have no value, and their other callees belong to the
 * outermost frame.
 */
export function foldChains(model: Model, tree: CallTree): FoldedPaths {
  const count = tree.parent.length, small = tree.total[0]! * SMALL;
  const family = (node: number): number => (node === 0 ? -1 : model.carrier(tree.fn[node]!));
  // The outermost frame of the chain around a node; the node itself outside chains.
  const first = new Uint32Array(count), frames = new Uint32Array(count), families = new Uint32Array(count);
  for (let node = 1; node < count; node++) {
    const around = tree.parent[node]!, own = family(node);
    const goesOn = own >= 0 && family(around) >= 0 && tree.total[first[around]!]! - tree.total[node]! <= small;
    const start = first[node] = goesOn ? first[around]! : node;
    if (own < 0) continue;
    frames[start] = Math.max(frames[start]!, tree.depth[node]! - tree.depth[start]! + 1);
    families[start]! |= 1 << own;
  }
  const stands = (node: number): number => (frames[first[node]!]! >= LEAST_FRAMES ? first[node]! : node);
  const inside = new Uint8Array(count), parent = new Uint32Array(count), fn = tree.fn.slice(), hidden = new Uint32Array(count);
  for (let node = 1; node < count; node++) {
    if (stands(node) !== node) inside[node] = 1;
    parent[node] = inside[node] ? stands(node) : stands(tree.parent[node]!);
    if (stands(node) === node && frames[node]! >= LEAST_FRAMES) {
      hidden[node] = frames[node]!;
      fn[node] = model.carrierFunction(family(node));
    } else families[node] = 0;
  }
  const lists = childLists(parent), total = without(tree.total, inside);
  for (let node = 0; node < count; node++) lists.children.subarray(lists.firstChild[node]!, lists.firstChild[node + 1]!).sort((a, b) => total[b]! - total[a]! || a - b);
  return { ...tree, ...lists, parent, fn, depth: depths(parent), total, self: without(tree.self, inside), hidden, families, inside };
}

/** The same values, 0 where a node is inside a chain. */
export const without = (values: Float64Array, inside: Uint8Array): Float64Array => values.map((value, node) => (inside[node] ? 0 : value));
