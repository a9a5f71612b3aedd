// Folding in a real browser: the flame graph opens on the user's code, whole stacks are one click away, and
// "Only your code" applies to every panel.

import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { executor } from '../viewer/test/make-payload.mjs';
import { clickFrame, column, crumbs, found, hash, hoverFrame, open, page, pageOf, problems, rows, settled, tip } from './opened.mjs';

const press = async name => { await page.getByRole('button', { name, exact: true }).click(); await settled(); };
const key = async name => { await page.keyboard.press(name); await settled(); };
const openTab = async name => { await page.getByRole('tab', { name, exact: true }).click(); await settled(); };

describe('a profile of an executor', () => {
  beforeEach(() => open(pageOf('executor', executor)));

  test('opens with the work two rows above the root', async () => {
    assert.match(await hoverFrame(.1, 1), /^\[thread start, rayon: 13 frames\][^]*total 8\.40 ms, 84\.0 %[^]*press w for whole stacks/);
    assert.match(await hoverFrame(.1, 2), /^app::render[^]*80\.0 %/);
    await clickFrame(.1, 1);
    assert.deepEqual(await crumbs(), ['all', '[thread start, rayon: 13 frames]']);
    assert.deepEqual(problems, []);
  });

  test('whole stacks are one click away, and undo folds them again', async () => {
    await press('Whole stacks');
    assert.match(await hoverFrame(.1, 1), /^clone3/);
    assert.match(await hash(), /on=whole/);
    await key('u');
    assert.match(await hoverFrame(.1, 1), /^\[thread start/);
    await key('w');
    assert.match(await hoverFrame(.1, 1), /^clone3/);
  });

  test('recursion is one row with a count', async () => {
    await page.locator('#search').fill('visit');
    assert.match(await found(), /4\.00 % matched/);
    assert.match(await hoverFrame(.97, 4), /^app::visit \(×30\)/);
  });

  test('searching for a folded function finds its row', async () => {
    await page.locator('#search').fill('join::join');
    await settled();
    assert.match(await found(), /1 match ·/);
    await page.keyboard.press('Enter');
    await settled();
    assert.match(await tip(), /^\[thread start, rayon: 13 frames\]/);
  });

  test('the call tree folds the same frames, and shows whole stacks', async () => {
    await openTab('Call tree');
    const names = await column('Call tree', 4);
    assert.equal(names[0], '▾[thread start, rayon: 13 frames]');
    assert.match(names[1], /app::render/);
    await press('Whole stacks');
    assert.match((await column('Call tree', 4))[0], /clone3/);
  });

  test('only your code, in every panel', async () => {
    await press('Only your code');
    assert.match(await hoverFrame(.1, 1), /^app::render/);
    assert.match(await hoverFrame(.995, 1), /^\[not in your code\][^]*2\.00 %/);
    assert.match(await hash(), /on=own/);
    await openTab('Functions');
    const functions = await rows('Functions');
    assert.equal(functions.length, 8);
    assert.ok(functions.some(row => /^400 µs \| 4\.00 % .*app::tone/.test(row)), functions.join('\n'));
    await page.getByText('app::tone').first().click();
    await settled();
    assert.deepEqual(await column('Callers', 2), ['app::shade']);
    await openTab('Source');
    assert.match(await page.locator('#panel .figures').innerText(), /self 400 µs/);
    await openTab('Call tree');
    assert.ok((await column('Call tree', 4)).every(name => /app::|not in your code/.test(name)));
    await openTab('Stack chart');
    await openTab('Flame');
    await key('u');
    assert.match(await hoverFrame(.1, 1), /^\[thread start/);
    assert.deepEqual(problems, []);
  });

  test('frames by name or by weight', async () => {
    assert.match(await hoverFrame(.9, 1), /^\[start-up: 3 frames\]/);
    await press('By name');
    assert.match(await hoverFrame(.1, 1), /^\[start-up: 3 frames\]/);
    assert.match(await hash(), /on=name/);
  });
});
