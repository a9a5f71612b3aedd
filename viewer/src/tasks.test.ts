// Tasks of async Rust, in a profile with numbers that can be checked by hand.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { small } from '../test/make-payload.mjs';
import { tasks } from '../test/tasks.mjs';
import { Model } from './model.ts';
import { decode, PayloadError } from './payload.ts';
import { chargeLine } from './places.ts';
import { START } from './state.ts';
import { tasksOf } from './tasks.ts';

const MS = 1e6;
const model = new Model(decode(tasks()));
const rows = (state = START) => tasksOf(model, state).rows.map(({ fn, executor, cpu, samples, blocked }) => [model.name(fn), executor, cpu / MS, samples, blocked / MS]);

test('tasks have CPU time, blocked time and await chains', () => {
  assert.deepEqual(rows(), [['async fn app::request', 'tokio', 80, 80, 80], ['async fn app::connection', 'tokio', 10, 10, 0]]);
  const { cpu, executor, blocking, total, hasWaits, rows: [first] } = tasksOf(model, START);
  assert.deepEqual([cpu, executor, blocking, total].map(ns => ns / MS).concat(Number(hasWaits)), [90, 10, 4, 104, 1]);
  const chains = first!.chains.map(({ functions, cpu, blocked }) => [functions.map(fn => model.name(fn)).join(' → '), (cpu + blocked) / MS]);
  assert.deepEqual(chains, [
    ['async fn app::request', 80],
    ['async fn app::request → async fn app::middle → <app::Row as core::future::Future>::poll', 60],
    ['async fn app::request → async fn app::other', 20],
  ], 'queueing for a CPU does not block a worker');
});

test('calls that block a worker thread have their line', () => {
  const [blocked, ...more] = tasksOf(model, START).blocked;
  assert.deepEqual(more, []);
  const { executor, reason, call, charge, count, total, longest } = blocked!;
  assert.deepEqual([executor, reason, model.name(call), chargeLine(model, charge), count, total / MS, longest / MS], ['tokio', 'file', 'std::fs::read', '/src/app.rs:40', 2, 80, 40]);
});

test('follows the selected time and thread', () => {
  assert.deepEqual(rows({ ...START, threads: [1] }), [['async fn app::connection', 'tokio', 10, 10, 0]]);
  const part = { ...START, brush: [70 * MS, 95 * MS] as const };
  assert.deepEqual(rows(part), [['async fn app::request', 'tokio', 10, 10, 5]], 'the part of a wait inside it');
  assert.deepEqual(tasksOf(model, part).blocked, [], 'short waits are not reported');
});

test('without waits there is no blocked time, and without tasks no rows', () => {
  const sampled = new Model(decode(tasks({ waits: false }))), found = tasksOf(sampled, START);
  assert.deepEqual([found.hasWaits, found.rows.map(({ blocked }) => blocked), found.blocked], [false, [0, 0], []]);
  assert.deepEqual(tasksOf(new Model(decode(small())), START).rows, []);
});

test('no column can cause an out-of-bounds access', () => {
  for (const column of ['stacks.place', 'chains.task', 'chain_functions.function', 'blocking.stack', 'blocking.call', 'tasks.function']) {
    const bytes = tasks(), text = new TextDecoder('latin1').decode(bytes), view = new DataView(bytes.buffer, bytes.byteOffset);
    const offset = Number(/"offset":(\d+)/.exec(text.slice(text.indexOf(`"${column}"`)))![1]), start = Math.ceil((4 + view.getUint32(0, true)) / 8) * 8;
    view.setUint32(start + offset, 9999, true);
    assert.throws(() => decode(bytes), (problem: unknown) => problem instanceof PayloadError && problem.message.includes(column), column);
  }
});
