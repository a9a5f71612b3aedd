// Counter columns in the function table: a generated profile with known answers, and an imported one that
// must match `whyslow report`.
//
// WHYSLOW names the executable.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { counted } from '../viewer/test/counted.mjs';
import { small } from '../viewer/test/make-payload.mjs';
import { without } from './browser.mjs';
import { brush, folder, open, page, pageOf, problems, rows, settled } from './opened.mjs';

const WHYSLOW = process.env.WHYSLOW;
const heads = () => page.$$eval('#panel table[aria-label="Functions"] th', heads => heads.map(head => head.textContent.replace(/\s+/g, ' ').trim()));
/** For each function, the cells of the first two counters. */
const counters = async () => {
  const name = (await heads()).indexOf('Function');
  return Object.fromEntries((await rows('Functions')).map(row => row.split(' | ')).map(cells => [cells[name], cells.slice(name - 2, name)]));
};

test('functions have IPC and misses per thousand instructions, for self and total', async () => {
  await open(pageOf('counted', counted), '#tab=functions');
  assert.deepEqual((await heads()).slice(4, 7), ['IPC', 'LLC-load/k', 'Function']);
  assert.deepEqual(await counters(), { 'app::fast': ['3.00', '0'], 'app::slow': ['0.50', '40.0'], 'app::rare': ['?', '0'], 'app::main': ['-', '-'] });
  await page.locator('#panel table[aria-label="Functions"] th button', { hasText: 'Total' }).click();
  await settled();
  assert.deepEqual((await counters())['app::main'], ['1.34', '9.80']);
  await brush(.1, .4);
  assert.deepEqual(await counters(), { 'app::main': ['3.00', '0'], 'app::fast': ['3.00', '0'] });
  assert.deepEqual(problems, []);
});

test('without counters there are no counter columns', async () => {
  await open(pageOf('small', small), '#tab=functions');
  assert.equal((await heads())[4], 'Function');
});

test('an imported profile matches the report', { skip: without(WHYSLOW, 'WHYSLOW does not name the executable') }, async () => {
  const whyslow = (...args) => execFileSync(WHYSLOW, args, { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'pipe'] });
  const lines = [];
  for (let at = 0; at < 300; at++) {
    const fn = at % 3 ? 'parse' : 'render', time = (5 + at / 1000).toFixed(6);
    for (const [event, period] of [['cycles', at % 3 ? 2000 : 1000], ['instructions', 3000], ['cache-misses', at % 3 ? 40 : 7]]) {
      lines.push(`app 100/100 ${time}: ${period} ${event}:`, `\t401000 ${fn}+0x10 (/bin/app)`, `\t402000 main+0x20 (/bin/app)`, '');
    }
  }
  const file = join(folder, 'counters.whyslow'), html = join(folder, 'counters.html');
  writeFileSync(join(folder, 'counters.txt'), lines.join('\n'));
  whyslow('import', join(folder, 'counters.txt'), '-o', file);
  whyslow('view', file, '-o', html);
  const report = JSON.parse(whyslow('report', file, 'functions', '--by', 'self', '--format', 'json'));
  await open(html, '#tab=functions');
  const shown = await counters(), rounded = value => value.toFixed(value < 10 ? 2 : 1);
  const known = report.functions.filter(({ name }) => name !== 'main');
  assert.equal(known.length, 2);
  for (const { name, counters: { ipc, per_thousand_instructions: misses } } of known) {
    assert.deepEqual(shown[name], [rounded(ipc.value), rounded(Object.values(misses)[0].value)], name);
  }
});
