// Spans in the viewer in a real browser: their table, and what they filter. viewer/test/known.mjs has the numbers.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { known } from '../viewer/test/known.mjs';
import * as opened from './opened.mjs';
import { column, facts, grid, hash, page, pageOf, problems, rows, rowWith } from './opened.mjs';

afterEach(() => assert.deepEqual(problems, [], 'no errors, no requests, no dialogs'));

const PROFILES = { known, plain: () => known({ spans: false, warnings: false }) };
const open = (name, hash = '', settings = {}) => opened.open(pageOf(name, PROFILES[name]), `#${hash}`, { viewport: { width: 1300, height: 850 }, ...settings });

describe('spans', () => {
  test('names with their lengths, and what is inside', async () => {
    await open('known', 'tab=spans');
    assert.deepEqual(await rows('Spans by name'), [
      'everything | 1 | 100 ms | 100 ms | 100 ms | 100 ms | 100 ms | 100 ms',
      'request | 3 | 70.0 ms | 23.3 ms | 20.0 ms | 40.0 ms | 40.0 ms | 70.0 ms',
      'job | 1 | 5.00 ms | 5.00 ms | 5.00 ms | 5.00 ms | 5.00 ms | 5.00 ms',
    ]);
    await rowWith('Spans by name', 'request').click();
    assert.deepEqual(await rows('Spans named request'), [
      '20.0 ms | 40.0 ms | 40.0 ms | main | GET /b',
      '0 ns | 20.0 ms | 20.0 ms | main | GET /a',
      '60.0 ms | 10.0 ms | 10.0 ms | main | GET /<c>',
    ]);
  });

  test('one span filters every panel; the chip leads back; undo too', async () => {
    await open('known', 'tab=spans');
    await rowWith('Spans by name', 'request').click();
    await rowWith('Spans named request', 'GET /b').dblclick();
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

  test('all spans of a name, by keyboard', async () => {
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

  test('without spans it says how to have some', async () => {
    await open('plain', 'tab=spans');
    assert.match(await page.innerText('.spans'), /whyslow-mark/);
  });
});
