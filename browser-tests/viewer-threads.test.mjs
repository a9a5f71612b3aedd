// The table of threads, in a real browser: threads of one name are one row that opens.

import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { NONE, Payload } from '../viewer/test/make-payload.mjs';
import { column, facts, grid, hash, open, page, pageOf, problems, rows, rowWith, settled } from './opened.mjs';

afterEach(() => assert.deepEqual(problems, [], 'no errors, no requests, no dialogs'));

/** A build: make with 10 ms, nine cc1 with 10 to 90 ms in a process each, and as with 5 ms. */
function built() {
  const p = new Payload(), cpu = p.metric('cpu-time', 1);
  const stack = p.stack(NONE, p.location(NONE, 1, [[p.fn('work', 'app'), 'src/main.rs', 1]]));
  const make = p.process(1, 'make');
  p.sample(cpu, 1e6, p.thread(make, 1, 'make'), stack, 10e6);
  for (let at = 1; at <= 9; at++) p.sample(cpu, at * 1e7, p.thread(p.process(1 + at, 'cc1', make), 1 + at, 'cc1'), stack, at * 10e6);
  p.sample(cpu, 95e6, p.thread(p.process(20, 'as', make), 20, 'as'), stack, 5e6);
  p.context.duration_ns = 1e8;
  return p.container();
}

const cells = async () => (await rows('Threads')).map(row => row.split(' | ').filter((_, at) => at !== 2).join(' | '));

test('processes of one name are one row with their sum, which opens', async () => {
  await open(pageOf('built', built), '#tab=threads');
  assert.deepEqual(await cells(), ['96.8 % | 450 ms |  | ▸cc1 × 9 | 9 processes', '2.15 % | 10.0 ms | 1 | make | make 1', '1.08 % | 5.00 ms | 20 | as | as 20']);
  assert.match(await page.innerText('#panel .status'), /^11 of 11 threads\./);
  await grid('Threads').locator('.twisty').first().click();
  assert.deepEqual((await cells()).slice(0, 3), ['96.8 % | 450 ms |  | ▾cc1 × 9 | 9 processes', '19.4 % | 90.0 ms | 10 | cc1 | cc1 10', '17.2 % | 80.0 ms | 9 | cc1 | cc1 9'], 'the heaviest first');
  assert.equal((await cells()).length, 12);
  assert.match(await hash(), /p\.threads-open=1/);
  assert.equal(await rowWith('Threads', 'cc1 × 9').getAttribute('aria-expanded'), 'true');
  await grid('Threads').locator('.twisty').first().click();
  assert.equal((await cells()).length, 3);
});

test('a row selects its threads in every panel, and keys open and close it', async () => {
  await open(pageOf('built', built), '#tab=threads');
  await rowWith('Threads', 'cc1 × 9').click();
  await settled();
  assert.match(await facts(), /9 samples · 450 ms/);
  await grid('Threads').focus();
  await page.keyboard.press('ArrowRight');
  assert.equal((await cells()).length, 12);
  await page.keyboard.press('ArrowDown');
  await settled();
  assert.match(await facts(), /1 sample · 90\.0 ms/);
  await page.keyboard.press('ArrowLeft');
  await settled();
  assert.match(await facts(), /450 ms/, 'back at the group');
  await page.keyboard.press('ArrowLeft');
  assert.equal((await cells()).length, 3);
});

test('few threads of one name have their own rows', async () => {
  await open(pageOf('few', () => {
    const p = new Payload(), cpu = p.metric('cpu-time', 1), app = p.process(1, 'app');
    const stack = p.stack(NONE, p.location(NONE, 1, [[p.fn('work', 'app'), 'src/main.rs', 1]]));
    for (let at = 1; at <= 4; at++) p.sample(cpu, at * 1e6, p.thread(app, at, 'worker'), stack, 1e6);
    return p.container();
  }), '#tab=threads');
  assert.deepEqual(await column('Threads', 4), ['worker', 'worker', 'worker', 'worker']);
  assert.equal(await page.locator('#panel .twisty:not(.leaf)').count(), 0);
});
