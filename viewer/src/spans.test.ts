// Spans: the samples inside them, and no sample counted twice.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NONE } from './payload.ts';
import { quantile } from './bounds.ts';
import { merged, ThreadSums, windowsOf } from './spans.ts';

const REQUEST = 1, QUERY = 2;
const spans = {
  name: Uint32Array.of(REQUEST, QUERY, REQUEST, REQUEST, QUERY),
  thread: Uint32Array.of(0, 0, 0, 1, NONE),
  start: Float64Array.of(0, 10, 20, 100, 150),
  end: Float64Array.of(50, 20, 60, 200, 160),
};
const samples = {
  time: Float64Array.of(5, 15, 55, 60, 100, 155, 155, 200),
  thread: Uint32Array.of(0, 0, 0, 0, 1, 1, 0, 1),
  value: Float64Array.of(1, 2, 4, 8, 16, 32, 64, 128),
};

const inside = (rows: number[]): number => {
  const sums = new ThreadSums(samples);
  return merged(windowsOf(spans, rows)).reduce((sum, window) => sum + sums.within(window), 0);
};

test('overlapping spans count a sample once, and their end is exclusive', () => {
  assert.equal(inside([0, 2, 3]), 1 + 2 + 4 + 16 + 32);
});

test('a span without a thread has the samples of all threads', () => {
  assert.equal(inside([1, 4]), 2 + 32 + 64);
});

test('a span without an end lasts until the end', () => {
  const open = { ...spans, end: Float64Array.of(50, 20, 60, Number.NaN, 160) };
  const sums = new ThreadSums(samples);
  assert.equal(sums.within(windowsOf(open, [3])[0]!), 16 + 32 + 128);
});

test('windows of one thread and of all do not overlap', () => {
  const window = (thread: number, start: number, end: number) => ({ thread, start, end });
  assert.deepEqual(merged([window(NONE, 10, 20), window(3, 0, 30), window(3, 30, 40), window(NONE, 15, 25)]), [
    window(3, 0, 10), window(3, 25, 40), window(NONE, 10, 25),
  ]);
});

test('quantiles are observed lengths', () => {
  assert.equal(quantile(Float64Array.of(1, 2, 3, 4), 50), 2);
  assert.equal(quantile(Float64Array.of(7), 95), 7);
});
