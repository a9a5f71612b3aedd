// Positions of frames: nothing overlaps, narrow frames become runs, frames out of view cost nothing.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deep, large, small } from '../../test/make-payload.mjs';
import { addUp, buildShape, stackWeights } from '../aggregate.ts';
import { Model } from '../model.ts';
import { decode } from '../payload.ts';
import { boxAt, Layout, rowsNeeded } from './layout.ts';
import { nodeAt, pathOf } from './path.ts';
import { neighbour } from './walk.ts';

function layoutOf(bytes: Uint8Array) {
  const model = new Model(decode(bytes));
  const shape = buildShape(model, { inline: true, generics: false, collapse: false, own: false, transforms: [] });
  return new Layout(addUp(shape, stackWeights(model.profile.samples[0]!, model.profile.stacks.count, { threads: undefined, range: undefined, mask: undefined })));
}

test('siblings are side by side, heaviest first', () => {
  const layout = layoutOf(small()), { tree } = layout;
  const boxes = layout.visible({ start: 0, span: tree.total[0]! }, 1000, 0, 20);
  const second = boxes.row.map((row, at) => ({ row, x: boxes.x[at]!, width: boxes.width[at]! })).filter(({ row }) => row === 1);
  assert.deepEqual(second.map(({ x, width }) => [Math.round(x), Math.round(width)]), [[0, 600], [600, 380], [980, 20]]);
  assert.equal(boxes.node[boxAt(boxes, 601, 1)], tree.fn.indexOf(tree.fn[boxes.node[boxAt(boxes, 700, 1)]!]!));
  assert.equal(boxAt(boxes, 10, 15), -1);
});

test('siblings by name: narrow ones between wide ones form their own runs', () => {
  const weighty = layoutOf(small()), { tree } = weighty;
  const rank = Uint32Array.from({ length: 200 }, (_, fn) => 200 - fn);
  const layout = new Layout(tree, rank);
  const boxes = layout.visible({ start: 0, span: tree.total[0]! }, 10, 0, 20);
  for (let row = 0; row < 4; row++) {
    const inRow = boxes.row.map((of, at) => ({ of, x: boxes.x[at]!, end: boxes.x[at]! + boxes.width[at]! })).filter(({ of }) => of === row);
    inRow.slice(1).forEach(({ x }, at) => assert.ok(x >= inRow[at]!.end - 1e-9, `row ${row}`));
  }
  const names = (of: Layout) => [...of.childrenOf(0)].map(node => tree.fn[node]!);
  assert.deepEqual(names(layout), names(weighty).sort((a, b) => b - a));
  assert.notDeepEqual(names(layout), names(weighty));
  assert.equal(boxes.run.filter(run => run === 1).length > 0, true);
});

test('boxes of a large tree: in order, inside their parents, few', () => {
  const layout = layoutOf(large({ samples: 50_000, nodes: 40_000 })), { tree } = layout;
  const width = 1200, boxes = layout.visible({ start: 0, span: tree.total[0]! }, width, 0, 40);
  assert.ok(boxes.count < 12_000, `${boxes.count} boxes`);
  const ends = new Map<number, number>();
  const places = new Map<number, [number, number]>();
  for (let i = 0; i < boxes.count; i++) {
    const [x, end, row, node] = [boxes.x[i]!, boxes.x[i]! + boxes.width[i]!, boxes.row[i]!, boxes.node[i]!];
    assert.ok(x >= (ends.get(row) ?? 0) - 1e-6, 'no overlap within a row');
    ends.set(row, end);
    places.set(node, [x, end]);
    const around = places.get(tree.parent[node]!);
    if (node) assert.ok(around && x >= around[0] - 1e-6 && end <= around[1] + 1e-6, 'inside its parent');
  }
});

test('a zoomed view shows the frame from edge to edge', () => {
  const layout = layoutOf(small()), { tree } = layout;
  const node = tree.fn.length - 2, view = layout.viewOf(node);
  const boxes = layout.visible(view, 500, 0, 20), at = boxes.node.indexOf(node);
  assert.deepEqual([Math.round(boxes.x[at]!), Math.round(boxes.width[at]!)], [0, 500]);
});

test('rows far down a deep stack are found', () => {
  const layout = layoutOf(deep()), { tree } = layout;
  assert.equal(rowsNeeded(tree, 0), 10_001);
  const boxes = layout.visible({ start: 0, span: tree.total[0]! }, 1000, 9_000, 10);
  assert.equal(boxes.count, 20);
  const node = boxes.node[0]!;
  assert.equal(tree.depth[node], 9_000);
  assert.deepEqual(nodeAt(tree, pathOf(tree, node)), { node, whole: true });
  const right = neighbour(layout, node, 1, () => true);
  assert.equal(tree.depth[right], 9_000);
  assert.notEqual(right, node);
  assert.equal(neighbour(layout, right, 1, () => true), right);
  assert.equal(neighbour(layout, right, -1, () => true), node);
});
