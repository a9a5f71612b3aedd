// Waits: thread states at any zoom, and which thread ran on which CPU.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { small } from '../test/make-payload.mjs';
import { manyWaits, waits as known } from '../test/waits.mjs';
import { Model } from './model.ts';
import { decode, NONE, PayloadError } from './payload.ts';
import { chargeOf, chargeWords } from './places.ts';
import { cpuBoxes, runAt, runsBetween, runsOf } from './runs.ts';
import { kindShares, reasonWord, stretchAt, waitsBetween, waitsOf } from './waits.ts';

const MS = 1e6, [RUNNING, QUEUED, THREADS, IO, OTHER, IDLE] = [0, 1, 2, 3, 4, 5] as const;
const modelOf = (bytes: Uint8Array) => new Model(decode(bytes));
const rounded = (values: Iterable<number>) => [...values].map(value => +value.toFixed(6));
const sum = (values: Iterable<number>) => [...values].reduce((a, b) => a + b, 0);

test('a profile without waits has none', () => {
  assert.equal(waitsOf(modelOf(small())), undefined);
  assert.equal(runsOf(modelOf(small())), undefined);
  assert.equal(runsOf(modelOf(known({ cpus: 0 }))), undefined, 'the CPUs are not known');
});

test('a thread’s time splits into kinds of time', () => {
  const waits = waitsOf(modelOf(known()))!;
  const main = kindShares(waits, [0], 6, [0, 100 * MS], 10);
  const of = (kind: number) => rounded(main.subarray(kind * 10, kind * 10 + 10));
  assert.deepEqual(of(RUNNING), [1, 0, 0, 0, 1, 0, 0, 0, .5, 1]);
  assert.deepEqual(of(OTHER), [0, 1, 1, 1, 0, 0, 0, 0, 0, 0]);
  assert.deepEqual(of(THREADS), [0, 0, 0, 0, 0, 1, 1, 1, 0, 0]);
  assert.deepEqual(of(QUEUED), [0, 0, 0, 0, 0, 0, 0, 0, .5, 0]);
});

test('many waits in one bin have their shares, and a partial wait its part', () => {
  const waits = waitsOf(modelOf(known()))!;
  const worker = kindShares(waits, [1], 6, [0, 100 * MS], 5);
  assert.deepEqual(rounded(worker.subarray(IO * 5, IO * 5 + 5)), [.5, .5, .5, .5, .5]);
  assert.deepEqual(rounded(worker.subarray(0, 5)), [.5, .5, .5, .5, .5]);
  // Inside the sleep, which ends after the range.
  assert.deepEqual(rounded(kindShares(waits, [0], 6, [20 * MS, 22 * MS], 1)), [0, 0, 0, 0, 1, 0]);
});

test('the bins add up to the threads’ lifetimes, for any number of bins', () => {
  const model = modelOf(manyWaits({ count: 20_000 })), waits = waitsOf(model)!;
  const slept = sum(waits.end.map((end, at) => end - waits.begin[at]!));
  for (const count of [1, 7, 1000, 50_000]) {
    const bins = kindShares(waits, model.profile.threads.tid.keys(), 6, [0, model.duration], count), width = model.duration / count;
    assert.ok(Math.abs(sum(bins) * width / (8 * model.duration) - 1) < 1e-6, `${count} bins`);
    assert.ok(Math.abs(sum(bins.subarray(count)) * width / slept - 1) < 1e-6, `${count} bins`);
    assert.ok(bins.every(value => value >= 0 && value < 8 + 1e-6));
  }
});

test('counts concurrent threads by state', () => {
  const bins = kindShares(waitsOf(modelOf(known()))!, [0, 1, 2], 6, [50 * MS, 80 * MS], 1);
  assert.deepEqual(rounded(bins), [.5, 0, 1, .5, 0, 1]);
});

test('finds a thread’s state at a time', () => {
  const model = modelOf(known()), waits = waitsOf(model)!;
  const at = (time: number) => { const found = stretchAt(waits, 0, time)!; return [found.kind, found.begin / MS, found.end / MS]; };
  assert.deepEqual(at(5 * MS), [RUNNING, 0, 10]);
  assert.deepEqual(at(39 * MS), [OTHER, 10, 40]);
  assert.deepEqual(at(60 * MS), [THREADS, 50, 80]);
  assert.deepEqual(at(82 * MS), [QUEUED, 80, 85]);
  assert.deepEqual(at(99 * MS), [RUNNING, 85, 100]);
  assert.equal(stretchAt(waits, 0, 101 * MS), undefined);
  const lock = stretchAt(waits, 0, 60 * MS)!.wait;
  assert.equal(reasonWord(model, waits, lock), 'lock');
  assert.equal(chargeWords(model, chargeOf(model, waits.table.stack[waits.row[lock]!]!)), 'waits::locked app.rs:20');
  assert.equal(stretchAt(waits, 2, 50 * MS)!.kind, IDLE);
  assert.deepEqual([waitsBetween(waits, 1, 0, 100 * MS), waitsBetween(waits, 1, 10.2 * MS, 10.8 * MS), waitsBetween(waits, 1, 11.2 * MS, 11.8 * MS)], [50, 1, 0]);
});

test('a thread ran on the CPU that it left, and migrations are counted', () => {
  const runs = runsOf(modelOf(known()))!;
  assert.deepEqual(runs.cpus, [0, 1, 2, 3]);
  assert.deepEqual([...runs.migrations], [1, 48, 0]);
  const first = runAt(runs, 0, 5 * MS, 0);
  assert.deepEqual([runs.thread[first], runs.begin[first]! / MS, runs.end[first]! / MS, runs.from[first]], [0, 0, 10, NONE]);
  const moved = runAt(runs, 1, 45.5 * MS, .1 * MS);
  assert.equal(runs.thread[moved], 0);
  assert.equal(runs.from[moved], 0, 'main was on CPU 0 before');
  assert.equal(runAt(runs, 0, 99.5 * MS, 0), -1, 'a thread running at the end has not left a CPU');
  assert.deepEqual(runsBetween(runs, 2, 40 * MS, 50 * MS), { runs: 2, threads: 1 });
});

test('a CPU’s lane is as full as the CPU is busy', () => {
  const model = modelOf(manyWaits({ count: 20_000 })), runs = runsOf(model)!;
  for (const count of [1, 50, 3000]) {
    const { boxes, busy } = cpuBoxes(runs, 0, [0, model.duration], count);
    const ran = sum(runs.end.subarray(0, runs.first[1]).map((end, at) => end - runs.begin[at]!));
    assert.ok(Math.abs(busy * model.duration / ran - 1) < 1e-6);
    for (const { x, width, low, share } of boxes) assert.ok(x >= 0 && x + width <= count && low >= 0 && low + share < 1 + 1e-6);
  }
  const small = runsOf(modelOf(known()))!;
  const { boxes } = cpuBoxes(small, 0, [0, 20 * MS], 2);
  assert.equal(boxes[0]!.thread, 0);
  assert.equal(boxes[0]!.share, 1);
});

test('reasons that do not exist are damage', () => {
  const bytes = known(), text = Buffer.from(bytes).toString('latin1').replace('"kind":5}', '"kind":9}');
  assert.throws(() => decode(new Uint8Array(Buffer.from(text, 'latin1'))), PayloadError);
});
