// Spans in the viewer in a real browser: their table and their filter. viewer/test/known.mjs has the numbers.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { known } from '../viewer/test/known.mjs';
import { pool } from '../viewer/test/pool.mjs';
import * as opened from './opened.mjs';
import { column, doubleClick, facts, grid, hash, page, pageOf, problems, rows, rowWith, settled } from './opened.mjs';

afterEach(() => assert.deepEqual(problems, [], 'no errors, no requests, no dialogs'));

const PROFILES = { known, plain: () => known({ spans: false, warnings: false }) };
const open = (name, hash = '', settings = {}) => opened.open(pageOf(name, PROFILES[name]), `#${hash}`, { viewport: { width: 1300, height: 850 }, ...settings });

describe('spans', () => {
  test('names with their durations, and the samples inside', async () => {
    await open('known', 'tab=spans');
    assert.deepEqual(await rows('Spans by name'), [
      'everything | 1 | 100 ms | 100 ms | 100 ms | 100 ms | 100 ms | 100 ms | 100 ms',
      'request | 3 | 70.0 ms | 23.3 ms | 20.0 ms | 40.0 ms | 40.0 ms | 70.0 ms | 70.0 ms',
      'job | 1 | 5.00 ms | 5.00 ms | 5.00 ms | 5.00 ms | 5.00 ms | 5.00 ms | 5.00 ms',
    ]);
    await rowWith('Spans by name', 'request').click();
    assert.deepEqual(await rows('Spans named request'), [
      '20.0 ms | 40.0 ms | 40.0 ms | 40.0 ms | main | GET /b',
      '0 ns | 20.0 ms | 20.0 ms | 20.0 ms | main | GET /a',
      '60.0 ms | 10.0 ms | 10.0 ms | 10.0 ms | main | GET /<c>',
    ]);
  });

  test('one span filters every panel; the chip and undo remove the filter', async () => {
    await open('known', 'tab=spans');
    await rowWith('Spans by name', 'request').click();
    await doubleClick(rowWith('Spans named request', 'GET /b'));
    assert.match(await facts(), /40 samples · 40\.0 ms/);
    assert.match(await page.innerText('.chip'), /Inside span\s+request/);
    await page.keyboard.press('2');
    assert.deepEqual(await column('Functions', 4), ['core::num::add', 'app::main', 'app::sum']);
    assert.match(await hash(), /s=o2/);
    await page.getByRole('button', { name: 'Remove: Inside span request' }).click();
    assert.equal((await rows('Functions')).length, 7);
    await page.keyboard.press('u');
    assert.equal((await rows('Functions')).length, 3);
    await page.keyboard.press('Escape');
    assert.equal((await rows('Functions')).length, 7);
  });

  test('all spans with a name, by keyboard', async () => {
    await open('known', 'tab=spans');
    await grid('Spans by name').focus();
    for (const key of ['Home', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
    assert.match(await facts(), /70 samples · 70\.0 ms/);
    assert.match(await page.innerText('.chip'), /Inside spans\s+request/);
    await page.keyboard.press('3');
    assert.match((await rows('Call tree'))[0], /^70\.0 ms \| 100\.0 %/);
    const link = await hash();
    await open('known', link.slice(1));
    assert.match(await facts(), /70 samples/, 'a link restores it');
  });

  test('the table follows the time and the threads', async () => {
    await open('known', `tab=spans&b=${(90e6).toString(36)}-${(100e6).toString(36)}`);
    assert.deepEqual(await column('Spans by name', 0), ['everything', 'job']);
    assert.equal((await column('Spans by name', 7))[0], '10.0 ms');
    await open('known', 'tab=spans&t=0');
    assert.deepEqual(await column('Spans by name', 0), ['everything', 'request']);
    assert.equal((await column('Spans by name', 7))[0], '90.0 ms', 'of the selected thread only');
  });

  test('sorts', async () => {
    await open('known', 'tab=spans');
    await grid('Spans by name').getByRole('button', { name: 'Count' }).click();
    assert.equal((await column('Spans by name', 0))[0], 'request');
  });

  test('without spans it says how to add some', async () => {
    await open('plain', 'tab=spans');
    assert.match(await page.innerText('.spans'), /whyslow-mark/);
  });
});

describe('a main thread that waits for its pool', () => {
  const openPool = (hash = '', settings = {}) => opened.open(pageOf('pool', pool), `#${hash}`, { viewport: { width: 1300, height: 850 }, ...settings });

  test('filtered to its span it says that other threads have samples, and offers all threads', async () => {
    await openPool('s=o0');
    assert.match(await facts(), /· 0 samples ·/);
    assert.match(await page.innerText('.flame-empty'), /own thread has no samples inside/);
    await page.getByRole('button', { name: 'Show all threads' }).click();
    await settled();
    assert.match(await facts(), /· 80 samples ·/);
    assert.match(await page.textContent('.chip'), /Inside span, all threads job/);
    assert.match(await hash(), /s=O0/);
    await page.keyboard.press('u');
    await settled();
    assert.match(await facts(), /· 0 samples ·/);
    for (const tab of ['functions', 'tree']) {
      await openPool(`s=n0&tab=${tab}`);
      await page.locator('#panel').getByRole('button', { name: 'Show all threads' }).click();
      assert.match(await facts(), /· 80 samples ·/);
    }
    await openPool('s=o5');
    assert.match(await page.innerText('.flame-empty'), /own thread has no samples/, 'the helper runs then');
    await openPool(`s=o5&b=${(91e6).toString(36)}-${(92e6).toString(36)}&t=3`);
    assert.match(await page.innerText('.flame-empty'), /No samples selected/, 'the selected thread has no samples');
  });

  test('the table has both, and the choice applies to the next filter', async () => {
    await openPool('tab=spans');
    const row = (await rows('Spans by name')).find(row => row.startsWith('job'));
    assert.match(row, /\| 0 ns \| 80\.0 ms$/);
    await page.getByRole('button', { name: 'all threads', exact: true }).click();
    await doubleClick(rowWith('Spans by name', 'job'));
    assert.match(await facts(), /· 80 samples ·/);
    await page.getByRole('button', { name: 'its thread' }).click();
    assert.match(await facts(), /· 0 samples ·/);
  });

  test('spans are below their thread, overlapping ones in separate lanes', async () => {
    await openPool();
    const labels = await page.locator('.track').evaluateAll(tracks => tracks.map(track => `${track.querySelector('.track-name').textContent} ${track.offsetHeight}`));
    assert.deepEqual(labels, ['memory 30', 'Spans 20', 'pool 21', 'worker 8 26', 'spans 44', 'worker 11 26', 'main 26', 'spans 20', 'sleeper 26', 'other 9 · helper 26']);
    // The third lane of the first worker has only `c`, from 20 to 50 ms.
    const tracks = await page.locator('.timeline-window canvas').boundingBox();
    const spans = await page.locator('.track.inside').first().boundingBox();
    await page.mouse.click(tracks.x + tracks.width * .3, spans.y + 4 + 12 * 2.5);
    await settled();
    assert.match(await page.textContent('.brushed'), /30\.0 ms/);
    // Collapsed, they are one line.
    await page.locator('.track.inside').first().locator('.track-twisty').click();
    await settled();
    assert.equal(await page.locator('.track.inside').first().evaluate(track => track.offsetHeight), 20);
  });

  test('tracks can be hidden and processes collapsed; the address keeps it', async () => {
    await openPool();
    const names = () => page.locator('.track .track-name').allTextContents();
    const box = name => page.getByRole('checkbox', { name });
    await page.locator('.track-chooser summary').click();
    await box('memory').uncheck();
    await box('Spans').uncheck();
    await box('Threads without samples').uncheck();
    await settled();
    assert.deepEqual(await names(), ['pool', 'worker 8', 'worker 11', 'main', 'other 9 · helper']);
    await box('Threads of pool 7').uncheck();
    await settled();
    assert.deepEqual(await names(), ['pool', 'other 9 · helper']);
    await page.keyboard.press('Escape');
    assert.equal(await page.locator('.track-chooser[open]').count(), 0);
    const link = await hash();
    await openPool(link.slice(1));
    assert.deepEqual(await names(), ['pool', 'other 9 · helper']);
    await page.locator('.track.process .track-twisty').first().click();
    await settled();
    assert.deepEqual(await names(), ['pool', 'worker 8', 'worker 11', 'main', 'other 9 · helper']);
    await page.locator('.track.thread', { hasText: 'main' }).click();
    await page.locator('.track-chooser summary').click();
    await box('Unselected threads').uncheck();
    await settled();
    assert.deepEqual(await names(), ['pool', 'main']);
    await page.getByRole('button', { name: 'Reset' }).click();
    await settled();
    assert.equal((await names()).length, 10);
  });

  test('threads that share a name show their number; shares are of the selected time', async () => {
    await openPool();
    const shares = () => page.locator('.track.thread').evaluateAll(tracks => Object.fromEntries(tracks.map(track => [track.querySelector('.track-name').textContent, track.querySelector('.track-value').textContent])));
    assert.deepEqual(await shares(), { 'worker 8': '40.0 %', 'worker 11': '40.0 %', main: '10.0 %', sleeper: '0.00 %', 'other 9 · helper': '10.0 %' });
    await openPool(`b=${(10e6).toString(36)}-${(60e6).toString(36)}`);
    assert.deepEqual(await shares(), { 'worker 8': '80.0 %', 'worker 11': '20.0 %', main: '0.00 %', sleeper: '0.00 %', 'other 9 · helper': '0.00 %' });
    await openPool('s=O1');
    assert.equal((await shares())['worker 8'], '100.0 %');
  });
});
