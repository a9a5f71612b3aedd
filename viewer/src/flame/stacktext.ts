// A stack as text.

import type { CallTree } from '../aggregate.ts';
import type { FoldedTree } from '../derive.ts';
import type { Model } from '../model.ts';

/** The frames from a node to the outermost one, innermost first, one per line: for a message to others. */
export function stackText(model: Model, tree: CallTree, node: number, inverted: boolean): string {
  const lines: string[] = [];
  for (let at = node; at !== 0; at = tree.parent[at]!) {
    const fn = tree.fn[at]!, place = model.place(fn), { hidden, families } = tree as Partial<FoldedTree>;
    lines.push(hidden?.[at] ? model.foldName(families![at]!, hidden[at]!) : `${model.name(fn)}${place && ` (${place})`}`);
  }
  return (inverted ? lines.reverse() : lines).join('\n');
}
