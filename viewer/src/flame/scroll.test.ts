// The window of the flame graph keeps its distance from the root, whatever changes.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { distanceFromRoot, placed } from './scroll.ts';

test('the window covers the rows exactly after each change of its height', () => {
  for (const rootOnTop of [true, false]) {
    let { top, spare } = placed(1000, 400, 0, rootOnTop);
    for (const height of [700, 120, 400, 1300, 60, 1000]) {
      const fromRoot = distanceFromRoot(top, spare, rootOnTop);
      const place = placed(1000, height, fromRoot, rootOnTop);
      assert.equal(place.spare + height, place.content, 'nothing is cut off, and nothing is blank below the rows');
      assert.equal(place.content, Math.max(1000, height));
      assert.equal(distanceFromRoot(place.top, place.spare, rootOnTop), 0, `the root stays in view at ${height}`);
      ({ top, spare } = place);
    }
  }
});

test('the distance from the root stays the same when rows come or go', () => {
  assert.deepEqual(placed(1000, 400, 150, false), { content: 1000, spare: 600, top: 450 });
  assert.deepEqual(placed(1360, 400, 150, false), { content: 1360, spare: 960, top: 810 });
  assert.deepEqual(placed(1360, 400, 150, true), { content: 1360, spare: 960, top: 150 });
  assert.deepEqual(placed(300, 400, 150, false), { content: 400, spare: 0, top: 0 });
});

test('a window that grows past the far end stops there', () => {
  assert.deepEqual(placed(1000, 900, 600, false), { content: 1000, spare: 100, top: 0 });
  assert.deepEqual(placed(1000, 900, 600, true), { content: 1000, spare: 100, top: 100 });
});
