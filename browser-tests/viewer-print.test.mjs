// Printing the viewer: the whole current panel, light, under a header with the command, quality and date.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Payload, SHAPES } from '../viewer/test/make-payload.mjs';
import { FIREFOX } from './browser.mjs';
import { folder, open, page, pageOf, problems, settled } from './opened.mjs';

/** A profile with many functions. */
function many(count) {
  const p = new Payload();
  p.metric('cpu-time', 1);
  const thread = p.thread(p.process(1, 'many'), 1, 'main');
  for (let n = 0; n < count; n++) {
    p.sample(0, n * 1000, thread, p.stack(0xffffffff, p.location(0xffffffff, n, [[p.fn(`app::function_${n}`, 'app'), undefined, 0]])), 1000);
  }
  return p.container();
}

/** The events a browser sends before and after printing. */
const print = event => page.evaluate(event => { dispatchEvent(new Event(event)); }, event);
const names = () => page.locator('#panel tbody tr:not(.space)').count();

test('a table prints completely, up to a stated limit', async () => {
  await open(pageOf('many', () => many(700)), '#tab=functions');
  assert.ok(await names() < 200, 'the screen has only the rows in view');
  await print('beforeprint');
  assert.equal(await names(), 700);
  await print('afterprint');
  await settled();
  assert.ok(await names() < 200);
  await open(pageOf('more', () => many(2500)), '#tab=functions');
  await print('beforeprint');
  assert.equal(await names(), 2000);
  assert.match(await page.textContent('#panel'), /The first 2,000 of 2,500 rows\./);
  assert.deepEqual(problems, []);
});

test('a flame graph prints with all its rows, light, whatever is in view', async () => {
  await open(pageOf('realistic', SHAPES.realistic), '#theme=dark', { viewport: { width: 1200, height: 420 } });
  const height = () => page.$eval('.flame-window canvas', canvas => parseFloat(canvas.style.height));
  const rows = await page.evaluate(() => document.querySelector('.flame-scroll').scrollHeight);
  const before = await height();
  assert.ok(before < rows, 'not all rows are in view');
  await print('beforeprint');
  assert.ok(await height() >= rows, `${await height()} of ${rows}`);
  assert.equal(await page.getAttribute('html', 'data-theme'), 'light');
  await print('afterprint');
  await settled();
  assert.equal(await height(), before);
  assert.equal(await page.getAttribute('html', 'data-theme'), 'dark');
  assert.deepEqual(problems, []);
});

test('the picture is on the first page, whole, in both orientations', { skip: FIREFOX && 'Firefox does not emulate paper' }, async () => {
  // A4 at 96 dots per inch without the margins.
  for (const [width, height] of [[703, 1032], [1032, 703]]) {
    await open(pageOf('deep', SHAPES.deep), '#on=whole', { viewport: { width, height } });
    await page.emulateMedia({ media: 'print' });
    await print('beforeprint');
    await settled();
    const { y, height: high } = await page.locator('.flame-window canvas').boundingBox();
    assert.ok(y + high <= height, `${width} × ${height}: ends at ${y + high}`);
  }
});

test('print shows the command, quality and date, and no controls', { skip: FIREFOX && 'Firefox does not emulate paper' }, async () => {
  await open(pageOf('many', () => many(700)), '#tab=functions');
  await page.emulateMedia({ media: 'print' });
  const header = await page.locator('header').innerText();
  assert.match(header, /whyslow[^]*Quality: \w+ · recorded (\d{4}-\d\d-\d\d [\d:]+ UTC|unknown)/);
  for (const away of ['.search', '.buttons', '.toolbar', '.timeline-tracks', '.tools']) {
    assert.equal(await page.locator(away).first().isVisible(), false, away);
  }
  assert.deepEqual(await page.locator('[role=tab]:visible').allTextContents(), ['Functions']);
  const file = join(folder, 'paper.pdf');
  await page.pdf({ path: file });
  const pages = readFileSync(file, 'latin1').match(/\/Type\s*\/Page\b/g) ?? [];
  assert.ok(pages.length > 8, `${pages.length} pages for 700 rows`);
  assert.deepEqual(problems, []);
});
