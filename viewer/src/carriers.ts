// Folds frames that only carry other code: start-up, thread starts, executors, panic catching, forwarded
// calls. The profile says which functions those are. The rules are those of `whyslow report tree` (folding.rs
// in whyslow-analyze).

import { Growing, type Shape } from './aggregate.ts';

/** Shorter chains are faster to read than a folded row. */
const LEAST_FRAMES = 3;

/** What to fold in a profile. */
export interface Carriers {
  /** Function → its family; -1 for one that is not folded. */
  readonly of: Int8Array;
  /** Whether code of one family counts as part of the other family around it. */
  joins(family: number, around: number): boolean;
  /** The function that represents a family. */
  fn(family: number): number;
  /** Too little weight for a separate branch. */
  readonly small: number;
}

/** A tree without values, with its carriers folded. Node 0 is the root, its own parent. */
export interface Carried extends Pick<Shape, 'parent' | 'fn' | 'inlined'> {
  /** Node of the whole tree → its folded node. */
  nodeOf: Uint32Array;
  /** Frames on the deepest stack that a node represents; 0 when it is a plain frame. */
  hidden: Uint32Array;
  /** Their families, one bit each. */
  families: Uint32Array;
}

/** `totals`: the weight of each node over all samples, independent of the selection. */
export function foldCarriers(tree: Pick<Shape, 'parent' | 'fn' | 'inlined'>, totals: Float64Array, carriers: Carriers): Carried {
  const inRegion = regions(tree, carriers);
  if (!inRegion.includes(1)) {
    const count = tree.parent.length;
    return { ...tree, nodeOf: same(count), hidden: new Uint32Array(count), families: new Uint32Array(count) };
  }
  return joinNeighbours(foldRegions(tree, inRegion, carriers), tree, totals, carriers);
}

/** The identity: every node maps to itself. */
function same(count: number): Uint32Array {
  const nodes = new Uint32Array(count);
  for (let node = 0; node < count; node++) nodes[node] = node;
  return nodes;
}

/** 1 for each node of a chain of carriers that is long enough on some stack. */
function regions({ parent, fn }: Pick<Shape, 'parent' | 'fn'>, { of }: Carriers): Uint8Array {
  const deepest = new Uint32Array(parent.length);
  const carried = (node: number): boolean => node !== 0 && of[fn[node]!]! >= 0;
  for (let node = 1; node < deepest.length; node++) if (carried(node)) deepest[node] = deepest[parent[node]!]! + 1;
  for (let node = deepest.length - 1; node > 0; node--) {
    const around = parent[node]!;
    if (carried(node) && carried(around)) deepest[around] = Math.max(deepest[around]!, deepest[node]!);
  }
  // The outermost node of a region knows how deep it is.
  for (let node = 1; node < deepest.length; node++) if (carried(node) && carried(parent[node]!)) deepest[node] = deepest[parent[node]!]!;
  const inRegion = new Uint8Array(deepest.length);
  for (let node = 1; node < deepest.length; node++) if (deepest[node]! >= LEAST_FRAMES) inRegion[node] = 1;
  return inRegion;
}

interface Regions { growing: Growing; nodeOf: Uint32Array; hidden: Uint32Array; families: Uint32Array; only: Int32Array }

/** One node per region and family. */
function foldRegions(tree: Pick<Shape, 'parent' | 'fn' | 'inlined'>, inRegion: Uint8Array, carriers: Carriers): Regions {
  const count = tree.parent.length;
  const growing = new Growing(tree.fn[0] ?? 0);
  const nodeOf = new Uint32Array(count);
  const inside = new Int8Array(count).fill(-1), frames = new Uint32Array(count);
  const hidden = new Uint32Array(count), families = new Uint32Array(count);
  const only = new Int32Array(count); // the function of a folded node with a single function; -1 for several
  for (let node = 1; node < count; node++) {
    const above = tree.parent[node]!, fn = tree.fn[node]!;
    const under = nodeOf[above]!;
    if (!inRegion[node]) {
      nodeOf[node] = growing.child(under, fn, tree.inlined[node]!);
      continue;
    }
    const own = carriers.of[fn]!, around = inside[above]!;
    const isJoined = around >= 0 && carriers.joins(own, around);
    const family = isJoined ? around : own;
    const at = isJoined ? under : growing.child(under, carriers.fn(own), 0);
    inside[node] = family;
    frames[node] = isJoined ? frames[above]! + 1 : 1;
    nodeOf[node] = at;
    only[at] = hidden[at] === 0 || only[at] === fn ? fn : -1;
    hidden[at] = Math.max(hidden[at]!, frames[node]!);
    families[at]! |= 1 << family;
  }
  return { growing, nodeOf, hidden, families, only };
}

/**
 * Joins a folded node with a folded child when nothing else below it is worth showing; and never folds a
 * single frame.
 */
function joinNeighbours({ growing: { parent, fn, inlined, count }, nodeOf, hidden, families, only }: Regions,
  tree: Pick<Shape, 'parent'>, totals: Float64Array, { small }: Carriers): Carried {
  const total = new Float64Array(count);
  for (let node = 0; node < totals.length; node++) {
    // A node merged into its parent is a part of it.
    if (node === 0 || nodeOf[node] !== nodeOf[tree.parent[node]!]) total[nodeOf[node]!]! += totals[node]!;
  }
  const joins = (node: number): boolean => !!hidden[node] && !!hidden[parent[node]!] && total[parent[node]!]! - total[node]! <= small;
  for (let node = count - 1; node > 0; node--) {
    if (!joins(node)) continue;
    hidden[parent[node]!]! += hidden[node]!;
    families[parent[node]!]! |= families[node]!;
  }
  const joined = new Growing(fn[0]!);
  const to = new Uint32Array(count);
  const kept = { hidden: new Uint32Array(count), families: new Uint32Array(count) };
  for (let node = 1; node < count; node++) {
    const under = to[parent[node]!]!;
    if (joins(node)) {
      to[node] = under;
      continue;
    }
    const isOne = hidden[node] === 1 && only[node]! >= 0;
    const at = to[node] = joined.child(under, isOne ? only[node]! : fn[node]!, inlined[node]!);
    if (!hidden[node] || isOne) continue;
    kept.hidden[at] = Math.max(kept.hidden[at]!, hidden[node]!);
    kept.families[at]! |= families[node]!;
  }
  const nodes = joined.count;
  return {
    parent: joined.parent.slice(0, nodes), fn: joined.fn.slice(0, nodes), inlined: joined.inlined.slice(0, nodes), nodeOf: nodeOf.map(node => to[node]!),
    hidden: kept.hidden.slice(0, nodes), families: kept.families.slice(0, nodes),
  };
}
