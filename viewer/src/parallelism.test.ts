// How many threads are busy at the same time, in profiles with numbers that can be checked by hand.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { small } from '../test/make-payload.mjs';
import { parallel } from '../test/parallel.mjs';
import { functionTable, whole } from './derive.ts';
import { findingsAbout, TOPIC } from './findings.ts';
import { Model } from './model.ts';
import { hasParallelism, parallelism } from './parallelism.ts';
import { decode, PayloadError } from './payload.ts';
import { chargeLine } from './places.ts';
import { START, type State } from './state.ts';

const MS = 1e6;
const model = (options: Parameters<typeof parallel>[0] = {}) => new Model(decode(parallel(options)));
const found = (of: Model, state: Partial<State> = {}) => parallelism(of, { ...START, ...state })!;
const levels = (of: Model, state: Partial<State> = {}) => found(of, state).levels.map(({ ns }) => ns / MS);
const functions = (of: Model, level: number, state: Partial<State> = {}) =>
  found(of, state).levels[level]!.functions.map(({ fn, charge, elapsed }) => [of.name(fn), chargeLine(of, charge), elapsed / MS]);

test('from samples: levels, what ran alone, and what is found', () => {
  const of = model(), { exact, duration, levels: all } = found(of);
  assert.ok(hasParallelism(of) && !exact);
  assert.deepEqual([duration / MS, levels(of)], [1000, [0, 400, 600]]);
  assert.deepEqual(functions(of, 1), [['app::parse', '/src/app.rs:12', 400]]);
  assert.deepEqual(functions(of, 2), [['app::work', '/src/app.rs:20', 570], ['app::log', '/src/app.rs:30', 30]]);
  assert.deepEqual(all.map(({ samples }) => samples), [0, 400, 1200]);
  assert.deepEqual(findingsAbout(of, TOPIC.parallelism), ['40.0 % of elapsed time: one thread works while all others wait for it, in app::parse (app.rs:12)']);
  assert.deepEqual([findingsAbout(of, TOPIC.tasks), findingsAbout(model({ found: false }), TOPIC.parallelism)], [[], []]);
});

test('follows the selected time and threads', () => {
  const of = model();
  assert.deepEqual(levels(of, { brush: [300 * MS, 1000 * MS] }), [0, 100, 600]);
  // Without b everything is on one thread.
  assert.deepEqual(levels(of, { threads: [0, 1] }), [0, 1000]);
  assert.deepEqual(functions(of, 1, { threads: [0, 1] }), [['app::work', '/src/app.rs:20', 540], ['app::parse', '/src/app.rs:12', 400], ['app::log', '/src/app.rs:30', 60]]);
  assert.deepEqual(levels(of, { threads: [1], brush: [350 * MS, 450 * MS] }), [50, 50]);
});

test('with waits it is exact, and queued threads are busy', () => {
  const of = model({ waits: true }), { exact } = found(of);
  assert.ok(exact);
  assert.deepEqual(levels(of), [0, 400, 600]);
  assert.deepEqual(functions(of, 2), [['app::work', '/src/app.rs:20', 570], ['app::log', '/src/app.rs:30', 30]]);
  assert.deepEqual(levels(of, { threads: [0, 2], brush: [300 * MS, 800 * MS] }), [0, 500], 'b is queued for a CPU, then it runs');
  // The same from the times of the waits: the panel agrees with the recorder's columns.
  assert.deepEqual(functions(of, 2, { threads: [0, 1, 2] }), functions(of, 2));
});

test('after a killed recorder, the end of threads is unknown', () => {
  assert.deepEqual(levels(model({ waits: true, end: 2000 })), [0, 400, 600, 1000]);
  assert.deepEqual(levels(model({ waits: true, end: 2000, sealed: false })), [1000, 400.5, 599.5], 'b’s last record is half a millisecond before');
});

test('elapsed time is a metric: CPU time divided by running threads', () => {
  const of = model(), state = { ...START, metric: of.elapsed! };
  assert.deepEqual([of.metricName(of.elapsed!), of.unit(of.elapsed!), of.isSampled(of.elapsed!)], ['elapsed-time', 1, true]);
  assert.equal(whole(of, state) / MS, 1000);
  const { self } = functionTable(of, state), named = (name: string) => self.findIndex((_, fn) => of.name(fn) === name);
  assert.deepEqual(['app::parse', 'app::work', 'app::log'].map(name => self[named(name)]! / MS), [400, 570, 30]);
});

test('without the columns there is neither panel nor metric, and no column can cause an out-of-bounds access', () => {
  const of = new Model(decode(small()));
  assert.deepEqual([hasParallelism(of), of.elapsed, parallelism(of, START)], [false, undefined, undefined]);
  const bytes = parallel(), text = new TextDecoder('latin1').decode(bytes), at = text.indexOf('"stacks.charge"');
  const offset = Number(/"offset":(\d+)/.exec(text.slice(at))![1]), start = Math.ceil((4 + new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true)) / 8) * 8;
  new DataView(bytes.buffer, bytes.byteOffset).setUint32(start + offset, 99, true);
  assert.throws(() => decode(bytes), (problem: unknown) => problem instanceof PayloadError && problem.message.includes('stacks.charge'));
});
