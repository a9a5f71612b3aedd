// The call trees above and below a function.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { childLists, depths, type CallTree } from './aggregate.ts';
import { calleesTree, callersTree } from './sandwichtrees.ts';

/** A tree from rows of parent, function, self; node 0 is the root of function 0. */
function tree(rows: [parent: number, fn: number, self: number][]): CallTree {
  const all: [number, number, number][] = [[0, 0, 0], ...rows], parent = Uint32Array.from(all, ([of]) => of);
  const self = Float64Array.from(all, ([, , value]) => value), total = self.slice();
  for (let node = parent.length - 1; node > 0; node--) total[parent[node]!]! += total[node]!;
  return { parent, fn: Uint32Array.from(all, ([, fn]) => fn), inlined: new Uint8Array(parent.length), depth: depths(parent), ...childLists(parent), self, total };
}

const paths = ({ parent, fn, self, total }: CallTree) => [...parent.keys()].map(node => {
  const path: number[] = [];
  for (let at = node; ; at = parent[at]!) { path.unshift(fn[at]!); if (at === 0) break; }
  return `${path.join('>')} ${self[node]}/${total[node]}`;
}).sort();

// 1 calls 2, which calls 3 and, by way of 4, itself; 5 calls 2, too.
const CALLS = tree([[0, 1, 1], [1, 2, 2], [2, 3, 4], [2, 4, 8], [4, 2, 16], [5, 3, 32], [0, 5, 64], [7, 2, 128]]);

test('callers end at the outermost call, each sample once', () => {
  assert.deepEqual(paths(callersTree(CALLS, 2)), ['2 0/190', '2>1 62/62', '2>5 128/128']);
});

test('callees begin at the innermost call, each sample once', () => {
  assert.deepEqual(paths(calleesTree(CALLS, 2)), ['2 146/190', '2>3 36/36', '2>4 8/8']);
});

test('a function without callers, one without callees, and one without samples', () => {
  assert.deepEqual(paths(callersTree(CALLS, 1)), ['1 63/63']);
  assert.deepEqual(paths(calleesTree(CALLS, 3)), ['3 36/36']);
  assert.deepEqual([paths(callersTree(CALLS, 9)), paths(calleesTree(CALLS, 9))], [['9 0/0'], ['9 0/0']]);
});

test('direct recursion is one call, however deep', () => {
  const deep = tree(Array.from({ length: 20_000 }, (_, at): [number, number, number] => [at, 1, 1]));
  assert.deepEqual(paths(calleesTree(deep, 1)), ['1 20000/20000']);
  assert.deepEqual(paths(callersTree(deep, 1)), ['1 20000/20000']);
});
