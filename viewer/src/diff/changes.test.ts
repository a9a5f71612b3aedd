// Changes decoded from a payload: the tree of both sides, each side alone, folded chains, texts.

import assert from 'node:assert/strict';
import test from 'node:test';
import { compared } from '../../test/compared.mjs';
import { PayloadError, readContainer } from '../container.ts';
import { Model } from '../model.ts';
import { decodeProfile } from '../payload.ts';
import { START, type State } from '../state.ts';
import { changeAt, decodeChanges, treeOf, type Changes } from './changes.ts';
import { foldChains } from './fold.ts';
import { changeRows, parseSort, sortText, tableOf } from './rows.ts';
import { beforeAfter, difference, interval, qValue, ratio, worth } from './words.ts';

function opened(options = {}): { model: Model; changes: Changes } {
  const container = readContainer(compared(options)), model = new Model(decodeProfile(container));
  return { model, changes: decodeChanges(container, model) };
}

/** Frames with a value, as `path width`. */
function frames(model: Model, tree: ReturnType<typeof treeOf>): string[] {
  const name = (node: number): string => (node === 0 ? '' : `${name(tree.parent[node]!)};${model.name(tree.fn[node]!)}`);
  return [...tree.total.keys()].filter(node => node && tree.total[node]).map(node => `${name(node).slice(1)} ${tree.total[node]}`).sort();
}

test('both sides are in one tree, and each can be shown alone', () => {
  const { model, changes } = opened();
  assert.deepEqual(frames(model, treeOf(changes.tree, changes, 'both')), ['main 10010', 'main;fresh 700', 'main;gone 900', 'main;hash 2400', 'main;load 3500', 'main;load;parse 3000', 'main;same 2510']);
  assert.deepEqual(frames(model, treeOf(changes.tree, changes, 'before')), ['main 8900', 'main;gone 900', 'main;hash 2000', 'main;load 3500', 'main;load;parse 3000', 'main;same 2500']);
  assert.ok(!frames(model, treeOf(changes.tree, changes, 'after')).some(frame => frame.startsWith('main;gone')));
  // The order is that of both sides together, so that a frame keeps its position.
  const names = [...changes.tree.children.subarray(changes.tree.firstChild[1]!, changes.tree.firstChild[2]!)].map(node => model.name(changes.tree.fn[node]!));
  assert.deepEqual(names, ['load', 'same', 'hash', 'gone', 'fresh']);
});

test('a table row keeps whyslow’s verdict', () => {
  const { changes } = opened();
  const row = [...changes.rows.fn.keys()].find(row => changes.rows.own.before[row] === 3000)!;
  const change = changeAt(changes.rows.own, row);
  assert.deepEqual([change.before, change.after, changes.verdicts[change.verdict]], [3000, 1200, 'less']);
  assert.equal(changes.answer, 'Faster: cpu time 8.90 µs → 7.31 µs.');
});

test('numbers are formatted', () => {
  const change = { before: 3e9, after: 1.2e9, margin: 2e8, ratio: NaN, low: NaN, high: NaN, q: NaN, verdict: 0 };
  assert.equal(worth(change, 1), '−1.80 s (×0.40, 95 %: ± 200 ms)');
  assert.equal(beforeAfter(change, 1), '3.00 s → 1.20 s');
  const runs = { ...change, ratio: .41, low: .38, high: .44, q: .0004 };
  assert.equal(worth(runs, 1), '−1.80 s (×0.41, 95 %: 0.38 to 0.44, q <0.001)');
  const counted = { ...change, margin: NaN, before: 0, after: 7 };
  assert.deepEqual([difference(counted, 0), ratio(counted), interval(counted, 0), qValue(counted)], ['+7', 'new', '', '']);
  assert.equal(ratio({ ...change, after: 0 }), 'removed');
  assert.equal(difference({ ...change, after: 3e9 }, 1), '0');
});

test('rows can be sorted by every column and searched', () => {
  const { model, changes } = opened();
  const names = (sort: string | undefined, search = ''): string[] => {
    const state: State = { ...START, search };
    return changeRows(model, changes, state, 'own', parseSort(sort)).map(row => model.name(changes.rows.fn[row]!));
  };
  assert.deepEqual(names(undefined), ['parse', 'gone', 'fresh', 'hash', 'same', 'main', 'load']);
  assert.deepEqual(names('change').slice(0, 3), ['fresh', 'hash', 'same']);
  assert.deepEqual(names('-change').slice(0, 2), ['parse', 'gone']);
  assert.deepEqual(names('name'), ['fresh', 'gone', 'hash', 'load', 'main', 'parse', 'same']);
  assert.equal(names('ratio')[0], 'fresh');
  assert.equal(names('before')[0], 'parse');
  assert.deepEqual(names(undefined, 'a').sort(), ['hash', 'load', 'main', 'parse', 'same']);
  for (const text of ['change', '-change', 'name', '-name', 'verdict']) assert.equal(sortText(parseSort(text)!), text);
  assert.equal(parseSort('nothing'), undefined);
  assert.equal(tableOf(changes, 'total'), changes.rows.total);
  const decided = changeRows(model, changes, { ...START, panel: { 'diff-decided': '1' } }, 'own', undefined);
  assert.ok(decided.length > 0 && decided.length < names(undefined).length);
  assert.ok(decided.every(row => changes.verdicts[changes.rows.own.verdict[row]!] !== 'undecided'));
});

test('a chain of carriers is one frame with the verdict of its outermost frame', () => {
  const { model, changes } = opened({ carried: true });
  const folded = foldChains(model, changes.tree);
  const shown = frames(model, folded);
  assert.equal(shown[0], '[start-up] 10010');
  assert.ok(shown.includes('[start-up];main;load 3500'), shown.join('\n'));
  assert.equal(shown.length, 8);
  assert.deepEqual(folded.hidden.filter(Boolean), Uint32Array.of(3));
  // The drawn frame and its verdict have the same number.
  const start = folded.hidden.findIndex(Boolean);
  assert.equal(changes.pathTotal.before[start], 8900);
  const before = treeOf(folded, changes, 'before');
  assert.equal(before.total[start], 8900);
  assert.equal(frames(model, before).length, 7);
});

test('a damaged comparison is refused', () => {
  for (const [damage, message] of [['parent', /row 1 of column paths.parent/], ['function', /row 1 of column paths.function/], ['rows', /row 0 of column rows.function/]] as const) {
    assert.throws(() => opened({ damage }), (problem: Error) => problem instanceof PayloadError && message.test(problem.message), damage);
  }
});
