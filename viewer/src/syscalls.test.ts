// The table of system calls.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { small } from '../test/make-payload.mjs';
import { syscalls } from '../test/syscalls.mjs';
import { Model } from './model.ts';
import { decode } from './payload.ts';
import { chargeWords } from './places.ts';
import { START, type State } from './state.ts';
import { quantile, syscallRows } from './syscalls.ts';

const MS = 1e6;
const model = new Model(decode(syscalls()));
const shown = (state: State = START) => syscallRows(model, state).map(({ call, charge, count, failed, total, max, bytes }) => [call, chargeWords(model, charge), count, failed, total, max, bytes]);

test('system calls are summed by call and line, most time first', () => {
  assert.deepEqual(shown(), [
    ['clock_nanosleep', 'calls::nap app.rs:20', 1, 0, 40 * MS, 40 * MS, 0],
    ['write', 'calls::write app.rs:3', 101, 0, 105_000, 5000, 1212],
    ['openat', 'calls::open app.rs:9', 5, 3, 1150, 230, 0],
  ]);
  const [sleep, write, open] = syscallRows(model, START);
  assert.equal(sleep!.onlyWaits, true);
  assert.deepEqual(write!.files, [['out.txt', 100_000], ['log', 5000]]);
  assert.deepEqual(open!.errors, [['ENOENT', 3]]);
  assert.deepEqual(syscallRows(new Model(decode(small())), START), []);
});

test('system calls follow time, threads and transforms', () => {
  assert.deepEqual(shown({ ...START, brush: [0, 15 * MS] }).map(row => row.slice(0, 3)), [['write', 'calls::write app.rs:3', 100]]);
  assert.deepEqual(shown({ ...START, threads: [1] }).map(([call]) => call), ['clock_nanosleep']);
  assert.deepEqual(shown({ ...START, transforms: [{ kind: 'hide', fn: 0 }] }).map(([call]) => call), ['clock_nanosleep', 'openat']);
});

test('percentiles are those of the report', () => {
  const [sleep, write, open] = syscallRows(model, START);
  assert.deepEqual([write!.p50, write!.p99], [1023, 1023]);
  assert.deepEqual([open!.p50, sleep!.p99], [230, 40 * MS], 'never more than the longest call');
  assert.deepEqual([0, 7, 8, 15, 16, 495].map(bar => quantile(new Map([[bar, 1]]), 50)), [0, 7, 8, 15, 17, 2 ** 64]);
  assert.equal(quantile(new Map(), 50), 0);
});
