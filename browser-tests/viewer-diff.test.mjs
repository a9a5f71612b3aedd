// A comparison of two sides in a real browser: frames, sides, table, search, keys, narrow windows, and that
// whyslow writes the same.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { compared } from '../viewer/test/compared.mjs';
import { without } from './browser.mjs';
import { clickFrame, column, crumbs, folder, found, grid, hash, hoverFrame, open, page, pageOf, problems, rows, rowWith, settled } from './opened.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const WHYSLOW = process.env.WHYSLOW;
const changes = () => pageOf('compared', compared);
const carried = () => pageOf('carried', () => compared({ carried: true, runs: 5 }));
/** The colour of the canvas at a frame. */
const colourAt = (across, depth) => page.evaluate(([across, depth]) => {
  const canvas = document.querySelector('.flame-window canvas'), ratio = devicePixelRatio;
  const [r, g, b] = canvas.getContext('2d').getImageData(canvas.width * across, canvas.height - (4 + (depth + .5) * 18 - 6) * ratio, 1, 1).data;
  return '#' + [r, g, b].map(part => part.toString(16).padStart(2, '0')).join('');
}, [across, depth]);
const frames = async () => { await page.waitForTimeout(400); return page.$$eval('.flame .hidden tbody tr', all => all.map(row => row.cells[0].textContent)); };

describe('what changed', () => {
  test('is a flame graph of both sides, coloured by verdict', async () => {
    await open(changes());
    assert.equal(await page.textContent('.diff-sentence'), 'Faster: cpu time 8.90 µs → 7.31 µs.');
    assert.equal(await page.title(), './app old → ./app new · whyslow'.replaceAll('./app', 'app'));
    // Widest first: load 3500, same 2510, hash 2400, gone 900, fresh 700 of 10010.
    assert.deepEqual([await colourAt(.1, 2), await colourAt(.5, 2), await colourAt(.7, 2), await colourAt(.88, 2), await colourAt(.97, 2)],
      ['#4f8fdc', '#d5d8dc', '#f8c98f', '#4f8fdc', '#ec8a2f']);
    assert.equal(await colourAt(.5, 1), '#a9d0f5', 'everything is a little less');
    assert.deepEqual(await page.locator('.legend li').allTextContents(), ['half or less, removed', 'less', 'within noise', 'more', 'twice or more, new']);
    assert.deepEqual(problems, []);
  });

  test('shows a frame’s before, after and change with its verdict', async () => {
    await open(changes());
    const tip = await hoverFrame(.1, 3);
    assert.match(tip, /parse\s+total 3,000 → 1,200: less\s+−1,800 \(×0\.40, 95 %: ± 130\)/);
    assert.match(await hoverFrame(.88, 2), /gone\s+total 900 → 0: less\s+−900 \(removed/);
    assert.match(await hoverFrame(.5, 2), /same.*undecided/s);
    await open(carried());
    assert.match(await hoverFrame(.1, 4), /parse.*×0\.40, 95 %: 0\.36 to 0\.44, q 0\.012/s);
  });

  test('shows before, after and both, by button and key', async () => {
    await open(changes());
    const both = await frames();
    assert.ok(both.includes('gone') && both.includes('fresh'), both.join());
    await page.getByRole('button', { name: 'Before', exact: true }).first().click();
    let names = await frames();
    assert.ok(names.includes('gone') && !names.includes('fresh'), names.join());
    assert.match(await hash(), /diff-side=before/);
    await page.keyboard.press('3');
    names = await frames();
    assert.ok(!names.includes('gone') && names.includes('fresh'), names.join());
    await page.keyboard.press('1');
    assert.deepEqual(await frames(), both);
  });

  test('has a table that sorts, searches and highlights a function', async () => {
    await open(changes());
    assert.deepEqual(await column('Changes', 0), ['parse', 'gone', 'fresh', 'hash', 'same', 'main', 'load']);
    assert.equal((await rows('Changes'))[0], 'parse | 3,000 | 1,200 | −1,800 | ×0.40 | ± 130 | less | src/app.rs:13');
    assert.equal((await rows('Changes'))[1].split(' | ')[2], '', 'a missing side leaves no frame');
    await grid('Changes').getByRole('button', { name: 'Change' }).click();
    assert.deepEqual((await column('Changes', 0)).slice(0, 2), ['fresh', 'hash']);
    await page.getByRole('button', { name: 'With callees' }).click();
    assert.ok((await rows('Changes')).some(row => row.startsWith('load | 3,500 | 1,700 | −1,800')));
    await rowWith('Changes', 'hash').click();
    // Everything else is pale.
    assert.notEqual(await colourAt(.1, 2), '#4f8fdc');
    assert.equal(await colourAt(.7, 2), '#f8c98f');
    await page.getByRole('button', { name: 'Show all frames' }).click();
    assert.equal(await colourAt(.1, 2), '#4f8fdc');
    await page.fill('#search', 'ha');
    await settled();
    assert.deepEqual(await column('Changes', 0), ['hash']);
    assert.match(await found(), /1 match · .*1 function/);
    assert.equal(await colourAt(.7, 2), '#f8c98f');
    assert.deepEqual(problems, []);
  });

  test('zooms and moves with the keyboard, and keeps the zoom in the address', async () => {
    await open(changes());
    await clickFrame(.1, 2);
    assert.deepEqual(await crumbs(), ['all', 'main', 'load']);
    const address = await hash();
    await page.keyboard.press('Escape');
    assert.deepEqual(await crumbs(), ['all']);
    await open(changes(), address);
    assert.deepEqual(await crumbs(), ['all', 'main', 'load']);
    await page.keyboard.press('Escape');
    await page.locator('.flame-scroll').focus();
    for (const key of ['ArrowUp', 'ArrowUp', 'ArrowUp', 'ArrowRight']) await page.keyboard.press(key);
    assert.match(await page.locator('.flame [role=status]').textContent(), /^same, 2,500 → 2,510, \+10 .*: undecided, level 2$/);
    await page.keyboard.press('Enter');
    assert.deepEqual(await crumbs(), ['all', 'main', 'same']);
    await page.keyboard.press('u');
    assert.deepEqual(await crumbs(), ['all']);
    await page.keyboard.press('?');
    assert.match(await page.textContent('dialog'), /Show both sides, before, after/);
    assert.doesNotMatch(await page.textContent('dialog'), /Merge generic/);
  });

  test('folds start-up frames until whole stacks are on', async () => {
    await open(carried());
    assert.equal((await frames())[1], '[start-up: 3 frames]');
    await page.keyboard.press('w');
    assert.ok((await frames()).includes('std::rt::lang_start'));
    assert.match(await hash(), /whole/);
  });

  test('is accessible: axe-core, light and dark, wide and narrow', async () => {
    for (const theme of ['light', 'dark']) {
      for (const viewport of [{ width: 1400, height: 900 }, { width: 1800, height: 900 }, { width: 420, height: 800 }]) {
        await open(carried(), `#theme=${theme}`, { viewport });
        await page.locator('summary').click();
        await rowWith('Changes', 'hash').click();
        await page.evaluate(`window.axe ?? (() => { ${AXE} })(); 0`);
        const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }));
        assert.deepEqual(violations.flatMap(({ id, nodes }) => nodes.map(node => `${id}: ${node.html.slice(0, 160)}`)), [], `${theme} ${viewport.width}`);
        const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wider <= 0, `${viewport.width}: ${wider} pixels wider than the window`);
      }
    }
    assert.deepEqual(problems, []);
  });

  test('of allocation sites has lines', async () => {
    await open(pageOf('lines', () => compared({ lines: true })));
    assert.equal(await page.locator('.diff-table h2').textContent(), 'Allocation sites');
    assert.equal(await page.getByRole('button', { name: 'With callees' }).count(), 0);
    assert.deepEqual(await grid('Changes').getByRole('columnheader').allTextContents(), ['Function', 'Before', 'After', 'Change', 'Ratio', 'Verdict', 'Line'], 'counted values have no interval');
  });

  test('matches the page that whyslow writes', { skip: without(WHYSLOW, 'WHYSLOW does not name the executable') }, async () => {
    const [old, now, html] = ['old.folded', 'new.folded', 'diff.html'].map(name => join(folder, name));
    writeFileSync(old, 'main;load;parse 3000\nmain;load 500\nmain;hash 2000\nmain;gone 900\nmain;same 2500\n');
    writeFileSync(now, 'main;load;parse 1200\nmain;load 500\nmain;hash 2400\nmain;fresh 700\nmain;same 2510\n');
    execFileSync(WHYSLOW, ['view', '--diff', old, now, '-o', html], { stdio: 'ignore' });
    await open(html);
    assert.match(await page.textContent('.diff-sentence'), /^Undecided: samples 8,900 → 7,310, -17\.9 %\./);
    assert.deepEqual([await colourAt(.1, 2), await colourAt(.5, 2), await colourAt(.7, 2), await colourAt(.88, 2), await colourAt(.97, 2)],
      ['#4f8fdc', '#d5d8dc', '#f8c98f', '#4f8fdc', '#ec8a2f']);
    assert.deepEqual(await column('Changes', 0), ['parse', 'gone', 'fresh', 'hash', 'same', 'load', 'main']);
    assert.match(await hoverFrame(.1, 3), /parse\s+total 3,000 → 1,200: undecided/);
    assert.deepEqual(problems, []);
  });
});
