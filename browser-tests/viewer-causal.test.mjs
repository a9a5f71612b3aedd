// The causal panel: ranked targets with their verdicts, the curve of the selected one, and the ways to its code.
//
// WHYSLOW names the executable.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { causal } from '../viewer/test/causal.mjs';
import { small } from '../viewer/test/make-payload.mjs';
import { without } from './browser.mjs';
import { cursor, folder, grid, hash, open, page, pageOf, problems, rows, rowWith, settled } from './opened.mjs';

const WHYSLOW = process.env.WHYSLOW;
const known = () => pageOf('causal', causal);
const shownTab = () => page.locator('[role=tab][aria-selected=true]').textContent();
const about = () => page.locator('.causal-about');
const status = () => page.locator('.causal > [role=status]').innerText();
const focused = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.className ?? '');

describe('the causal panel', () => {
  test('ranks the targets of a progress point, with verdicts, and says what the placebo says', async () => {
    await open(known(), '#tab=causal');
    assert.equal(await shownTab(), 'Causal');
    assert.equal(await status(), 'unit (time per visit): 4,800 visits in 96 experiments, 48 of them baselines. The placebo, which never runs, has no effect, as it must.');
    assert.deepEqual(await rows('Targets'), [
      '50.0 % | app::parse | /src/main.rs:12 | 25 % faster → 13 % faster (11 to 15 %), 100 % → at most 50 %',
      '40.0 % | app::hash | /src/main.rs:44 | no effect beyond ±2.0 %',
      '10.0 % | app::render | /src/main.rs:9 | not enough data: about 12 experiments more would decide',
      ' | placebo |  | no effect beyond ±1.2 %',
    ]);
    assert.deepEqual(problems, []);
  });

  test('draws the curve of the selected target with its band and its numbers', async () => {
    await open(known(), '#tab=causal');
    assert.match(await about().innerText(), /^app::parse/, 'the best one at first');
    await rowWith('Targets', 'app::hash').click();
    await settled();
    assert.match(await about().innerText(), /^app::hash/);
    await rowWith('Targets', 'app::parse').click();
    await settled();
    assert.equal(await page.getAttribute('.causal-plot', 'aria-label'), 'app::parse: 25 % faster → 13 % faster (11 to 15 %), 100 % → at most 50 %');
    const places = await page.$$eval('.causal-plot .dot', dots => dots.map(dot => [dot.getAttribute('cx'), dot.getAttribute('cy')].map(Number)));
    assert.equal(places.length, 4);
    const [[x1, y1], [x2, y2], , [x4, y4]] = places;
    assert.ok(Math.abs((x4 - x1) - 3 * (x2 - x1)) < .5 && Math.abs((y1 - y4) - 3 * (y1 - y2)) < .5, `the curve is a line: ${places}`);
    const numbers = await page.$$eval('.causal-table tbody tr', rows => rows.map(row => [...row.cells].map(cell => cell.textContent).join(' | ')));
    assert.equal(numbers[1], '50 % | 25.0 % | 23.0 % to 27.0 % | 3');
    const band = await page.getAttribute('.causal-plot .band', 'points');
    assert.equal(band.split(' ').length, 10, 'from no speed-up to 100 %, low and high');
    assert.deepEqual(problems, []);
  });

  test('leads to the source and to the flame graph', async () => {
    await open(known(), '#tab=causal');
    await about().getByRole('button', { name: 'Show source' }).click();
    await settled();
    assert.equal(await shownTab(), 'Source');
    assert.match(await cursor('Source lines'), /12\s*parse\(line\);/);
    assert.equal(await focused(), 'Source lines');
    await page.getByRole('tab', { name: 'Causal' }).click();
    await about().getByRole('button', { name: 'Show in flame graph' }).click();
    await settled();
    assert.equal(await shownTab(), 'Flame');
    assert.equal(await focused(), await page.getAttribute('.flame-scroll', 'aria-label'));
    assert.deepEqual(problems, []);
  });

  test('works with the keyboard alone', async () => {
    await open(known());
    await page.keyboard.press('2');
    await settled();
    assert.equal(await shownTab(), 'Causal');
    assert.equal(await focused(), 'Targets', 'the key moves the focus into the table');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await settled();
    assert.match(await cursor('Targets'), /app::hash/);
    await page.keyboard.press('Enter');
    await settled();
    assert.equal(await shownTab(), 'Source');
    assert.match(await cursor('Source lines'), /44\s*hash\(line\);/);
    assert.deepEqual(problems, []);
  });

  test('shows another progress point, which the address keeps, and distrusts a placebo with an effect', async () => {
    await open(known(), '#tab=causal');
    await page.selectOption('.causal-points select', { label: 'request <b> (latency)' });
    await settled();
    assert.match(await status(), /^request <b> \(latency\): .* 1 outlying one dropped\. The placebo, which never runs, seems to have an effect: do not trust this\.$/);
    assert.match((await rows('Targets'))[0], /^10\.0 % \| app::render \| .* 25 % faster → 10 % slower/);
    assert.match(await hash(), /p\.causal-point=1/);
    await page.reload();
    await page.waitForSelector('.causal');
    await settled();
    assert.match(await status(), /^request/);
    assert.deepEqual(problems, []);
  });

  test('says why there are no estimates, and is missing without experiments', async () => {
    await open(pageOf('refused', () => causal({ refused: 'other programs used the CPUs' })), '#tab=causal');
    assert.equal(await status(), 'No estimates: other programs used the CPUs');
    assert.equal(await grid('Targets').locator('tbody tr').count(), 0);
    await open(pageOf('small', small), '#tab=causal');
    assert.equal(await page.getByRole('tab', { name: 'Causal' }).count(), 0);
    assert.deepEqual(problems, []);
  });

  for (const theme of ['light', 'dark']) {
    test(`has a visible curve and band in the ${theme} theme`, async () => {
      await open(known(), `#tab=causal&theme=${theme}`);
      const [curve, page_] = await page.evaluate(() => [getComputedStyle(document.querySelector('.causal-plot .curve')).stroke, getComputedStyle(document.body).backgroundColor]);
      assert.notEqual(curve, page_);
      assert.equal(curve, theme === 'dark' ? 'rgb(86, 180, 233)' : 'rgb(0, 114, 178)');
      if (process.env.SCREENSHOTS) await page.screenshot({ path: join(process.env.SCREENSHOTS, `causal-${theme}-${process.env.TEST_BROWSER ?? 'chromium'}.png`) });
    });
  }

  for (const width of [400, 800, 1200]) {
    test(`is not cut off in a window of ${width} pixels`, async () => {
      await open(known(), '#tab=causal', { viewport: { width, height: 900 } });
      const outside = await page.evaluate(() => [...document.querySelectorAll('.causal-about, .causal-plot, .causal-points, .causal > .status')].filter(element => element.getBoundingClientRect().right > innerWidth + 1).map(element => element.className));
      assert.deepEqual(outside, []);
      assert.ok(await page.locator('.causal-plot').evaluate(element => element.getBoundingClientRect().height) > 80);
    });
  }
});

test('experiments of coz are shown with whyslow’s estimates', { skip: without(WHYSLOW, 'WHYSLOW does not name the executable') }, async () => {
  const sample = fileURLToPath(new URL('../crates/whyslow-formats/tests/samples/profile.coz', import.meta.url));
  copyFileSync(sample, join(folder, 'profile.coz'));
  const whyslow = (...args) => execFileSync(WHYSLOW, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], cwd: folder });
  whyslow('import', 'profile.coz');
  whyslow('view', 'profile.whyslow', '-o', 'coz.html');
  await open(join(folder, 'coz.html'));
  assert.equal(await shownTab(), 'Causal', 'there are no samples to begin with');
  const [first, second] = await rows('Targets');
  assert.match(first, /src\/server\.c:40 .* 25 % faster → 1\d % faster .* at most [56]\d %$/);
  assert.match(second, /src\/log\.c:12/);
  assert.deepEqual(problems, []);
});
