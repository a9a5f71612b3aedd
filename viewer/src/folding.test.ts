// Folding and "only your code": how executors are shown, and that no weight is lost.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { executor } from '../test/make-payload.mjs';
import type { CallTree } from './aggregate.ts';
import { callTree, flameTree, foldedTree, functionTable, search, treeAroundFunction } from './derive.ts';
import { nodeName } from './flame/label.ts';
import { functionCosts } from './lines.ts';
import { KIND, Model } from './model.ts';
import { calleesOf, callersOf } from './outline.ts';
import { decode } from './payload.ts';
import { calleesTree } from './sandwichtrees.ts';
import { START, type State } from './state.ts';

const model = new Model(decode(executor()));
const fnOf = (name: string): number => Array.from({ length: model.functionCount }, (_, fn) => fn).find(fn => model.name(fn) === name)!;

/** The nodes with weight, as `path total`, heaviest first. */
function lines(tree: CallTree): string[] {
  const shown: [string, number][] = [];
  for (let node = 1; node < tree.parent.length; node++) {
    if (!tree.total[node]) continue;
    const names: string[] = [];
    for (let at = node; at !== 0; at = tree.parent[at]!) names.unshift(nodeName(model, tree, at));
    shown.push([names.join(' > '), tree.total[node]! / 100_000]);
  }
  return shown.sort((a, b) => b[1] - a[1]).map(([path, total]) => `${path} ${total}`);
}

test('boilerplate folds into one row, and the same work on many paths is summed', () => {
  const worker = '[thread start, rayon: 13 frames]', main = '[start-up: 3 frames] > std::rt::lang_start';
  assert.deepEqual(lines(flameTree(model, START)), [
    `${worker} 84`,
    `${worker} > app::render 80`,
    `${worker} > app::render > app::pixel 80`,
    '[start-up: 3 frames] 16',
    `${main} 16`,
    `${main} > app::main 14`,
    `${main} > app::main > app::load 10`,
    `${worker} > app::shade 4`,
    `${worker} > app::shade > [std: 3 frames] 4`,
    `${worker} > app::shade > [std: 3 frames] > app::tone 4`,
    `${worker} > app::shade > [std: 3 frames] > app::tone > memcpy 4`,
    `${main} > app::main > app::visit (×30) 4`,
  ]);
});

test('whole stacks have every frame, and the same total', () => {
  const whole = flameTree(model, { ...START, whole: true });
  assert.equal(whole, callTree(model, { ...START, whole: true }));
  assert.equal(whole.total[0], flameTree(model, START).total[0]);
  assert.ok(lines(whole).length > 90);
  assert.ok(lines(foldedTree(model, { ...START, whole: true })).some(line => line.includes('app::visit (×30)')), 'recursion remains folded in the call tree');
});

test('the time selection changes values, not the folding', () => {
  const part: State = { ...START, brush: [0, 1e6] };
  assert.equal(flameTree(model, part).parent.length, flameTree(model, START).parent.length);
  assert.equal(flameTree(model, part).total[0], 9 * 100_000);
});

test('callers are folded too', () => {
  assert.ok(lines(flameTree(model, { ...START, inverted: true })).includes('app::pixel > app::render > [thread start] 80'));
});

test('a selected carrier is shown between its callers and callees', () => {
  const fn = fnOf('rayon::iter::left');
  const tree = treeAroundFunction(model, { ...START, fn });
  assert.equal(callersOf(tree, fn).whole, 15 * 5 * 100_000 + 3 * 100_000);
  assert.ok(calleesOf(tree, fn).roots.some(branch => model.name(branch.fn) === 'app::render'));
});

test('the callees of a function are folded too', () => {
  assert.ok(lines(calleesTree(foldedTree(model, START), fnOf('app::main'))).includes('app::visit (×30) 4'));
});

test('searching for a folded function finds its row', () => {
  const found = search(model, { ...START, search: 'join::join' });
  assert.ok(found.kind === 'found' && found.count === 1 && found.matched[model.carrierFunction(4)] === 1);
});

test('only your code: other code counts towards your nearest function', () => {
  const own: State = { ...START, own: true };
  assert.deepEqual(lines(flameTree(model, own)), [
    'app::render 80', 'app::render > app::pixel 80', 'app::main 14', 'app::main > app::load 10', 'app::shade 4', 'app::shade > app::tone 4',
    'app::main > app::visit (×30) 4', '[not in your code] 2',
  ]);
  const { self, total } = functionTable(model, own);
  assert.equal(self[fnOf('app::tone')], 400_000);
  assert.equal(total[fnOf('memcpy')], 0);
  assert.equal(self[fnOf('[not in your code]')], 200_000);
  const tone = fnOf('app::tone');
  const costs = (shown: boolean) => functionCosts(model.profile, Float64Array.from(callWeights()), fn => fn === tone, shown ? fn => model.kind(fn) === KIND.yours : undefined);
  assert.deepEqual([costs(false).whole.self, costs(true).whole.self, costs(true).lines[0]!.self], [0, 400_000, 400_000]);
});

function callWeights(): Float64Array {
  const { stacks, samples } = model.profile;
  const weights = new Float64Array(stacks.count);
  samples[0]!.stack.forEach((stack, at) => { weights[stack]! += samples[0]!.value[at]!; });
  return weights;
}
