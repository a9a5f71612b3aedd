// The critical path, in profiles with numbers that can be checked by hand.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { manyWaits, waits } from '../test/waits.mjs';
import { criticalPath, knowsWakers, RAN } from './critical.ts';
import { Model } from './model.ts';
import { decode } from './payload.ts';
import { START } from './state.ts';

const MS = 1e6;

test('the path continues in the thread that ended a wait', () => {
  const model = new Model(decode(waits())), path = criticalPath(model, START)!;
  assert.ok(knowsWakers(model));
  // main runs from 85 on and is queued for a CPU before that. Until 80 it waits for the worker, which reads a
  // file every other millisecond.
  assert.deepEqual(path.parts.map(({ thread, start, end, ran }) => [model.threadName(thread), start / MS, end / MS, ran / MS]), [['worker', 0, 80, 40], ['main', 80, 100, 15]]);
  assert.deepEqual([path.total / MS, path.ran / MS], [100, 55]);
  const rows = path.rows.map(({ did, place, total }) => [did === RAN ? 'ran' : model.profile.reasons[did]!.word, place, total / MS]);
  assert.deepEqual(rows.sort(), [['cpu', '', 5], ['file', 'waits::read app.rs:30', 40], ['ran', 'waits::compute app.rs:40', 15], ['ran', 'waits::work app.rs:28', 40]]);
});

test('a part of the time and another thread have their own paths', () => {
  const model = new Model(decode(waits()));
  const part = criticalPath(model, { ...START, brush: [20 * MS, 45 * MS] })!;
  assert.deepEqual([part.total / MS, part.ran / MS], [25, 5], 'main sleeps to 40, and no thread wakes it');
  const worker = criticalPath(model, { ...START, threads: [1] })!;
  assert.deepEqual([worker.total / MS, worker.ran / MS], [100, 50]);
});

test('without wakers a wait is on the path itself', () => {
  const model = new Model(decode(waits({ cpus: 0 })));
  assert.ok(!knowsWakers(model));
  assert.deepEqual(criticalPath(model, START)!.parts.length, 1);
});

test('many waits finish quickly', () => {
  const model = new Model(decode(manyWaits({ count: 20_000 }))), path = criticalPath(model, START)!;
  assert.ok(path.total > 0 && path.total <= model.duration);
});
