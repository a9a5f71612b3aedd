// The rows of the table of threads.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Payload } from '../test/make-payload.mjs';
import { Model } from './model.ts';
import { decode } from './payload.ts';
import { groupKey, threadRows } from './threadrows.ts';

/** A process with nine threads of one name and one of another, and four processes of one name. */
function model(): Model {
  const p = new Payload(), app = p.process(1, 'app');
  p.metric('cpu-time', 1);
  for (let tid = 1; tid <= 9; tid++) p.thread(app, tid, 'worker');
  p.thread(app, 10, 'main');
  for (let at = 0; at < 4; at++) p.thread(p.process(20 + at, 'cc1'), 20 + at, 'cc1');
  return new Model(decode(p.container()));
}

const shown = (open: string[] = [], only?: number[]) => threadRows(model(), only ?? Array.from({ length: 14 }, (_, thread) => thread), thread => (thread === 9 ? 20 : thread), () => 0, new Set(open));
const words = (rows: ReturnType<typeof shown>) => rows.map(({ name, threads, place }) => `${place === 'member' ? '  ' : ''}${name}${threads.length > 1 ? ` × ${threads.length}` : ''}`);

test('threads of one name in a process are one row, four processes of one name are not', () => {
  assert.deepEqual(words(shown()), ['worker × 9', 'main', 'cc1', 'cc1', 'cc1', 'cc1']);
});

test('an open group shows its threads, heaviest first', () => {
  const rows = shown(['0']);
  assert.deepEqual(words(rows).slice(0, 10), ['worker × 9', ...Array(9).fill('  worker')]);
  assert.deepEqual(rows.slice(1, 4).map(({ threads }) => threads), [[8], [7], [6]]);
  assert.equal(groupKey(rows[0]!.threads), '0', 'the same whichever is heaviest');
});

test('threads that are not shown do not count', () => {
  assert.deepEqual(words(shown([], [0, 1, 2, 9])), ['main', 'worker', 'worker', 'worker']);
  assert.deepEqual(shown([], []), []);
});
