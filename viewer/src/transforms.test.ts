// Transforms of places in the call tree, of functions and of libraries.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { known } from '../test/known.mjs';
import { executor, realistic, small } from '../test/make-payload.mjs';
import { callTree, foldedTree, functionTable, sampleCount, whole } from './derive.ts';
import { pathOf } from './flame/path.ts';
import { Model } from './model.ts';
import { decode } from './payload.ts';
import { START, type State } from './state.ts';
import { isFold, libraryName, type Transform } from './transforms.ts';

const MS = 1e6;
const model = new Model(decode(known()));
const [main, sum, add, walk, hash, copy] = [0, 1, 2, 3, 4, 6];
const state = (...transforms: Transform[]): State => ({ ...START, transforms });

/** `a > b` → its total in milliseconds. */
function paths(of: State): Record<string, number> {
  const tree = callTree(model, of);
  return Object.fromEntries(Array.from(tree.fn, (_, node) => node).filter(node => node && tree.total[node])
    .map(node => [pathOf(tree, node).map(fn => model.name(fn).split('::').at(-1)).join(' > '), tree.total[node]! / MS]));
}

test('a collapsed function has the weight of what it calls', () => {
  const collapsed = state({ kind: 'collapse', fn: sum });
  assert.deepEqual(paths(collapsed), { main: 90, 'main > sum': 70, 'main > walk': 20, 'main > walk > walk': 10, 'main > walk > walk > walk': 10, 'main > walk > walk > walk > memcpy': 10, work: 10, 'work > hash': 10 });
  assert.equal(functionTable(model, collapsed).self[sum]! / MS, 70);
  assert.equal(functionTable(model, collapsed).self[hash]! / MS, 10, 'other callers keep it');
});

test('a collapsed library keeps its entry functions and what it calls outside', () => {
  assert.equal(libraryName(model, main), 'app');
  assert.equal(libraryName(model, copy), 'libc.so.6');
  assert.deepEqual(paths(state({ kind: 'library', fn: walk })), { main: 90, 'main > add': 40, 'main > hash': 10, 'main > memcpy': 10, work: 10, 'work > hash': 10 });
});

test('one place of a function is focused or merged, its other places stay', () => {
  const path = [main, sum, hash];
  const focused = state({ kind: 'subtree', fn: hash, path });
  assert.deepEqual(paths(focused), { hash: 10 });
  assert.equal(sampleCount(model, focused), 10);
  const merged = state({ kind: 'node', fn: hash, path });
  assert.equal(paths(merged)['main > sum > hash'], undefined);
  assert.equal(paths(merged)['work > hash'], 10);
  assert.equal(functionTable(model, merged).self[sum]! / MS, 30);
  assert.equal(whole(model, merged) / MS, 100);
  assert.deepEqual(paths(state({ kind: 'node', fn: sum, path: [main, sum] }))['main > add'], 40, 'what it calls moves up');
});

test('a transform sees what the ones before it left', () => {
  assert.deepEqual(paths(state({ kind: 'focus', fn: sum }, { kind: 'subtree', fn: add, path: [sum, add] })), { add: 40 });
  assert.deepEqual(paths(state({ kind: 'subtree', fn: sum, path: [main, sum] }, { kind: 'hide', fn: main })), { sum: 70, 'sum > add': 40, 'sum > hash': 10 });
  assert.deepEqual(paths(state({ kind: 'merge', fn: main }, { kind: 'subtree', fn: sum, path: [sum] })), { sum: 70, 'sum > add': 40, 'sum > hash': 10 });
});

test('the focus on a place has the weight that the call tree shows, also below folded frames', () => {
  for (const made of [known, small, executor, () => realistic({ samples: 2000 })]) {
    const of = new Model(decode(made()));
    for (const shown of [START, { ...START, own: true }, { ...START, inline: false }, { ...START, collapse: true }]) {
      const tree = foldedTree(of, shown);
      for (let node = 1; node < Math.min(tree.fn.length, 60); node++) {
        const fn = tree.fn[node]!, path = pathOf(tree, node);
        if (isFold(of, fn) || fn === of.others) continue;
        assert.equal(Math.round(whole(of, { ...shown, transforms: [{ kind: 'subtree', fn, path }] })), Math.round(tree.total[node]!), path.map(fn => of.name(fn)).join(' > '));
      }
    }
  }
});
