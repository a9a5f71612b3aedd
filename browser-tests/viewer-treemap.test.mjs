// The tree map panel: areas in proportion to bytes, a table with the same rows, zooming with pointer and keys.
//
// WHYSLOW names the executable.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { small } from '../viewer/test/make-payload.mjs';
import { sizes } from '../viewer/test/sizes.mjs';
import { without } from './browser.mjs';
import { cursor, doubleClick, folder, hash, open, page, pageOf, problems, rows, settled } from './opened.mjs';

const WHYSLOW = process.env.WHYSLOW;
const known = () => pageOf('sizes', sizes);
const shownTab = () => page.locator('[role=tab][aria-selected=true]').textContent();
const status = () => page.locator('.treemap > [role=status]').innerText();
const way = () => page.locator('.treemap-way button').allTextContents();
/** The rectangles as `name: part of the area`. */
const areas = () => page.$$eval('.treemap-map rect', rects => {
  const { width, height } = document.querySelector('.treemap-map').getBoundingClientRect();
  return Object.fromEntries(rects.map(rect => [rect.textContent.split('\n')[0], rect.width.baseVal.value * rect.height.baseVal.value / (width * height)]));
});

describe('the tree map panel', () => {
  test('draws areas in proportion to bytes, and has the same rows in a table', async () => {
    await open(known(), '#tab=map');
    assert.equal(await shownTab(), 'Tree map');
    assert.match(await status(), /^1\.00 KiB in the file\./);
    assert.deepEqual(await rows('Tree map'), ['50.0 % | 512 B | app', '37.5 % | 384 B | [debug information]', '12.5 % | 128 B | dep']);
    const found = await areas();
    const near = (name, part) => assert.ok(Math.abs(found[name] - part) < .01, `${name}: ${found[name]}`);
    near('app', .5);
    near('[debug information]', .375);
    near('dep', .125);
    assert.ok(found['app::parse'] > 2.5 * found['app::hash'], 'three times as many bytes, without the frame around them');
    assert.deepEqual(problems, []);
  });

  test('zooms into a group with a double click, and back', async () => {
    await open(known(), '#tab=map');
    await doubleClick(page.locator('.treemap-map rect').first(), { position: { x: 20, y: 6 } });
    await settled();
    assert.match(await status(), /^512 B, 50\.0 % of the file\./);
    assert.deepEqual(await way(), ['all', 'app']);
    assert.deepEqual(await rows('Tree map'), ['37.5 % | 384 B | app::parse', '12.5 % | 128 B | app::hash']);
    assert.match(await hash(), /tab=map/);
    await page.getByRole('button', { name: 'all', exact: true }).click();
    await settled();
    assert.match(await status(), /^1\.00 KiB in the file/);
    assert.deepEqual(problems, []);
  });

  test('works with the keyboard alone', async () => {
    await open(known(), '#tab=map');
    await page.locator('table[aria-label="Tree map"]').focus();
    await page.keyboard.press('ArrowDown');
    await settled();
    assert.match(await cursor('Tree map'), /app/);
    assert.equal(await page.locator('.treemap-map rect.chosen').count(), 1);
    await page.keyboard.press('Enter');
    await settled();
    assert.deepEqual(await way(), ['all', 'app']);
    assert.deepEqual(problems, []);
  });

  test('a search dims what does not match', async () => {
    await open(known(), '#tab=map&q=hash');
    const bright = await page.$$eval('.treemap-map rect:not(.dim)', rects => rects.map(rect => rect.textContent.split('\n')[0]));
    assert.ok(bright.includes('app::hash') && !bright.includes('app::parse'), String(bright));
    assert.deepEqual(problems, []);
  });

  test('is missing in other profiles', async () => {
    await open(pageOf('small', small));
    assert.equal(await page.getByRole('tab', { name: 'Tree map' }).count(), 0);
  });

  for (const theme of ['light', 'dark']) {
    test(`has readable names in the ${theme} theme`, async () => {
      await open(known(), `#tab=map&theme=${theme}`);
      assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector('.treemap-map text')).fill), 'rgb(17, 17, 17)');
      if (process.env.SCREENSHOTS) await page.screenshot({ path: join(process.env.SCREENSHOTS, `treemap-${theme}-${process.env.TEST_BROWSER ?? 'chromium'}.png`) });
    });
  }

  for (const width of [400, 800, 1200]) {
    test(`is not cut off in a window of ${width} pixels`, async () => {
      await open(known(), '#tab=map', { viewport: { width, height: 900 } });
      const { right, height } = await page.locator('.treemap-map').evaluate(element => { const { right, height } = element.getBoundingClientRect(); return { right, height }; });
      assert.ok(right <= width + 1 && height > 100, `${right} ${height}`);
    });
  }
});

test('a program’s file opens as a tree map', { skip: without(WHYSLOW, 'WHYSLOW does not name the executable') }, async () => {
  const whyslow = (...args) => execFileSync(WHYSLOW, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], cwd: folder, maxBuffer: 1 << 28 });
  const { crates } = JSON.parse(whyslow('size', WHYSLOW, '-o', 'size.whyslow', '--format', 'json'));
  whyslow('view', 'size.whyslow', '-o', 'size.html');
  await open(join(folder, 'size.html'));
  assert.equal(await shownTab(), 'Tree map');
  const shown = (await rows('Tree map')).map(row => row.split(' | ')[2]);
  assert.deepEqual(shown.slice(0, 8), crates.slice(0, 8).map(({ name }) => name));
  if (process.env.SCREENSHOTS) await page.screenshot({ path: join(process.env.SCREENSHOTS, `treemap-real-${process.env.TEST_BROWSER ?? 'chromium'}.png`) });
  assert.deepEqual(problems, []);
});
