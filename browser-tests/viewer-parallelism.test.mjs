// The parallelism panel: generated profiles with known answers, and a real one that must match `whyslow
// report FILE parallelism`.
//
// WHYSLOW names the executable.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { small } from '../viewer/test/make-payload.mjs';
import { parallel } from '../viewer/test/parallel.mjs';
import { without } from './browser.mjs';
import { brush, column, facts, folder, grid, hash, open, page, pageOf, problems, rows, settled } from './opened.mjs';

const WHYSLOW = process.env.WHYSLOW;
const known = () => pageOf('parallel', parallel);
const summary = () => page.locator('.parallelism > .status').innerText();

describe('the parallelism panel', () => {
  test('shows the time per number of busy threads, and what ran alone', async () => {
    await open(known(), '#tab=parallelism');
    assert.deepEqual(await rows('Concurrent threads'), ['1 | 40.0 % | 400 ms', '2 | 60.0 % | 600 ms']);
    assert.deepEqual(await rows('Functions by elapsed time'), ['100.0 % | 400 ms | app::parse | /src/app.rs:12']);
    assert.match(await summary(), /^40\.0 % of elapsed time: one thread works while all others wait for it, in app::parse \(app\.rs:12\)\. Estimated .*--off-cpu\.$/);
    await grid('Concurrent threads').locator('tbody tr').last().click();
    await settled();
    assert.deepEqual(await rows('Functions by elapsed time'), ['95.0 % | 570 ms | app::work | /src/app.rs:20', '5.00 % | 30.0 ms | app::log | /src/app.rs:30']);
    assert.match(await hash(), /p\.parallelism-level=2/);
    assert.deepEqual(problems, []);
  });

  test('is exact with waits, and follows the time and thread selection', async () => {
    await open(pageOf('exact', () => parallel({ waits: true })), '#tab=parallelism');
    assert.match(await summary(), /^40\.0 % of elapsed time: one thread works .*, in app::parse \(app\.rs:12\)\. Busy threads are running or queued for a CPU\./);
    await brush(.5, .9);
    assert.deepEqual(await column('Concurrent threads', 0), ['2']);
    assert.match(await summary(), /^In the whole recording, 40\.0 % of elapsed time/);
    await page.keyboard.press('Escape');
    await open(pageOf('exact', () => parallel({ waits: true })), '#tab=parallelism&t=0.1');
    assert.deepEqual(await rows('Concurrent threads'), ['1 | 100.0 % | 1.00 s']);
    assert.deepEqual(problems, []);
  });

  test('links to the flame graph of elapsed time', async () => {
    await open(known(), '#tab=parallelism');
    await grid('Functions by elapsed time').focus();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await settled();
    assert.equal(await page.getAttribute('#tab-flame', 'aria-selected'), 'true');
    assert.equal(await page.$eval('.metric select', select => select.selectedOptions[0].textContent), 'elapsed-time');
    assert.match(await facts(), /1\.00 s$/, 'what ran alone counts in full, what ran on two threads half');
  });

  test('is missing for a profile without this data', async () => {
    await open(pageOf('small', small));
    assert.equal(await page.getByRole('tab', { name: 'Parallelism' }).count(), 0);
    assert.equal(await page.locator('.metric option', { hasText: 'elapsed-time' }).count(), 0);
  });
});

describe('of a real profile', { skip: without(WHYSLOW, 'WHYSLOW does not name the executable') }, () => {
  const whyslow = (...args) => execFileSync(WHYSLOW, args, { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'pipe'] });

  /** Two threads of samples in the format of `perf script`: `worker` starts a third of a second later. */
  function script() {
    const lines = [];
    for (let ms = 0; ms < 1000; ms++) {
      const sample = (name, tid, fn) => lines.push(`${name} 100/${tid} ${(5 + (ms * 1000 + tid) / 1e6).toFixed(6)}: 1000000 cpu-clock:`, `\t401000 ${fn}+0x10 (/bin/app)`, `\t402000 main+0x20 (/bin/app)`, '');
      sample('app', 100, ms < 333 ? 'parse' : 'render');
      if (ms >= 333) sample('worker', 101, ms % 3 ? 'render' : 'encode');
    }
    return lines.join('\n');
  }

  function made(name) {
    const file = join(folder, `${name}.whyslow`);
    if (name === 'imported') {
      writeFileSync(join(folder, 'script.txt'), script());
      whyslow('import', join(folder, 'script.txt'), '-o', file);
      return file;
    }
    const pipe = 'i=0; while [ $i -lt 150000 ]; do i=$((i + 1)); echo $i; done | sort -R | sort -n | tail -1';
    spawnSync(WHYSLOW, ['-q', 'record', ...(name === 'waits' ? ['--off-cpu'] : []), '-o', file, '--', 'sh', '-c', pipe], { stdio: 'ignore' });
    return file;
  }

  const percent = text => Number(/([\d.]+) %/.exec(text)[1]);

  for (const name of ['imported', 'sampled', 'waits']) {
    test(`${name}: matches the report`, async t => {
      const file = made(name);
      if (!existsSync(file)) return t.skip('this machine refuses to record');
      const html = join(folder, `${name}.html`);
      whyslow('view', file, '-o', html);
      const { duration_ns: whole } = JSON.parse(whyslow('report', file, '--format', 'json'));
      for (const part of [undefined, [.1, .6]]) {
        const range = part?.map(at => Math.round(at * whole / 1e6));
        const report = JSON.parse(whyslow('report', file, 'parallelism', '--format', 'json', '-n', '1000', ...(range ? ['--time', `${range[0]}ms..${range[1]}ms`] : [])));
        const at = range ? `&b=${range.map(ms => (ms * 1e6).toString(36)).join('-')}` : '';
        let compared = 0;
        for (const { threads, share, functions } of report.levels) {
          if (share < .001) continue;
          await open(html, `#tab=parallelism&p.parallelism-level=${threads}${at}`);
          const shown = (await rows('Concurrent threads')).find(row => row.startsWith(`${threads} |`));
          assert.ok(shown && Math.abs(percent(shown) - 100 * share) < .06, `${shown} and ${share}`);
          if (threads === 0) continue;
          const ran = await rows('Functions by elapsed time');
          for (const [row, { function: fn, share }] of functions.slice(0, 3).entries()) {
            const [shownShare, , shownName] = ran[row].split(' | ');
            assert.ok(shownName === fn && Math.abs(percent(shownShare) - 100 * share) < .06, `${ran[row]} and ${fn} ${share}`);
            compared++;
          }
        }
        assert.ok(compared > 0, 'something ran');
        if (!range) {
          // The finding is about the whole recording: the page has no other.
          assert.equal((await summary()).includes('one thread works'), report.serial !== null, await summary());
          const elapsed = JSON.parse(whyslow('report', file, 'functions', '--metric', 'elapsed-time', '--by', 'self', '--format', 'json', '-n', '3'));
          await open(html, '#tab=functions');
          await page.selectOption('.metric select', { label: 'elapsed-time' });
          await settled();
          const { name, self_share } = elapsed.functions[0];
          const shown = (await rows('Functions')).map(row => row.split(' | '));
          // Own, self and total with their shares, then the name.
          const hottest = shown.find(row => row[6] === name);
          assert.ok(hottest && Math.abs(percent(hottest[3]) - 100 * self_share) < .06, `${name} ${self_share}: ${shown[0].join(' | ')}`);
        }
      }
      assert.deepEqual(problems, []);
    });
  }
});
