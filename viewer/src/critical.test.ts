// The critical path, in profiles with numbers that can be checked by hand.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { manyWaits, waits } from '../test/waits.mjs';
import { criticalPath, knowsWakers, RAN } from './critical.ts';
import { Model } from './model.ts';
import { chargeWords } from './places.ts';
import { decode } from './payload.ts';
import { START } from './state.ts';
import { pathMarks, pathWords, rowsOfThreads } from './timeline/path.ts';

const MS = 1e6;

test('the path continues in the thread that ended a wait', () => {
  const model = new Model(decode(waits())), path = criticalPath(model, START)!;
  assert.ok(knowsWakers(model));
  // main runs from 85 on and is queued for a CPU before that. Until 80 it waits for the worker, which reads a
  // file every other millisecond.
  assert.deepEqual(path.parts.map(({ thread, start, end, ran }) => [model.threadName(thread), start / MS, end / MS, ran / MS]), [['worker', 0, 80, 40], ['main', 80, 100, 15]]);
  assert.deepEqual([path.total / MS, path.ran / MS], [100, 55]);
  const rows = path.rows.map(({ did, charge, total }) => [did === RAN ? 'ran' : model.profile.reasons[did]!.word, chargeWords(model, charge), total / MS]);
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

test('marks of the path: what ran, what waited, and a line to another thread', () => {
  const model = new Model(decode(waits())), { steps } = criticalPath(model, START)!, rows = new Map([[0, 100], [1, 50]]);
  const marks = pathMarks(steps, rows, [0, 100 * MS], 1000);
  assert.deepEqual(marks.filter(({ kind }) => kind === 'hop'), [{ kind: 'hop', from: 800, y: 50, until: 100 }]);
  assert.deepEqual(marks.filter(({ kind, y }) => kind !== 'hop' && y === 100), [{ kind: 'waited', y: 100, from: 800, to: 850 }, { kind: 'ran', y: 100, from: 850, to: 1000 }]);
  assert.equal(marks.filter(({ kind, y }) => kind === 'ran' && y === 50).length, 40);
  assert.equal(pathMarks(steps, rows, [0, 100 * MS], 20).filter(({ y }) => y === 50).length, 3, 'neighbours in a pixel are one: ran, waited and the line');
  assert.deepEqual(pathMarks(steps, new Map([[0, 100]]), [0, 100 * MS], 1000).map(({ kind }) => kind), ['waited', 'ran'], 'a hidden thread has no marks');
  assert.deepEqual([pathWords(steps, [0], 92 * MS), pathWords(steps, [1], 92 * MS), pathWords(steps, [1], 2.5 * MS), pathWords([], [0], 0)], ['critical path: ran', '', 'critical path: waited', '']);
});

test('a thread is in its own row, or in that of its folded group or process', () => {
  const at = { height: 20, level: 0 };
  assert.deepEqual([...rowsOfThreads([
    { kind: 'process', process: 0, threads: [0, 1], isFolded: true, y: 0, ...at }, { kind: 'group', name: 'w', threads: [2, 3], isFolded: false, y: 20, ...at },
    { kind: 'thread', thread: 2, hasStates: false, y: 40, ...at }, { kind: 'thread', thread: 3, hasStates: false, y: 60, ...at },
  ])], [[0, 0], [1, 0], [2, 40], [3, 60]]);
});
