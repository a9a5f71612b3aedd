// Table rows in a real browser: copying, the context menu, call sites, and opening locations in an editor.

import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { heap } from '../viewer/test/heap.mjs';
import { known } from '../viewer/test/known.mjs';
import { syscalls } from '../viewer/test/syscalls.mjs';
import * as opened from './opened.mjs';
import { brush, column, cursor, facts, grid, hoverFrame, page, pageOf, problems, rowWith, rows, settled } from './opened.mjs';

afterEach(() => assert.deepEqual(problems, [], 'no errors, no requests, no dialogs'));

const fn = { main: 0, sum: 1, add: 2, walk: 3, hash: 4, work: 5, copy: 6 };
const open = (hash = '', name = 'known', container = known) => opened.open(pageOf(name, container), `#${hash}`, { viewport: { width: 1400, height: 900 } });


test('copies rows with tabs between the cells: the selected ones, or all', async () => {
  await open('tab=functions');
  await grid('Functions').focus();
  await page.keyboard.press('ArrowDown');
  assert.equal(await copied(), 'Self\t%\tTotal\t%\tFunction\tCrate\tKind\tDefined at\n40.0 ms\t40.0 %\t40.0 ms\t40.0 %\tcore::num::add\tcore\tstd\tcore/num.rs:50');
  await page.keyboard.press('Shift+ArrowDown');
  await page.keyboard.press('Shift+ArrowDown');
  assert.equal(await grid('Functions').locator('tr[aria-selected=true]').count(), 3);
  assert.deepEqual((await copied()).split('\n').map(line => line.split('\t')[4]), ['Function', 'core::num::add', 'app::sum', 'dep::hash']);
  await page.keyboard.press('ArrowUp');
  assert.equal((await copied()).split('\n').length, 2, 'a move without Shift selects one');
  await page.keyboard.press('Control+a');
  assert.equal((await copied()).split('\n').length, 8);
  await rowWith('Functions', 'app::sum').click();
  await rowWith('Functions', 'app::walk').click({ modifiers: ['Shift'] });
  assert.equal((await copied()).split('\n').length, 4);
});

test('copies a tree with its levels', async () => {
  await open('tab=tree');
  await grid('Call tree').focus();
  await page.keyboard.press('Control+a');
  const lines = (await copied()).split('\n').map(line => line.split('\t')[4]);
  assert.deepEqual(lines.slice(0, 4), ['Function', 'app::main', '  app::sum', '    core::num::add']);
});

/** The text of the copy event, as the table wrote it. */
async function copied() {
  await page.evaluate(() => {
    window.text = undefined;
    const set = DataTransfer.prototype.setData;
    DataTransfer.prototype.setData = function (type, text) { window.text = text; set.call(this, type, text); };
  });
  await page.keyboard.press('Control+c');
  await page.waitForFunction(() => window.text !== undefined);
  return page.evaluate(() => window.text);
}

test('rows have the frames’ context menu, by pointer and keyboard', async () => {
  for (const [hash, label] of [['tab=functions', 'Functions'], ['tab=tree', 'Call tree'], [`tab=functions&fn=${fn.hash}`, 'Callers']]) {
    await open(hash);
    await rowWith(label, 'app::sum').click({ button: 'right' });
    assert.match(await page.textContent('.menu-title'), /app::sum/);
    assert.equal(await page.getByRole('menuitem', { name: /Zoom/ }).count(), 0);
    await page.getByRole('menuitem', { name: 'Focus on this function' }).click();
    await settled();
    assert.match(await facts(), /· 70\.0 ms/, label);
  }
  await open('tab=functions');
  await grid('Functions').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Shift+F10');
  await page.keyboard.press('h');
  await settled();
  assert.match(await facts(), /· 60\.0 ms/);
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Functions', 'the focus is back in the table');
  await open('tab=heap', 'heap', heap);
  await grid('Allocation sites').locator('tbody tr').first().dispatchEvent('contextmenu');
  await page.locator('.menu').waitFor();
});

test('callers, callees and the tooltip show the line of the call', async () => {
  await open(`tab=functions&fn=${fn.sum}`);
  assert.deepEqual(await column('Callers', 3), ['src/main.rs:2']);
  assert.deepEqual(await column('Callees', 4), ['core::num::add inlined', 'dep::hash']);
  assert.deepEqual(await column('Callees', 5), ['src/sum.rs:13', 'src/sum.rs:14']);
  await open(`tab=functions&fn=${fn.hash}`);
  assert.deepEqual((await column('Callers', 3)).toSorted(), ['src/main.rs:2', 'src/main.rs:31', 'src/sum.rs:14'], 'main calls sum, which calls it');
  await open();
  assert.match(await hoverFrame(.1, 2), /app::sum[^]*called at src\/main\.rs:2/);
  await open('on=inv');
  assert.match(await hoverFrame(.1, 2, true), /app::sum[^]*calls it at src\/sum\.rs:13/);
});

test('a location opens in the chosen editor, and the choice is saved', async () => {
  await open(`tab=source&fn=${fn.sum}`);
  await page.evaluate(() => { HTMLAnchorElement.prototype.click = function () { window.opened = this.href; }; });
  await page.getByRole('button', { name: 'Open in editor' }).click();
  await page.waitForSelector('dialog[open]');
  await page.getByLabel('URL').fill('javascript:alert({path})');
  assert.match(await page.textContent('#editor-wrong'), /does not open an editor/);
  assert.equal(await page.getByRole('button', { name: 'Save', exact: true }).isDisabled(), true);
  await page.locator('.editor-form select').selectOption({ label: 'Visual Studio Code' });
  await page.getByLabel('Folder for relative paths').fill('/home/me/app');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByRole('button', { name: 'Open in editor' }).click();
  assert.equal(await page.evaluate(() => window.opened), 'vscode://file/home/me/app/src/sum.rs:13');
  await page.reload();
  await page.waitForSelector('.app');
  await page.evaluate(() => { HTMLAnchorElement.prototype.click = function () { window.opened = this.href; }; });
  await page.getByRole('tab', { name: 'Functions' }).click();
  await rowWith('Callees', 'dep::hash').click({ button: 'right' });
  await page.getByRole('menuitem', { name: 'Open src/sum.rs:14' }).click();
  assert.equal(await page.evaluate(() => window.opened), 'vscode://file/home/me/app/src/sum.rs:14', 'the location of the call');
  assert.match(await cursor('Functions'), /app::sum/);
});

test('system calls: by line, with files and errors, in the selected time; Enter shows the stacks', async () => {
  await open('tab=syscalls', 'syscalls', syscalls);
  assert.deepEqual(await rows('System calls'), [
    '99.7 % | 40.0 ms | 1 |  | 40.0 ms | 40.0 ms | 40.0 ms | clock_nanosleep | calls::nap app.rs:20 | ',
    '0.26 % | 105 µs | 101 | 1.18 KiB | 1.02 µs | 1.02 µs | 5.00 µs | write | calls::write app.rs:3 | out.txt 95.2 %, log 4.76 %',
    '<0.01 % | 1.15 µs | 5 |  | 230 ns | 230 ns | 230 ns | openat | calls::open app.rs:9 | ENOENT 3',
  ]);
  assert.match(await page.textContent('#panel .status'), /^107 system calls took 40\.1 ms, including waits; 40\.0 ms of that in calls that only wait\./);
  await brush(.05, .15);
  assert.deepEqual(await column('System calls', 7), ['write']);
  await grid('System calls').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await settled();
  assert.match(await facts(), /100 µs/);
  assert.equal(await page.getByRole('tab', { name: 'Flame' }).getAttribute('aria-selected'), 'true');
});
