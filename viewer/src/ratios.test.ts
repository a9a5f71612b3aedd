// Instructions per cycle and misses per thousand instructions, in a profile with numbers that can be checked
// by hand.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { counted } from '../test/counted.mjs';
import { small } from '../test/make-payload.mjs';
import { Model } from './model.ts';
import { decode } from './payload.ts';
import { ratioColumns, ratiosOf, type RatioOf } from './ratios.ts';
import { START, type State } from './state.ts';

const MS = 1e6;
const model = new Model(decode(counted())), columns = ratioColumns(model);
const named = (name: string, of: RatioOf, state: Partial<State> = {}): string[] => {
  const fn = Array.from({ length: model.functionCount }, (_, fn) => fn).find(fn => model.name(fn) === name)!;
  return ratiosOf(model, { ...START, ...state }, columns, of)(fn);
};

test('functions have IPC and misses, for self and total', () => {
  assert.deepEqual(columns.map(({ title }) => title), ['IPC', 'LLC-load/k']);
  assert.deepEqual(named('app::fast', 'self'), ['3.00', '0']);
  assert.deepEqual(named('app::slow', 'self'), ['0.50', '40.0']);
  assert.deepEqual(named('app::main', 'self'), ['-', '-'], 'no self samples');
  // 40,000 instructions of 29,800 cycles, and 392 misses.
  assert.deepEqual(named('app::main', 'total'), ['1.34', '9.80']);
});

test('too few samples give no number, and only selected samples count', () => {
  assert.deepEqual(named('app::rare', 'self'), ['?', '0']);
  assert.deepEqual(named('app::main', 'total', { brush: [0, 100 * MS] }), ['3.00', '0']);
  assert.deepEqual(named('app::slow', 'self', { brush: [0, 100 * MS] }), ['-', '-']);
});

test('only counters in the profile get columns', () => {
  const titles = (bytes: Uint8Array) => ratioColumns(new Model(decode(bytes))).map(({ title }) => title);
  assert.deepEqual([titles(counted({ misses: false })), titles(counted({ instructions: false })), titles(small())], [['IPC'], [], []]);
});
