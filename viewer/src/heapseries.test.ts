// Live bytes over time by who allocated them; test/heap.mjs has the numbers.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { heap } from '../test/heap.mjs';
import { known } from '../test/known.mjs';
import { weights } from './derive.ts';
import { binOf, heldMemory, holderAt, type Holders } from './heapseries.ts';
import { Model } from './model.ts';
import { decode } from './payload.ts';
import { START, type Range } from './state.ts';

const MS = 1e6, model = new Model(decode(heap()));
const held = (by: Holders, range: Range, bins: number, state = START) => heldMemory(model, state, by, range, bins)!;

test('the sum of all holders is the live heap at every time', () => {
  const { holders, others } = held('sites', [0, 1000 * MS], 100);
  for (const bin of [0, 30, 59, 60, 99]) {
    const time = (bin + 1) * 10 * MS, sum = holders.reduce((sum, { live }) => sum + live[bin]!, others.live[bin]!);
    const live = weights(model, { ...START, metric: model.live!, brush: [0, time] }).reduce((sum, value) => sum + value, 0);
    assert.equal(sum, live, `at ${time / MS} ms`);
  }
});

test('the largest are those with the most in the range', () => {
  const names = (range: Range) => held('sites', range, 20).holders.map(({ fn }) => model.short(fn));
  assert.deepEqual(names([0, 1000 * MS]), ['parse::tokens', 'cache::insert', 'job::run']);
  assert.deepEqual(names([700 * MS, 900 * MS]), ['cache::insert', 'job::run']);
  assert.deepEqual(names([0, 1]), ['parse::tokens', 'cache::insert', 'job::run'], 'a nanosecond');
});

test('a range starts with what was live before it', () => {
  const { holders, top } = held('sites', [595 * MS, 599 * MS], 4);
  assert.deepEqual([...holders[0]!.live], Array(4).fill(500 * 65536));
  assert.equal(top, 500 * 65536 + 60 * 102_400);
});

test('threads and filters', () => {
  assert.deepEqual(held('sites', [0, 1000 * MS], 10, { ...START, threads: [1] }).holders.map(({ fn }) => model.short(fn)), ['job::run']);
  const cache = held('sites', [0, 1000 * MS], 10).holders[1]!.fn;
  assert.ok(!held('sites', [0, 1000 * MS], 10, { ...START, transforms: [{ kind: 'hide', fn: cache }] }).holders.some(({ fn }) => fn === cache));
});

test('the holder at a height, and the bin of a time', () => {
  const of = held('sites', [0, 1000 * MS], 100), bin = 50, [parse, cache] = of.holders;
  assert.equal(holderAt(of, bin, 0), 0);
  assert.equal(holderAt(of, bin, parse!.live[bin]! + 1), 1);
  assert.equal(holderAt(of, bin, parse!.live[bin]! + cache!.live[bin]! + 1e9), -1);
  assert.deepEqual([0, 1, 10 * MS, 10 * MS + 1, 1000 * MS, 2000 * MS].map(time => binOf(100, [0, 1000 * MS], time)), [0, 0, 0, 1, 99, 99]);
});

test('without a heap there is nothing', () => assert.equal(heldMemory(new Model(decode(known())), START, 'sites', [0, 1], 1), undefined));
