// The tables of waits, threads and modules.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { small as known } from '../test/make-payload.mjs';
import { locks, waits } from '../test/waits.mjs';
import { weights } from './derive.ts';
import { Model } from './model.ts';
import { decode, NONE } from './payload.ts';
import { chargeWords } from './places.ts';
import { START } from './state.ts';
import { moduleValues, timesOfThread, waitRows } from './waittable.ts';

const MS = 1e6;

test('waits are summed by reason and line', () => {
  const model = new Model(decode(locks({ instants: [20 * MS] })));
  const shown = (state = START) => waitRows(model, state).map(({ reason, charge, count, total, longest, threads }) => [model.profile.reasons[reason]!.word, chargeWords(model, charge), count, total / MS, longest / MS, threads]);
  assert.deepEqual(shown(), [
    ['sleep', 'locks::nap app.rs:70', 1, 30, 30, 1], ['lock', 'locks::update app.rs:20', 11, 20, 2, 1], ['lock', 'locks::read app.rs:21', 5, 20, 4, 1], ['lock', 'locks::log app.rs:30', 1, 1, 1, 1],
  ]);
  assert.deepEqual(shown({ ...START, brush: [0, 5 * MS], threads: [1] }), [['lock', 'locks::update app.rs:20', 1, 2, 2, 1]]);
  assert.deepEqual(waitRows(new Model(decode(known())), START), []);
});

test('the times of a thread add up to its part of the selected time', () => {
  const model = new Model(decode(waits()));
  const sum = (range: readonly [number, number]) => timesOfThread(model, 0, range)!.reduce((sum, time) => sum + time, 0);
  assert.ok(Math.abs(sum([0, 100 * MS]) - 100 * MS) < 1);
  assert.ok(Math.abs(sum([20 * MS, 60 * MS]) - 40 * MS) < 1);
  assert.equal(timesOfThread(new Model(decode(known())), 0, [0, 1]), undefined);
});

test('every sample is in one module', () => {
  const model = new Model(decode(known())), values = weights(model, START);
  const sums = moduleValues(model, values, () => true), all = values.reduce((sum, value) => sum + value, 0);
  assert.equal([...sums.values()].reduce((sum, value) => sum + value, 0), all);
  assert.ok([...sums.keys()].every(module => module === NONE || module < model.profile.modules.count));
  assert.equal(moduleValues(model, values, () => false).size, 0);
});
