// The call trees above and below a function: its callers, and its callees. Both have the function as their
// root, and a sample that contains it counts once in each.

import { childLists, depths, Growing, invert, type CallTree } from './aggregate.ts';
import type { FoldedTree } from './derive.ts';
import { NONE } from './payload.ts';

/** Frames narrower than this share of the function have no callers of their own; and the most nodes. */
const FINEST = 100_000, MOST = 200_000;

/** Everything outside the outermost calls of a function. */
export function callersTree(tree: CallTree, fn: number): CallTree {
  const inside = new Uint8Array(tree.parent.length), self = new Float64Array(tree.parent.length);
  let whole = 0;
  for (let node = 1; node < inside.length; node++) {
    if (inside[tree.parent[node]!] === 1) inside[node] = 1;
    else if (tree.fn[node] === fn) {
      inside[node] = 1;
      self[node] = tree.total[node]!;
      whole += tree.total[node]!;
    }
  }
  const up = invert({ ...tree, self }, tree.fn[0]!, { minimum: whole / FINEST, limit: MOST, of: fn });
  return up.parent.length < 2 ? alone(fn, 0) : withoutRoot(up);
}

/** Everything inside the innermost calls of a function. */
export function calleesTree(tree: CallTree, fn: number): CallTree {
  const { hidden, families, times, frames, more } = tree as Partial<FoldedTree>;
  const growing = new Growing(fn), to = new Uint32Array(tree.parent.length).fill(NONE);
  for (let node = 1; node < to.length; node++) {
    const around = to[tree.parent[node]!]!;
    if (tree.fn[node] === fn) to[node] = 0;
    else if (around !== NONE && tree.total[node]! > 0) to[node] = growing.child(around, tree.fn[node]!, tree.inlined[node]!);
  }
  const { count } = growing, parent = growing.parent.slice(0, count), self = new Float64Array(count);
  const folded = { hidden: new Uint32Array(count), families: new Uint32Array(count), times: new Uint32Array(count), frames: new Uint8Array(count), more: new Uint8Array(count) };
  to.forEach((at, node) => {
    if (at === NONE) return;
    self[at]! += tree.self[node]!;
    if (at === 0 || !hidden) return;
    folded.hidden[at] = Math.max(folded.hidden[at]!, hidden[node]!);
    folded.families[at]! |= families![node]!;
    folded.more[at]! |= more![node]!;
    if (times![node]! > folded.times[at]!) [folded.times[at], folded.frames[at]] = [times![node]!, frames![node]!];
  });
  const total = self.slice();
  for (let node = count - 1; node > 0; node--) total[parent[node]!]! += total[node]!;
  const whole: CallTree & Pick<FoldedTree, 'hidden' | 'families' | 'times' | 'frames' | 'more'> = {
    parent, fn: growing.fn.slice(0, count), inlined: growing.inlined.slice(0, count), depth: depths(parent), ...childLists(parent), self, total, ...folded,
  };
  return whole;
}

function alone(fn: number, total: number): CallTree {
  const parent = new Uint32Array(1);
  return { parent, fn: Uint32Array.of(fn), inlined: new Uint8Array(1), depth: new Uint32Array(1), ...childLists(parent), self: Float64Array.of(total), total: Float64Array.of(total) };
}

/** A tree whose root has one child, from that child on. */
function withoutRoot({ parent, fn, inlined, self, total }: CallTree): CallTree {
  const next = parent.slice(1).map(node => Math.max(0, node - 1));
  return { parent: next, fn: fn.slice(1), inlined: inlined.slice(1), depth: depths(next), ...childLists(next), self: self.slice(1), total: total.slice(1) };
}
