// Kinds of time of frames: they add up to the frames, from callers and from callees.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { small } from '../../test/make-payload.mjs';
import { manyWaits, waits } from '../../test/waits.mjs';
import { colourOf, coloursFor, nextColour } from '../colour.ts';
import { flameTree } from '../derive.ts';
import { Model } from '../model.ts';
import { decode } from '../payload.ts';
import { START, type State } from '../state.ts';
import { splitWords, timeShares, timesOf } from './times.ts';

const MS = 1e6;
const at = (model: Model, more: Partial<State>) => {
  const state = { ...START, metric: 2, ...more }, tree = flameTree(model, state);
  const times = timeShares(model, state, tree);
  const of = (name: string) => {
    const node = [...tree.fn.keys()].find(node => model.name(tree.fn[node]!) === name)!;
    return Object.fromEntries(timesOf(model, times, node).map(({ word, value }) => [word, value / MS]));
  };
  return { state, tree, times, of };
};

test('frames are split by kinds of time', () => {
  const { of, times, tree } = at(new Model(decode(waits())), {});
  assert.deepEqual(of('all'), { running: 85, 'queued for a CPU': 5, 'blocked: threads': 30, 'blocked: I/O': 50, 'blocked: other': 30, idle: 100 });
  assert.deepEqual(of('waits::main'), { running: 35, 'queued for a CPU': 5, 'blocked: threads': 30, 'blocked: other': 30 });
  assert.deepEqual(of('waits::compute'), { running: 35, 'queued for a CPU': 5 });
  assert.equal(splitWords(new Model(decode(waits())), times, tree, 0).split(', ')[1], 'queued for a CPU 5.00 ms (1.67 %)');
});

test('the selected time, threads and transforms count', () => {
  const model = new Model(decode(waits()));
  assert.deepEqual(at(model, { brush: [0, 41 * MS], threads: [0] }).of('all'), { running: 11, 'blocked: other': 30 });
  const work = [...Array(model.functionCount).keys()].find(fn => model.name(fn) === 'waits::work')!;
  assert.deepEqual(at(model, { transforms: [{ kind: 'focus', fn: work }] }).of('all'), { running: 50, 'blocked: I/O': 50 });
  assert.deepEqual(at(model, { metric: 1 }).of('waits::main'), { 'queued for a CPU': 5, 'blocked: threads': 30, 'blocked: other': 30 });
});

test('the kinds of every frame add up to the frame', () => {
  for (const model of [new Model(decode(waits())), new Model(decode(manyWaits({ count: 5000 })))]) {
    for (const more of [{}, { inverted: true }, { whole: true }, { own: true }]) {
      const { tree, times } = at(model, more);
      for (let node = 0; node < tree.total.length; node++) {
        const sum = times.ofNode.subarray(node * times.kinds, (node + 1) * times.kinds).reduce((a, b) => a + b, 0);
        assert.ok(Math.abs(sum - tree.total[node]!) <= 1e-6 * tree.total[0]!, `${model.name(tree.fn[node]!)} ${JSON.stringify(more)}`);
      }
    }
  }
});

test('callers: a function’s waits are split at the function', () => {
  const { of } = at(new Model(decode(waits())), { inverted: true });
  assert.deepEqual(of('futex_wait'), { 'blocked: threads': 30 });
  assert.deepEqual(of('waits::compute'), { running: 35 }, 'self');
});

test('only waits are coloured by kind of time by default', () => {
  const model = new Model(decode(waits()));
  assert.deepEqual([0, 1, 2].map(metric => colourOf(model, { ...START, metric })), ['kind', 'time', 'time']);
  assert.equal(colourOf(model, { ...START, metric: 2, colour: 'crate' }), 'crate');
  assert.equal(colourOf(model, { ...START, metric: 0, colour: 'time' }), 'kind', 'CPU time is all of one kind');
  assert.equal(coloursFor(new Model(decode(small())), 0).includes('time'), false);
  assert.equal(nextColour(model, { ...START, metric: 2 }), 'kind');
});
