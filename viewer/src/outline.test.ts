// Call trees: recursion is folded, callers and callees add up to the function, 10,000 frames work.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addUp, shapeOf } from './aggregate.ts';
import type { FoldedTree } from './derive.ts';
import { fold as foldTree } from './fold.ts';
import { calleesOf, callersOf, inverted, topDown, type Outline } from './outline.ts';
import { matchesInverted, matchesTopDown } from './treematches.ts';
import { Paths, heaviestPath, pathsBelow, rowsOf } from './outlinerows.ts';

const names: string[] = [];
const labelOf = (name: string): number => {
  const known = names.indexOf(name);
  return known >= 0 ? known : names.push(name) - 1;
};

/** A tree from lines of folded stacks: `main;a;f 4`. */
function tree(folded: string): FoldedTree {
  const parent = [0];
  const fn = [labelOf('all')];
  const self = [0];
  const known = new Map<string, number>();
  for (const line of folded.split('\n')) {
    const [path, value] = [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))];
    let at = 0;
    for (const name of path.split(';')) {
      const key = `${at};${name}`;
      let node = known.get(key);
      if (node === undefined) {
        node = parent.push(at) - 1;
        fn.push(labelOf(name));
        self.push(0);
        known.set(key, node);
      }
      at = node;
    }
    self[at]! += value;
  }
  const shape = { parent: Uint32Array.from(parent), fn: Uint32Array.from(fn), inlined: new Uint8Array(parent.length) };
  const fold = foldTree(shape, Float64Array.from(self), { family: new Int8Array(names.length).fill(-1), joins: () => false, fn: () => 0, isFunction: () => true, isLeftOut: () => false }, 0);
  const values = addUp(shapeOf({ ...fold, nodeOfStack: fold.nodeOf }, names.length), Float64Array.from(self));
  return { ...fold, ...values };
}

function lines(outline: Outline): string[] {
  const paths = new Paths();
  const open = new Set<number>();
  for (const root of outline.roots) {
    for (const path of pathsBelow(outline, paths, root, paths.below(0, root.fn))) open.add(path);
  }
  return rowsOf(outline, paths, open).map(({ branch, depth }) => {
    const repeat = branch.times > 1 ? ` ${branch.frames}×${branch.times}` : '';
    return `${' '.repeat(depth)}${names[branch.fn]} ${branch.self}/${branch.total}${repeat}`;
  });
}

test('a tree is shown heaviest first', () => {
  assert.deepEqual(lines(topDown(tree('main;a;f 4\nmain;b 5\nmain 1'))), ['main 1/10', ' b 5/5', ' a 0/4', '  f 4/4']);
});

test('an inverted tree starts with self time', () => {
  assert.deepEqual(lines(inverted(tree('main;a;f 4\nmain;b;f 3\nmain 1'))), [
    'f 7/7', ' a 0/4', '  main 0/4', ' b 0/3', '  main 0/3', 'main 1/1',
  ]);
});

test('a function that calls itself is one row', () => {
  const deep = `main${';f'.repeat(500)};work 3\nmain;f;f;work 2\nmain;f 1`;
  assert.deepEqual(lines(topDown(tree(deep))), ['main 0/6', ' f 1/6 1×500', '  work 5/5']);
});

test('mutual recursion folds into one round', () => {
  assert.deepEqual(lines(topDown(tree(`main${';a;b'.repeat(200)};work 3`))), ['main 0/3', ' a 0/3', '  b 0/3 2×200', '   work 3/3']);
});

test('callers and callees add up to the function', () => {
  const data = tree('main;a;f;g 4\nmain;b;f 3\nmain;b;f;h 2\nmain 9');
  const callers = callersOf(data, labelOf('f'));
  const callees = calleesOf(data, labelOf('f'));
  assert.deepEqual(lines(callers), ['b 0/5', ' main 0/5', 'a 0/4', ' main 0/4']);
  assert.deepEqual(lines(callees), ['g 4/4', 'h 2/2']);
  assert.equal(callers.whole, 9);
  assert.equal(callees.whole, 9);
});

test('recursion counts for the outermost caller and the innermost callee', () => {
  const data = tree('main;a;f;x;f;g 4\nmain;f;f;f 1');
  assert.deepEqual(lines(callersOf(data, labelOf('f'))).filter(line => !line.startsWith(' ')), ['a 0/4', 'main 0/1']);
  assert.deepEqual(lines(calleesOf(data, labelOf('f'))), ['g 4/4']);
  assert.equal(calleesOf(data, labelOf('f')).whole, 5);
});

test('an outermost function has no callers, an unknown one has no rows', () => {
  const data = tree('main;a 4');
  assert.deepEqual(callersOf(data, labelOf('main')).roots, []);
  assert.equal(callersOf(data, labelOf('main')).whole, 4);
  assert.equal(calleesOf(data, labelOf('nowhere')).whole, 0);
});

test('the heaviest path ends where the time splits into small parts', () => {
  const data = tree('main;a;b;x 1\nmain;a;b;y 1\nmain;a;b;z 1\nmain;a;b;u 1\nmain;c 1');
  const outline = topDown(data);
  const paths = new Paths();
  const open = new Set(heaviestPath(outline, paths));
  const shown = rowsOf(outline, paths, open).map(row => names[row.branch.fn]);
  assert.deepEqual(shown, ['main', 'a', 'b', 'x', 'y', 'z', 'u', 'c']);
});

test('paths keep their numbers when values change', () => {
  const paths = new Paths();
  const before = heaviestPath(topDown(tree('main;a;b 4\nmain;c 1')), paths);
  const rows = rowsOf(topDown(tree('main;a;b 1\nmain;c 7')), paths, new Set(before));
  assert.deepEqual(rows.map(row => names[row.branch.fn]), ['main', 'c', 'a', 'b']);
});

test('matches of a search are paths, the heaviest first and the outermost only', () => {
  const data = tree('start;main;a;hit;hit2 4\nstart;main;b;hit 5\nstart;other 1');
  const matched = Uint8Array.from(names, name => (name.startsWith('hit') ? 1 : 0));
  const shown = matchesTopDown(data, node => matched[data.fn[node]!] === 1).map(path => path.map(fn => names[fn]).join(';'));
  assert.deepEqual(shown, ['start;main;b;hit', 'start;main;a;hit']);
  assert.deepEqual(matchesInverted(inverted(data), ({ fn }) => matched[fn] === 1).map(([fn]) => names[fn!]), ['hit', 'hit2']);
});

test('10,000 different frames deep', () => {
  const data = tree(`${Array.from({ length: 10_000 }, (_, at) => `f${at}`).join(';')} 1`);
  const outline = topDown(data);
  const paths = new Paths();
  const rows = rowsOf(outline, paths, new Set(heaviestPath(outline, paths)));
  assert.equal(rows.length, 10_000);
  assert.equal(rows.at(-1)?.depth, 9_999);
  assert.equal(lines(inverted(data)).length, 10_000);
});
