// The viewer's state in a real browser: in the address, undo and redo, also with the browser's own Back and
// Forward.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { small } from '../viewer/test/make-payload.mjs';
import * as opened from './opened.mjs';
import { clickFrame, crumbs, facts, hash, page, problems, settled } from './opened.mjs';

afterEach(() => assert.deepEqual(problems, [], 'no errors, no requests, no dialogs'));

const pageOf = () => opened.pageOf('small', small);
const open = (file, { hash = '' } = {}) => opened.open(file, hash);
const pressed = name => page.getByRole('button', { name, exact: true }).getAttribute('aria-pressed');
const shows = text => page.waitForFunction(text => document.querySelector('.crumbs').textContent.endsWith(text), text);

describe('a small profile', () => {
  beforeEach(() => open(pageOf()));

  test('the address restores the view', async () => {
    await clickFrame(.1, 3);
    await page.keyboard.press('l');
    await page.fill('#search', 'a b&c#d%');
    await page.locator('.track.thread', { hasText: 'main' }).click();
    await page.locator('.toolbar select').selectOption('crate');
    const link = await hash(), crumbsBefore = await crumbs(), factsBefore = await facts();
    assert.match(link, /z=/);
    await open(pageOf(), { hash: link });
    assert.deepEqual(await crumbs(), crumbsBefore);
    assert.equal(await facts(), factsBefore);
    assert.equal(await page.inputValue('#search'), 'a b&c#d%');
    assert.equal(await pressed('Inlined'), 'false');
    assert.equal(await page.inputValue('.toolbar select'), 'crate');
    assert.equal(await page.locator('.track.thread[aria-selected=true]').count(), 1);
    assert.deepEqual(problems, []);
  });

  test('an address typed into the open page is applied; nonsense is ignored', async () => {
    await page.evaluate(() => { location.hash = '#on=inv&tab=functions'; });
    await settled();
    assert.equal(await pressed('Invert'), 'true');
    assert.equal(await page.getAttribute('#tab-functions', 'aria-selected'), 'true');
    await open(pageOf(), { hash: '#m=zz&t=99.zz&r=5-1.-&x=f999999.q&z=zzz&fn=zzzzz&tab=none&c=red' });
    assert.match(await facts(), /100 samples/);
    assert.deepEqual(problems, []);
  });

  test('the first entry has its number immediately', async () => {
    // A step right after the page opens must not leave an entry without a step number behind it.
    assert.deepEqual(await page.evaluate(() => history.state), { step: 0 });
  });

  test('Back is undo, Forward is redo', async () => {
    const before = await page.evaluate(() => history.length);
    await clickFrame(.1, 1);
    await clickFrame(.1, 2);
    await page.keyboard.press('2'); // another panel is not a step
    await page.keyboard.press('1');
    await settled();
    assert.equal(await page.evaluate(() => history.length), before + 2);
    await page.goBack();
    await shows('app::main');
    await page.goBack();
    await shows('all');
    assert.equal(await page.getByRole('button', { name: 'Undo' }).isDisabled(), true);
    await page.goForward();
    await shows('app::main');
    await page.goForward();
    await shows('app::parse');
    assert.match(await hash(), /z=/);
  });

  test('undo moves the browser’s history, and a new step clears redo', async () => {
    await clickFrame(.1, 1);
    await clickFrame(.1, 2);
    await page.keyboard.press('u');
    await page.keyboard.press('u');
    await page.keyboard.press('r');
    await settled();
    await shows('app::main');
    await page.keyboard.press('u');
    await page.keyboard.press('i');
    await page.keyboard.press('i');
    await page.keyboard.press('l');
    await settled();
    assert.equal(await pressed('Inlined'), 'false');
    // The browser has reached the entry.
    await page.waitForFunction(() => history.state?.step === 3);
    await page.goBack();
    await page.waitForFunction(() => document.querySelector('[title^="Show inlined"]').getAttribute('aria-pressed') === 'true');
    assert.equal(await pressed('Invert'), 'false');
    await page.goBack();
    await page.waitForFunction(() => document.querySelector('[title^="Show callers instead"]').getAttribute('aria-pressed') === 'true');
    assert.equal(await page.getByRole('button', { name: 'Redo' }).isDisabled(), false);
  });

  test('Back works after a reload', async () => {
    await clickFrame(.1, 1);
    await clickFrame(.1, 2);
    await hash();
    await page.reload();
    await page.waitForSelector('.app');
    await shows('app::parse');
    await page.goBack();
    await shows('app::main');
    await page.goForward();
    await shows('app::parse');
  });

  test('a number key goes into its panel', async () => {
    const focused = () => page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.id);
    for (const [key, name] of [['2', /^Functions/], ['3', /^Call tree/], ['1', /^Flame graph/], ['1', /^Flame graph/], ['5', /^Stack chart/]]) {
      await page.keyboard.press(key);
      await settled();
      assert.match(await focused(), name);
    }
    await page.keyboard.press('2');
    await settled();
    await page.keyboard.press('ArrowDown');
    await settled();
    assert.equal(await page.locator('#panel tr[aria-selected=true]').count(), 1, 'its keys work immediately');
  });
});
