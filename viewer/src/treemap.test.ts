import assert from 'node:assert/strict';
import { test } from 'node:test';
import { squarify } from './treemap.ts';

const WHOLE = { x: 0, y: 0, width: 6, height: 4 };

test('the example of the paper', () => {
  const [first, second, third] = squarify([6, 6, 4, 3, 2, 2, 1], WHOLE);
  assert.deepEqual(first, { x: 0, y: 0, width: 3, height: 2 });
  assert.deepEqual(second, { x: 0, y: 2, width: 3, height: 2 });
  assert.ok(Math.abs(third!.width - 12 / 7) < 1e-9 && Math.abs(third!.height - 7 / 3) < 1e-9);
});

test('areas are in proportion inside the whole', () => {
  const values = Array.from({ length: 40 }, (_, at) => 1000 / (at + 1));
  const sum = values.reduce((sum, value) => sum + value, 0);
  squarify(values, WHOLE).forEach(({ x, y, width, height }, at) => {
    assert.ok(Math.abs(width * height - values[at]! / sum * 24) < 1e-6);
    assert.ok(x >= -1e-9 && y >= -1e-9 && x + width <= 6 + 1e-9 && y + height <= 4 + 1e-9);
  });
});

test('nothing has no area', () => {
  assert.deepEqual(squarify([], WHOLE), []);
  assert.equal(squarify([0, 0], WHOLE)[0]!.width, 0);
});
