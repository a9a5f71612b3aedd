// The folded call tree of a state; kept as long as the trees it is made of.

import type { CallTree, Shape } from './aggregate.ts';
import { callTree, shape } from './derive.ts';
import { foldRecursion, weigh, type Folded, type FoldedTree } from './fold.ts';
import type { Model } from './model.ts';
import type { State } from './state.ts';

const folds = new WeakMap<Shape, Folded>();
const trees = new WeakMap<CallTree, FoldedTree>();

export function foldedTree(model: Model, state: State): FoldedTree {
  const tree = callTree(model, state);
  let folded = trees.get(tree);
  if (!folded) {
    const whole = shape(model, state);
    let fold = folds.get(whole);
    if (!fold) folds.set(whole, fold = foldRecursion(whole));
    trees.set(tree, folded = weigh(fold, tree.self));
  }
  return folded;
}
