// The stack chart: an unchanged frame is one box, a pause is a gap, and only the view is laid out.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { depths } from './aggregate.ts';
import { boxesIn, deepest, matchesIn, threadSamples, type ThreadSamples } from './stackchart.ts';

// root(0) > main(1) > a(2) > b(3); main > c(4)
const parent = Uint32Array.of(0, 0, 1, 2, 1);
const nodes = { parent, depth: depths(parent) };
const view = { from: 0, to: 100, width: 1000, firstRow: 0, rows: 10 };

function thread(samples: [time: number, node: number][]): ThreadSamples {
  const table = {
    time: Float64Array.from(samples, sample => sample[0]),
    thread: new Uint32Array(samples.length),
    stack: Uint32Array.from(samples, sample => sample[1]),
    value: new Float64Array(samples.length).fill(1),
  };
  return threadSamples(table, 0, stack => stack);
}

const shown = (chart: ThreadSamples, at = view): string[] =>
  boxesIn(nodes, chart, at).map(box => `${box.node}@${box.row} ${box.start}-${box.end}`);

test('an unchanged frame is one box', () => {
  assert.deepEqual(shown(thread([[0, 3], [10, 2], [20, 4], [30, 1]])), ['1@0 0-40', '2@1 0-20', '3@2 0-10', '4@1 20-30']);
});

test('a pause is a gap', () => {
  assert.deepEqual(shown(thread([[0, 1], [10, 1], [20, 1], [80, 1], [90, 1]])), ['1@0 0-30', '1@0 80-100']);
});

test('a pause under two pixels is not drawn', () => {
  assert.deepEqual(shown(thread([[0, 1], [10, 1], [20, 1], [80, 1], [90, 1]]), { ...view, width: 3 }), ['1@0 0-100']);
});

test('rows out of view are not laid out', () => {
  assert.deepEqual(shown(thread([[0, 3], [10, 2]]), { ...view, firstRow: 1, rows: 1 }), ['2@1 0-20']);
});

test('samples closer than a pixel are drawn once', () => {
  const many = thread(Array.from({ length: 10_000 }, (_, at): [number, number] => [at / 100, at % 2 ? 2 : 4]));
  assert.ok(boxesIn(nodes, many, { ...view, width: 50 }).length <= 102);
});

test('10,000 frames deep', () => {
  const deep = Uint32Array.from({ length: 10_001 }, (_, at) => Math.max(0, at - 1));
  const tree = { parent: deep, depth: depths(deep) };
  const chart = thread([[0, 10_000], [10, 5_001]]);
  assert.equal(deepest(tree, chart), 10_000);
  const boxes = boxesIn(tree, chart, { ...view, firstRow: 4_999, rows: 4 });
  assert.deepEqual(boxes.map(box => [box.row, box.end]), [[4_999, 20], [5_000, 20], [5_001, 10], [5_002, 10]]);
});

test('matches are the outermost frames in time order', () => {
  const shape = { ...nodes, fn: Uint32Array.of(9, 1, 2, 3, 2) };
  const chart = thread([[0, 3], [10, 2], [20, 4], [30, 1], [40, 4]]);
  const found = (matched: number[], range: readonly [number, number] = [0, 100]): string[] =>
    matchesIn(shape, chart, Uint8Array.from({ length: 10 }, (_, fn) => Number(matched.includes(fn))), range).map(box => `${box.node}@${box.row} ${box.start}-${box.end}`);
  assert.deepEqual(found([2, 3]), ['2@1 0-20', '4@1 20-30', '4@1 40-50']);
  assert.deepEqual(found([3]), ['3@2 0-10']);
  assert.deepEqual(found([2], [30, 100]), ['4@1 40-50']);
  assert.deepEqual(found([]), []);
});
