// Search matches in a call tree: the frames and paths to go to, heaviest first.

import type { CallTree } from './aggregate.ts';
import type { FoldedTree } from './derive.ts';
import { familiesOf } from './flame/label.ts';
import type { Model } from './model.ts';
import type { Branch, Outline } from './outline.ts';

/** `n` visits at most this many matches. */
const MOST = 10_000;

/** Frames of the matching functions. */
export function heaviestAmong(model: Model, tree: CallTree, matched: Uint8Array): number[] {
  const nodes: number[] = [];
  for (let node = 1; node < tree.total.length; node++) if (model.isAmong(matched, tree.fn[node]!, familiesOf(tree, node)) && tree.total[node]! > 0) nodes.push(node);
  return nodes.sort((a, b) => tree.total[b]! - tree.total[a]! || a - b);
}

/** Paths of functions from a root row to each outermost match of a top-down tree. */
export function matchesTopDown(tree: FoldedTree, isMatch: (node: number) => boolean): number[][] {
  const inside = new Uint8Array(tree.parent.length);
  const found: number[] = [];
  for (let node = 1; node < tree.parent.length; node++) {
    if (tree.total[node]! <= 0) continue;
    const isInside = inside[tree.parent[node]!] === 1;
    if (!isInside && isMatch(node)) found.push(node);
    if (isInside || isMatch(node)) inside[node] = 1;
  }
  found.sort((a, b) => tree.total[b]! - tree.total[a]! || a - b);
  const paths: number[][] = [];
  for (const node of found.slice(0, MOST)) {
    const path: number[] = [];
    for (let at = node; at !== 0; at = tree.parent[at]!) path.push(tree.fn[at]!);
    paths.push(path.reverse());
  }
  return paths;
}

/** In an inverted tree, the root rows are the functions themselves. */
export const matchesInverted = (outline: Outline, isMatch: (branch: Branch) => boolean): number[][] =>
  outline.roots.filter(isMatch).slice(0, MOST).map(root => [root.fn]);
