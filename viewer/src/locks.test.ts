// Locks: how long threads waited for them, where, and which thread held them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { locks, waits } from '../test/waits.mjs';
import { lockName, lockRows, lockSite, lockSites, waitGraph } from './locks.ts';
import { Model } from './model.ts';
import { decode, NONE } from './payload.ts';
import { chargeWords } from './places.ts';
import { START } from './state.ts';

const MS = 1e6;

test('waits are summed per lock', () => {
  const model = new Model(decode(locks()));
  assert.deepEqual(lockRows(model, START), [
    { lock: 0, count: 15, total: 40 * MS, p99: 4 * MS, longest: 4 * MS, holder: 0 },
    { lock: 1, count: 1, total: MS, p99: MS, longest: MS, holder: NONE },
  ]);
  assert.deepEqual([0, 1].map(lock => lockName(model, lock)), ['std Mutex app::LOCK at 0x7f0012345678', 'parking_lot Mutex']);
  assert.equal(lockSite(model, 0), 'locks::update app.rs:20');
});

test('only the selected time and threads count, whichever metric is shown', () => {
  const model = new Model(decode(locks()));
  assert.deepEqual(lockRows(model, { ...START, metric: 2, brush: [0, 20 * MS], threads: [1] }).map(({ lock, count, total }) => [lock, count, total / MS]), [[0, 2, 4]]);
  assert.deepEqual(lockRows(model, { ...START, brush: [95 * MS, 99 * MS] }), []);
});

test('a wait without a length counts in the time that it is in, as it does without a selection', () => {
  const model = new Model(decode(locks({ instants: [20 * MS, 30 * MS, 30 * MS] })));
  const counts = (brush: readonly [number, number] | undefined) => lockRows(model, { ...START, brush }).find(({ lock }) => lock === 0)?.count;
  assert.deepEqual([counts(undefined), counts([0, 100 * MS])], [18, 18]);
  assert.equal((counts([26.5 * MS, 30 * MS]) ?? 0) + counts([30 * MS, 31 * MS])!, 2, 'a moment belongs to one of two ranges');
});

test('lists where threads waited, and which threads held the lock', () => {
  const model = new Model(decode(locks()));
  const { waiters, holders } = lockSites(model, START, 0);
  assert.deepEqual(waiters.map(({ charge, count, total }) => [chargeWords(model, charge), count, total / MS]), [['locks::update app.rs:20', 10, 20], ['locks::read app.rs:21', 5, 20]]);
  assert.deepEqual(holders.map(({ charge, thread, count, total }) => [chargeWords(model, charge), thread, count, total / MS]), [['locks::hold app.rs:60', 0, 15, 25], ['locks::update app.rs:22', 1, 5, 15]], 'EVIL waits for main until worker has the lock');
  assert.deepEqual(lockSites(model, START, 1).holders, []);
  assert.deepEqual(waitGraph(model, START, undefined).map(({ waiter, holder, total }) => [waiter, holder, total / MS]), [[1, 0, 20], [2, 1, 15], [2, 0, 5]]);
  assert.deepEqual(waitGraph(model, START, 1), []);
});

test('a profile without locks has none', () => {
  assert.equal(new Model(decode(waits({ cpus: 0 }))).profile.locks.count, 0);
});
