// Results of `whyslow bench` in a real browser: verdicts, tables, pairs, runs, selecting a metric, and that
// whyslow writes the same.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { measured } from '../viewer/test/measured.mjs';
import { without } from './browser.mjs';
import { folder, hash, open, page, pageOf, problems, settled } from './opened.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const WHYSLOW = process.env.WHYSLOW;
const three = () => pageOf('measured', measured);
const cells = label => page.$$eval(`[aria-label="${label}"] tbody tr`, rows => rows.map(row => [...row.cells].map(cell => cell.textContent.trim()).join(' | ')));
const number = (selector, attribute) => page.$$eval(selector, (all, attribute) => all.map(element => Number(element.getAttribute(attribute))), attribute);

describe('results of whyslow bench', () => {
  test('show the verdict, and each pair with the interval', async () => {
    await open(three());
    assert.match(await page.textContent('.bench-answer'), /^`\.\/app <new>` is faster than `\.\/app old`: -10\.0 % wall time/);
    assert.match(await page.textContent('[aria-label=Answer]'), /is the fastest\..*the machine was busy end what else runs/s);
    assert.equal(await page.locator('.bench-strip').count(), 2);
    const first = '.bench-strip:nth-of-type(1) ';
    assert.equal(await page.locator(`${first}.dot`).count(), 12);
    const dots = await number(`${first}.dot`, 'cx'), [band] = await number(`${first}.band`, 'x'), [wide] = await number(`${first}.band`, 'width');
    const [none] = await number(`${first}.none`, 'x1'), [estimate] = await number(`${first}.estimate`, 'x1');
    assert.ok(dots.every(x => x < none), 'all pairs are left of no change');
    assert.ok(band < estimate && estimate < band + wide && band + wide < none);
    assert.equal(await page.locator(`${first}figcaption`).textContent(), './app <new> vs ./app old: faster −10.0 % (−10.6 % to −9.4 %)');
    assert.deepEqual(problems, []);
  });

  test('show all runs by round, also as a table', async () => {
    await open(three());
    assert.equal(await page.locator('.run').count(), 36);
    assert.equal(await page.locator('.course').count(), 3);
    assert.match(await page.locator('.run title').first().textContent(), /^\.\/app old, round 1: 100 ms$/);
    await page.locator('summary').click();
    const rows = await cells('All runs');
    assert.equal(rows.length, 12);
    assert.match(rows[1], /^2 \| 101 ms \| 90\.9 ms \| /);
  });

  test('switch to another metric, and keep it in the address', async () => {
    await open(three());
    assert.match((await cells('Statistics per command'))[0], /^\.\/app old \| 106 ms/);
    await page.getByRole('combobox', { name: 'Metric' }).selectOption('max-resident');
    await settled();
    assert.match((await cells('Statistics per command'))[1], /^\.\/app <new> \| 24\.0 MiB/);
    const address = await hash();
    assert.match(address, /bench-metric=max-resident/);
    await open(three(), address);
    assert.match((await cells('Statistics per command'))[1], /24\.0 MiB/);
    await page.getByRole('button', { name: 'wall-time' }).first().click();
    await settled();
    assert.match((await cells('Statistics per command'))[0], /106 ms/);
    assert.deepEqual((await cells('Comparisons by metric')).map(row => row.split(' | ').slice(0, 2).concat(row.split(' | ').at(-1)).join(' ')),
      ['wall-time ./app <new> faster', 'wall-time ./app --other undecided', 'max-resident ./app <new> more', 'max-resident ./app --other more']);
  });

  test('with one command show its runs and no comparison', async () => {
    await open(pageOf('alone', () => measured({ commands: 1 })));
    assert.match(await page.textContent('[aria-label=Answer]'), /nothing to compare it with/);
    assert.equal(await page.locator('.bench-strip').count(), 0);
    assert.equal(await page.locator('.run').count(), 12);
    assert.deepEqual(problems, []);
  });

  test('are accessible: axe-core, light and dark, wide and narrow', async () => {
    for (const theme of ['light', 'dark']) {
      for (const viewport of [{ width: 1300, height: 900 }, { width: 420, height: 800 }]) {
        await open(three(), `#theme=${theme}`, { viewport });
        await page.locator('summary').click();
        await page.evaluate(`window.axe ?? (() => { ${AXE} })(); 0`);
        const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }));
        assert.deepEqual(violations.flatMap(({ id, nodes }) => nodes.map(node => `${id}: ${node.html.slice(0, 160)}`)), [], `${theme} ${viewport.width}`);
        const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wider <= 0, `${viewport.width}: ${wider} pixels wider than the window`);
      }
    }
    await page.keyboard.press('d');
    await settled();
    assert.equal(await page.getAttribute('html', 'data-theme'), 'light');
    assert.deepEqual(problems, []);
  });

  test('match the page that whyslow writes', { skip: without(WHYSLOW, 'WHYSLOW does not name the executable') }, async () => {
    const [json, html] = ['result.json', 'result.html'].map(name => join(folder, name));
    execFileSync(WHYSLOW, ['bench', '-q', '--runs', '8', '--warmup', '0', '--export-json', json, 'true', 'sleep 0.03'], { stdio: 'ignore' });
    execFileSync(WHYSLOW, ['view', json, '-o', html], { stdio: 'ignore' });
    await open(html);
    assert.match(await page.textContent('.bench-answer'), /^`sleep 0\.03` is slower than `true`: \+[\d.]+ % (wall|CPU) time/);
    assert.equal(await page.locator('.bench-strip .dot').count(), 8);
    assert.equal(await page.locator('.run').count(), 16);
    assert.deepEqual(problems, []);
  });
});
