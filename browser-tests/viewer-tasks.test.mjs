// The tasks panel: a generated profile with known answers, and an imported one that must match `whyslow
// report FILE tasks`.
//
// WHYSLOW names the executable.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { small } from '../viewer/test/make-payload.mjs';
import { tasks } from '../viewer/test/tasks.mjs';
import { without } from './browser.mjs';
import { brush, facts, folder, open, page, pageOf, problems, rows, rowWith, settled } from './opened.mjs';

const WHYSLOW = process.env.WHYSLOW;
const known = () => pageOf('tasks', tasks);
const about = async () => (await page.locator('.locks-about').innerText()).replace(/\s+/g, ' ');

describe('the tasks panel', () => {
  test('shows each task’s time, its await chains, and calls that block worker threads', async () => {
    await open(known(), '#tab=tasks');
    assert.deepEqual(await rows('Tasks'), ['76.9 % | 80.0 ms | 80.0 ms | async fn app::request | tokio', '9.62 % | 10.0 ms |  | async fn app::connection | tokio']);
    assert.match(await page.locator('#panel [role=status]').innerText(), /^Tasks used 90\.0 ms of 104 ms CPU time; 10\.0 ms ran on executor threads outside tasks, 4\.00 ms on threads for blocking calls\.$/);
    assert.match(await about(), /^All tasks .*std::fs::read from async fn app::request \(app\.rs:40\), on tokio 80\.0 ms 2×$/);
    await rowWith('Tasks', 'request').click();
    await settled();
    assert.match(await about(), /the task itself 50\.0 % 80\.0 ms → async fn app::middle → <app::Row as core::future::Future>::poll 37\.5 % 60\.0 ms → async fn app::other 12\.5 % 20\.0 ms/);
    await rowWith('Tasks', 'connection').click();
    await settled();
    assert.doesNotMatch(await about(), /std::fs::read/, 'another task makes that call');
    assert.deepEqual(problems, []);
  });

  test('filters the flame graph to a task, or to what it awaits', async () => {
    await open(known(), '#tab=tasks');
    await rowWith('Tasks', 'request').click();
    await page.getByRole('button', { name: 'Only this task in the flame graph' }).click();
    await settled();
    assert.equal(await page.getAttribute('#tab-flame', 'aria-selected'), 'true');
    assert.match(await facts(), /80\.0 ms$/);
    await page.keyboard.press('u');
    await page.getByRole('tab', { name: 'Tasks' }).click();
    await page.getByRole('button', { name: '→ async fn app::other' }).click();
    await settled();
    assert.match(await facts(), /20\.0 ms$/);
    await page.keyboard.press('u');
    await settled();
    assert.match(await facts(), /104 ms$/, 'and back');
  });

  test('follows the time selection', async () => {
    await open(known(), '#tab=tasks');
    await brush(.2, .45);
    assert.equal((await rows('Tasks')).length, 1);
    assert.doesNotMatch(await about(), /std::fs::read/);
  });

  test('says how to record more, and is missing without tasks', async () => {
    await open(pageOf('sampled-tasks', () => tasks({ waits: false })), '#tab=tasks');
    assert.match(await page.locator('#panel [role=status]').innerText(), /whyslow record --off-cpu\.$/);
    await open(pageOf('small', small));
    assert.equal(await page.getByRole('tab', { name: 'Tasks' }).count(), 0);
  });
});

test('an imported profile matches the report', { skip: without(WHYSLOW, 'WHYSLOW does not name the executable') }, async () => {
  const whyslow = (...args) => execFileSync(WHYSLOW, args, { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'pipe'] });
  const worker = ['clone3', 'tokio::runtime::scheduler::multi_thread::worker::run'], poll = ['tokio::runtime::task::harness::poll', 'tokio::runtime::task::core::poll'];
  const kinds = [
    [...worker, ...poll, '<app::Request as core::future::future::Future>::poll', '<app::Row as core::future::future::Future>::poll', 'app::spin'],
    [...worker, ...poll, '<app::Request as core::future::future::Future>::poll', 'app::spin'], [...worker, ...poll, 'dep::connection', 'dep::read'],
    [...worker, 'tokio::runtime::scheduler::multi_thread::worker::steal'], ['main', 'app::prepare'],
  ];
  const script = Array.from({ length: 500 }, (_, at) => [
    `worker 100/100 ${(5 + at / 1000).toFixed(6)}: 1000000 cpu-clock:`, ...kinds[at % 7 % 5].toReversed().map((fn, depth) => `\t${(0x401000 + depth).toString(16)} ${fn}+0x10 (/bin/app)`), '',
  ].join('\n')).join('\n');
  const file = join(folder, 'tasks.whyslow'), html = join(folder, 'tasks-real.html');
  writeFileSync(join(folder, 'tasks.txt'), script);
  whyslow('import', join(folder, 'tasks.txt'), '-o', file);
  whyslow('view', file, '-o', html);
  for (const range of [undefined, [100, 300]]) {
    const report = JSON.parse(whyslow('report', file, 'tasks', '--format', 'json', ...(range ? ['--time', `${range[0]}ms..${range[1]}ms`] : [])));
    assert.ok(report.tasks.length >= 2, 'there are tasks');
    await open(html, `#tab=tasks${range ? `&b=${range.map(ms => (ms * 1e6).toString(36)).join('-')}` : ''}`);
    const shown = (await rows('Tasks')).map(row => row.split(' | '));
    assert.deepEqual(shown.map(([, , , task, executor]) => [task, executor]), report.tasks.map(({ task, executor }) => [task, executor]));
    for (const [at, { share }] of report.tasks.entries()) assert.ok(Math.abs(parseFloat(shown[at][0]) - 100 * share) < .06, `${shown[at]} and ${share}`);
    await rowWith('Tasks', report.tasks[0].task).click();
    await settled();
    const [first] = report.tasks[0].chains;
    assert.ok((await about()).includes(first.functions.slice(1).map(fn => `→ ${fn}`).join(' ')), `${await about()} and ${first.functions}`);
  }
  assert.deepEqual(problems, []);
});
