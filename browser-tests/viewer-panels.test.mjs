// The tables, trees, listings and charts of the viewer in a real browser, on a profile with known numbers.
//
// viewer/test/known.mjs says where each number comes from. The page is opened over file:// with the network
// denied.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { known } from '../viewer/test/known.mjs';
import { deep, hostile, Payload } from '../viewer/test/make-payload.mjs';
import * as opened from './opened.mjs';
import { column, cursor, facts, grid, hash, page, pageOf, problems, rows, rowWith, undo } from './opened.mjs';

afterEach(() => assert.deepEqual(problems, [], 'no errors, no requests, no dialogs'));

/** 100,000 functions, each with one sample, called by one. */
function many() {
  const p = new Payload();
  const thread = p.thread(p.process(1, 'many'), 1, 'main');
  p.metric('cpu', 1);
  const root = p.stack(0xffffffff, p.location(0xffffffff, 0, [[p.fn('many::main', 'many'), undefined, 0]]));
  for (let n = 0; n < 100_000; n++) {
    const fn = p.fn(`many::function_${String(n).padStart(6, '0')}`, 'many', 'yours', 'src/lib.rs', n + 1);
    p.sample(0, n * 1000, thread, p.stack(root, p.location(0xffffffff, n + 1, [[fn, 'src/lib.rs', n + 1]])), n + 1);
  }
  return p.container();
}

const PROFILES = { known, plain: () => known({ spans: false, warnings: false }), deep, hostile, many };

const open = (name, hash = '', settings = {}) => opened.open(pageOf(name, PROFILES[name]), `#${hash}`, { viewport: { width: 1300, height: 850 }, ...settings });
const fn = { main: 0, sum: 1, add: 2, walk: 3, hash: 4, work: 5, copy: 6 };

describe('functions', () => {
  test('self and total of every function, recursion counted once', async () => {
    await open('known', 'tab=functions');
    assert.deepEqual(await rows('Functions'), [
      '40.0 ms | 40.0 % | 40.0 ms | 40.0 % | core::num::add | core | std | core/num.rs:50',
      '20.0 ms | 20.0 % | 70.0 ms | 70.0 % | app::sum | app | your code | src/sum.rs:10',
      '20.0 ms | 20.0 % | 20.0 ms | 20.0 % | dep::hash | dep | dependency | dep/hash.rs:3',
      '10.0 ms | 10.0 % | 20.0 ms | 20.0 % | app::walk | app | your code | src/walk.rs:5',
      '10.0 ms | 10.0 % | 10.0 ms | 10.0 % | memcpy | | runtime |'.trim(),
      ' | | 90.0 ms | 90.0 % | app::main | app | your code | src/main.rs:1',
      ' | | 10.0 ms | 10.0 % | app::work | app | your code | src/main.rs:30',
    ].map(row => row.replace('10.0 % | memcpy | | runtime |', '10.0 % | memcpy |  | runtime | ').replace(/^ \| \|/, ' |  |')));
  });

  test('every column sorts, both ways, and the address keeps it', async () => {
    await open('known', 'tab=functions');
    const heading = name => grid('Functions').getByRole('button', { name }).first();
    await heading('Total').click();
    assert.deepEqual((await column('Functions', 4)).slice(0, 3), ['app::main', 'app::sum', 'core::num::add']);
    await heading('Total').click();
    assert.equal((await column('Functions', 4)).at(-1), 'app::main');
    await heading('Function').click();
    assert.deepEqual(await column('Functions', 4), ['app::main', 'app::sum', 'app::walk', 'app::work', 'core::num::add', 'dep::hash', 'memcpy']);
    assert.equal(await grid('Functions').locator('th[aria-sort]').getAttribute('aria-sort'), 'ascending');
    await heading('Crate').click();
    await heading('Crate').click();
    assert.deepEqual((await column('Functions', 5)), ['dep', 'core', 'app', 'app', 'app', 'app', ''], 'unknown values remain last');
    for (const name of ['Kind', 'Defined at']) await heading(name).click();
    assert.equal((await column('Functions', 7))[0], 'core/num.rs:50');
    assert.match(await hash(), /p\.functions-sort=place/);
  });

  test('the search filters, as text and as a regular expression', async () => {
    await open('known', 'tab=functions');
    await page.keyboard.press('/');
    await page.keyboard.type('APP::w');
    assert.deepEqual(await column('Functions', 4), ['app::walk', 'app::work']);
    assert.match(await page.innerText('.functions .status'), /2 functions match/);
    await page.fill('#search', 'sum|hash$');
    await page.getByRole('button', { name: 'Regular expression' }).click();
    assert.deepEqual(await column('Functions', 4), ['app::sum', 'dep::hash']);
    await page.fill('#search', '(');
    assert.equal((await rows('Functions')).length, 7);
  });

  test('the keyboard moves the selection, Enter opens the source', async () => {
    await open('known', 'tab=functions');
    await grid('Functions').focus();
    await page.keyboard.press('ArrowDown');
    assert.match(await cursor('Functions'), /core::num::add/);
    await page.keyboard.press('End');
    assert.match(await cursor('Functions'), /app::work/);
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowDown');
    assert.match(await cursor('Functions'), /app::sum/);
    const active = await grid('Functions').getAttribute('aria-activedescendant');
    assert.match(await page.locator(`[id="${active}"]`).innerText(), /app::sum/);
    assert.match(await page.innerText('.sandwich .tools'), /app::sum/);
    await page.keyboard.press('Enter');
    assert.match(await page.innerText('.source .tools'), /app::sum/);
    assert.match(await hash(), /tab=source/);
  });

  test('100,000 rows: few are rendered, the last is reachable', async () => {
    await open('many', 'tab=functions');
    assert.equal(await grid('Functions').getAttribute('aria-rowcount'), '100002');
    assert.ok((await rows('Functions')).length < 120);
    await grid('Functions').focus();
    await page.keyboard.press('End');
    await page.waitForFunction(() => document.querySelector('#panel table tr[aria-selected=true]'));
    assert.match(await cursor('Functions'), /many::main/, 'without self time it is the last');
    assert.equal(await grid('Functions').locator('tr[aria-selected=true]').getAttribute('aria-rowindex'), '100002');
  });
});

describe('sandwich', () => {
  test('callers above and callees below add up to the function', async () => {
    await open('known', `tab=functions&fn=${fn.sum}`);
    assert.match(await page.innerText('.sandwich .figures'), /self 20\.0 ms 20\.0 %\s+total 70\.0 ms 70\.0 %/);
    assert.deepEqual(await rows('Callers'), ['70.0 ms | 70.0 % | app::main | src/main.rs:2']);
    assert.deepEqual((await rows('Callees')).map(row => row.replace(/[▾▸]\s*/, '')), [
      '40.0 ms | 40.0 % | 40.0 ms | 40.0 % | core::num::add inlined | src/sum.rs:13',
      '10.0 ms | 10.0 % | 10.0 ms | 10.0 % | dep::hash | src/sum.rs:14',
    ]);
  });

  test('recursion counts for the outermost caller and the innermost callee', async () => {
    await open('known', `tab=functions&fn=${fn.walk}`);
    assert.deepEqual(await rows('Callers'), ['20.0 ms | 20.0 % | app::main | src/main.rs:3']);
    assert.deepEqual(await rows('Callees'), ['10.0 ms | 10.0 % | 10.0 ms | 10.0 % | memcpy | src/walk.rs:7']);
  });

  test('a click goes to the function, Back returns', async () => {
    await open('known', `tab=functions&fn=${fn.hash}`);
    assert.deepEqual((await column('Callers', 2)).map(name => name.replace(/[▾▸]\s*/, '')).filter(name => name !== 'app::main').sort(), ['app::sum', 'app::work']);
    await rowWith('Callers', 'app::sum').click();
    assert.match(await page.innerText('.sandwich .tools'), /app::sum/);
    assert.match(await cursor('Functions'), /app::sum/);
    await page.getByRole('button', { name: 'Back' }).click();
    assert.match(await page.innerText('.sandwich .tools'), /dep::hash/);
    await grid('Callers').focus();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    assert.match(await page.innerText('.sandwich .tools'), /app::(sum|work)/);
  });

  test('focus, hide and merge change every number and can be undone', async () => {
    await open('known', `tab=functions&fn=${fn.walk}`);
    await page.getByRole('button', { name: 'Focus', exact: true }).click();
    assert.deepEqual(await column('Functions', 4), ['app::walk', 'memcpy']);
    await undo();
    assert.equal((await rows('Functions')).length, 7);
    await page.getByRole('button', { name: 'Hide', exact: true }).click();
    assert.equal((await column('Functions', 4)).includes('app::walk'), false);
    assert.match(await facts(), /80\.0 ms/);
    await undo();
    await page.getByRole('button', { name: 'Merge', exact: true }).click();
    assert.match((await rows('Functions')).find(row => row.includes('app::main')), /^10\.0 ms/);
  });

  test('f, h and m do the same on a row', async () => {
    await open('known', 'tab=functions');
    await rowWith('Functions', 'app::walk').click();
    await grid('Functions').focus();
    await page.keyboard.press('f');
    assert.deepEqual(await column('Functions', 4), ['app::walk', 'memcpy']);
    await undo();
    await page.keyboard.press('3');
    await grid('Call tree').focus();
    for (const key of ['Home', 'ArrowDown', 'h']) await page.keyboard.press(key);
    assert.equal((await rows('Call tree')).some(row => row.includes('app::sum')), false);
  });
});

describe('call tree', () => {
  const names = async () => (await rows('Call tree')).map(row => row.split(' | ')[4].replace(/^[▾▸]\s*/, ''));

  test('the heaviest path is expanded, recursion is one row', async () => {
    await open('known', 'tab=tree');
    assert.deepEqual((await rows('Call tree')).map(row => row.replace(/[▾▸]\s*/, '')), [
      '90.0 ms | 90.0 % |  |  | app::main | src/main.rs:1',
      '70.0 ms | 70.0 % | 20.0 ms | 20.0 % | app::sum | src/sum.rs:10',
      '40.0 ms | 40.0 % | 40.0 ms | 40.0 % | core::num::add inlined | core/num.rs:50',
      '10.0 ms | 10.0 % | 10.0 ms | 10.0 % | dep::hash | dep/hash.rs:3',
      '20.0 ms | 20.0 % | 10.0 ms | 10.0 % | app::walk ×3 | src/walk.rs:5',
      '10.0 ms | 10.0 % |  |  | app::work | src/main.rs:30',
    ]);
  });

  test('the keyboard expands, collapses, and steps in and out', async () => {
    await open('known', 'tab=tree');
    await grid('Call tree').focus();
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowLeft');
    assert.deepEqual(await names(), ['app::main', 'app::work']);
    await page.keyboard.press('*');
    assert.deepEqual(await names(), ['app::main', 'app::sum', 'core::num::add inlined', 'dep::hash', 'app::walk ×3', 'memcpy', 'app::work']);
    await page.keyboard.press('End');
    await page.keyboard.press('Enter');
    assert.equal((await names()).length, 8, 'Enter expands');
    await page.keyboard.press('ArrowRight');
    assert.match(await cursor('Call tree'), /dep::hash/);
    await page.keyboard.press('ArrowLeft');
    assert.match(await cursor('Call tree'), /app::work/);
    const row = grid('Call tree').locator('tr[aria-selected=true]');
    assert.deepEqual([await row.getAttribute('aria-level'), await row.getAttribute('aria-expanded'), await row.getAttribute('aria-setsize')], ['1', 'true', '2']);
  });

  test('inverted: self time, then callers', async () => {
    await open('known', 'tab=tree');
    await page.getByRole('button', { name: 'Inverted' }).click();
    const shown = (await rows('Call tree, inverted')).map(row => row.replace(/[▾▸]\s*/, ''));
    assert.deepEqual(shown.slice(0, 4), [
      '40.0 ms | 40.0 % | core::num::add inlined | core/num.rs:50',
      '40.0 ms | 40.0 % | app::sum | src/sum.rs:10',
      '40.0 ms | 40.0 % | app::main | src/main.rs:1',
      '20.0 ms | 20.0 % | app::sum | src/sum.rs:10',
    ]);
    await undo();
    assert.equal(await grid('Call tree').count(), 1, 'undone');
  });

  test('expanded rows remain expanded when the time changes', async () => {
    await open('known', 'tab=tree');
    const before = await names();
    assert.deepEqual(before.slice(0, 3), ['app::main', 'app::sum', 'core::num::add inlined']);
    await page.evaluate(() => { location.hash = `tab=tree&b=${(60e6).toString(36)}-${(80e6).toString(36)}`; });
    await page.waitForFunction(() => document.querySelector('.facts').innerText.includes('20.0 ms'));
    assert.deepEqual((await rows('Call tree')).map(row => row.replace(/[▾▸]\s*/, '')), [
      '20.0 ms | 100.0 % |  |  | app::main | src/main.rs:1',
      '10.0 ms | 50.0 % |  |  | app::sum | src/sum.rs:10',
      '10.0 ms | 50.0 % | 10.0 ms | 50.0 % | dep::hash | dep/hash.rs:3',
      '10.0 ms | 50.0 % |  |  | app::walk ×3 | src/walk.rs:5',
    ]);
  });

  test('the search goes from match to match and expands the path', async () => {
    await open('known', 'tab=tree');
    await grid('Call tree').focus();
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowLeft');
    assert.equal((await names()).length, 2);
    await page.fill('#search', 'memcpy|hash');
    await page.getByRole('button', { name: 'Regular expression' }).click();
    await page.getByRole('button', { name: 'Next match' }).click();
    assert.match(await cursor('Call tree'), /dep::hash|memcpy/);
    const seen = new Set();
    for (let step = 0; step < 3; step++) {
      seen.add(await grid('Call tree').locator('tr[aria-selected=true]').getAttribute('aria-level') + await grid('Call tree').locator('tr[aria-selected=true]').innerText());
      await page.getByRole('button', { name: 'Next match' }).click();
    }
    assert.equal(seen.size, 3, [...seen].join('\n'));
    assert.ok(await grid('Call tree').locator('tr.match').count() >= 3);
  });

  test('10,000 calls deep', async () => {
    await open('deep', 'tab=tree');
    assert.match((await rows('Call tree'))[0], /deep::recurse ×10000/);
    await grid('Call tree').focus();
    await page.keyboard.press('End');
    await page.keyboard.press('*');
    assert.ok((await rows('Call tree')).some(row => /2 functions ×5000/.test(row)), (await rows('Call tree')).join('\n'));
  });
});

describe('source and code', () => {
  test('lines, inlined files and instructions have their shares', async () => {
    await open('known', `tab=source&fn=${fn.sum}`);
    assert.match(await page.innerText('.source .figures'), /self 20\.0 ms 20\.0 %\s+total 70\.0 ms 70\.0 %/, 'as in Functions');
    const lines = (await rows('Source lines')).map(row => row.trim());
    assert.deepEqual(lines.filter(line => line.includes('%')), [
      '28.6 % | 28.6 % | 20.0 ms | 12 | for item in items {',
      '| 57.1 % | 40.0 ms | 13 | total = add(total, *item);',
      '| 14.3 % | 10.0 ms | 14 | if seen(hash(item)) { continue }',
    ]);
    assert.equal(lines.length, 8);
    assert.match(await cursor('Source lines'), /total = add/, 'the hottest line is the first');
    assert.deepEqual(await page.locator('.files button').allInnerTexts(), ['src/sum.rs 100.0 %', 'core/num.rs 57.1 %']);
    assert.deepEqual((await rows('Instructions')).map(row => row.trim()), [
      '|  |  | 2000 |  | push rbp |',
      '28.6 % | 28.6 % | 20.0 ms | 2004 | • | mov rax, [rdi] | sum.rs:12',
      '57.1 % | 57.1 % | 40.0 ms | 2008 |  | add rbx, rax | num.rs:52',
      '| 14.3 % | 10.0 ms | 200c |  | call dep::hash | sum.rs:14',
      '|  |  | 2010 | ↑ | jne 0x2004 <+0x4> |',
      '|  |  | 2014 |  | ret |',
    ]);
  });

  test('draws loops, jumps go to their targets, and a hint highlights its instructions', async () => {
    await open('known', `tab=source&fn=${fn.sum}`);
    const drawn = await grid('Instructions').locator('tbody tr').evaluateAll(rows => rows.map(row => row.querySelector('.lanes i')?.className));
    assert.deepEqual(drawn, ['', 'first', 'in', 'in', 'last', '']);
    assert.match(await rowWith('Instructions', 'add rbx').locator('.lanes').getAttribute('title'), /^L1: self 85\.7 %, total 100\.0 % of the function$/);
    await rowWith('Instructions', 'jne').locator('button').click();
    assert.match(await cursor('Instructions'), /2004/);
    await rowWith('Instructions', 'jne').click();
    await page.keyboard.press('Enter');
    assert.match(await cursor('Instructions'), /2004/, 'by the keyboard');
    const hint = page.locator('.hints button');
    assert.equal((await hint.innerText()).replace(/\s+/g, ' '), 'call-in-loop in L1, 100.0 % The loop calls <b>dep::hash</b>. Hash once.');
    await hint.click();
    assert.deepEqual(await grid('Instructions').locator('tr.shows-hint').allInnerTexts().then(texts => texts.map(text => /call dep::hash/.test(text))), [true]);
    assert.match(await cursor('Instructions'), /200c/);
    await hint.click();
    assert.equal(await grid('Instructions').locator('tr.shows-hint').count(), 0);
  });

  test('inlined code is shown in its own file', async () => {
    await open('known', `tab=source&fn=${fn.sum}`);
    await page.locator('.files button', { hasText: 'num.rs' }).click();
    assert.match((await rows('Source lines')).find(row => row.includes('a + b')), /57\.1 % \| 57\.1 % \| 40\.0 ms \| 52/);
    await open('known', `tab=source&fn=${fn.add}`);
    assert.match((await rows('Source lines')).find(row => row.includes('a + b')), /100\.0 % \| 100\.0 %/);
    assert.match((await rows('Instructions'))[2], /^100\.0 %/, 'the code it was inlined into');
  });

  test('. and , step through the hot lines of all files', async () => {
    await open('known', `tab=source&fn=${fn.sum}`);
    await grid('Source lines').focus();
    for (const [key, text] of [['.', 'a + b'], ['.', 'for item'], ['.', 'seen(hash'], ['.', 'total = add'], [',', 'seen(hash']]) {
      await page.keyboard.press(key);
      assert.ok((await cursor('Source lines')).includes(text), `${key} → ${text}`);
    }
    await page.locator('#tab-source').focus();
    await page.keyboard.press(',');
    assert.match(await cursor('Source lines'), /for item/, 'from anywhere');
    await page.keyboard.press('.');
    await page.getByRole('button', { name: 'Next hot line' }).click();
    assert.match(await cursor('Source lines'), /total = add/);
  });

  test('lines and instructions highlight each other', async () => {
    await open('known', `tab=source&fn=${fn.sum}`);
    await rowWith('Source lines', 'for item').hover();
    assert.deepEqual(await grid('Instructions').locator('tr.linked').allInnerTexts().then(texts => texts.map(text => /2004/.test(text))), [true]);
    await rowWith('Instructions', 'call dep::hash').hover();
    assert.match(await grid('Source lines').locator('tr.linked').innerText(), /seen\(hash/);
    await rowWith('Instructions', 'add rbx').click();
    assert.match(await cursor('Source lines'), /a \+ b/, 'goes to the file of the inlined line');
  });

  test('says why there is no source or code, and what to do', async () => {
    await open('known', `tab=source&fn=${fn.copy}`);
    assert.match(await page.innerText('.source .halves'), /no line numbers.*line-tables-only/s);
    await open('known', `tab=source&fn=${fn.hash}`);
    assert.match(await page.innerText('.source .halves'), /does not contain the source of dep\/hash\.rs/);
    assert.match(await page.innerText('.source .halves'), /only for the hottest functions/);
    await open('known', `tab=source&fn=${fn.copy}&b=0-${(1e6).toString(36)}`);
    assert.match(await page.innerText('.source .halves'), /No selected sample/);
    await open('known', 'tab=source');
    assert.match(await page.innerText('.source .tools'), /self \d/, 'the hottest function');
  });
});

describe('stack chart', () => {
  const boxRows = () => rows('Stack chart as a table');

  test('an unchanged frame is one box', async () => {
    await open('known', 'tab=chart');
    const boxes = await boxRows();
    assert.ok(boxes.includes('app::sum | 2 | 0 ns | 70.0 ms'), boxes.join('\n'));
    assert.ok(boxes.includes('core::num::add | 3 | 20.0 ms | 40.0 ms'));
    assert.ok(boxes.includes('app::walk | 2 | 70.0 ms | 20.0 ms'));
    assert.ok(boxes.includes('memcpy | 5 | 70.0 ms | 10.0 ms'));
  });

  test('another thread, zoom of the shown time, undo', async () => {
    await open('known', 'tab=chart');
    await page.locator('.chart select').selectOption({ label: 'worker · known 11' });
    assert.deepEqual(await boxRows(), ['app::work | 1 | 90.0 ms | 10.0 ms', 'dep::hash | 2 | 90.0 ms | 10.0 ms']);
    await page.locator('.chart select').selectOption({ label: 'main · known 10' });
    await page.locator('.chart canvas').focus();
    for (const key of ['+', '+', '+', 'ArrowRight']) await page.keyboard.press(key);
    assert.match(await hash(), /&r=/);
    const selected = await facts();
    assert.doesNotMatch(selected, /100 samples/);
    await undo();
    assert.match(await facts(), /100 samples/);
  });

  test('the wheel zooms, dragging pans, a click selects, hovering shows a tooltip', async () => {
    await open('known', 'tab=chart');
    const canvas = page.locator('.chart canvas');
    const box = await canvas.boundingBox();
    const at = (ms, row) => [box.x + box.width * ms / 100, box.y + 20 + row * 18 + 8];
    await page.mouse.move(...at(40, 2));
    assert.match(await page.innerText('.chart-tip'), /core::num::add\s+40\.0 ms from 20\.0 ms/);
    await page.mouse.click(...at(40, 1));
    assert.match(await hash(), new RegExp(`fn=${fn.sum}`));
    await page.mouse.wheel(0, -400);
    await page.waitForFunction(() => !document.querySelector('.chart .tools').innerText.includes('0 ns – 100 ms'));
    const zoomed = await page.innerText('.chart .figures');
    await page.mouse.down();
    await page.mouse.move(box.x + 100, box.y + 60, { steps: 4 });
    await page.mouse.up();
    await page.waitForFunction(before => document.querySelector('.chart .figures').innerText !== before, zoomed);
    await page.getByRole('button', { name: 'Whole recording' }).click();
    assert.match(await page.innerText('.chart .figures'), /0 ns – 100 ms/);
  });

  test('10,000 frames deep', async () => {
    await open('deep', 'tab=chart');
    assert.match(await page.innerText('.chart-rows'), /of 10000/);
    await page.locator('.chart canvas').focus();
    await page.keyboard.press('End');
    assert.match(await page.innerText('.chart-rows'), /– 10000 of 10000/);
  });
});

describe('quality', () => {
  test('grade, counts, each warning with its fix', async () => {
    await open('known', 'tab=quality');
    const text = await page.innerText('.quality');
    assert.match(text, /poor/i);
    assert.match(text, /30 samples were lost\s+Do: Record with a larger buffer/);
    assert.match(text, /The clock is <b>slow<\/b>/);
    assert.match(text, /Lost samples\s+30/);
    assert.match(text, /997 samples per second/);
  });

  test('a banner above every panel while something is wrong, and none otherwise', async () => {
    await open('known', 'tab=functions');
    assert.match(await page.innerText('.quality-banner'), /Quality: poor\s+30 samples were lost/);
    await page.getByRole('button', { name: /What to do/ }).click();
    assert.match(await page.innerText('.quality'), /larger buffer/);
    await open('plain', 'tab=functions');
    assert.equal(await page.locator('.quality-banner').count(), 0);
  });
});

describe('every panel', () => {
  test('follows the metric, in its unit', async () => {
    await open('known', 'tab=functions');
    await page.locator('.metric select').selectOption({ label: 'allocated' });
    assert.deepEqual((await rows('Functions')).slice(0, 2), [
      '3.00 MiB | 75.0 % | 3.00 MiB | 75.0 % | memcpy |  | runtime | ',
      '1.00 MiB | 25.0 % | 1.00 MiB | 25.0 % | app::sum | app | your code | src/sum.rs:10',
    ]);
    await page.keyboard.press('3');
    assert.match((await rows('Call tree'))[0], /^4\.00 MiB/);
    await page.keyboard.press('6');
    assert.equal((await column('Spans by name', 7))[0], '4.00 MiB');
    await page.locator('.metric select').selectOption({ label: 'page faults' });
    await page.keyboard.press('2');
    assert.match((await rows('Functions'))[0], /^1,500 \| 100\.0 %/);
    await open('known', `tab=source&m=1&fn=${fn.sum}`);
    assert.match((await rows('Source lines')).join('\n'), /100\.0 % \| 100\.0 % \| 1\.00 MiB \| 12/);
  });

  test('follows the time and thread selection', async () => {
    await open('known', `tab=functions&b=0-${(20e6).toString(36)}`);
    assert.deepEqual(await column('Functions', 4), ['app::sum', 'app::main']);
    await open('known', 'tab=functions&t=1');
    assert.deepEqual(await column('Functions', 4), ['dep::hash', 'app::work']);
    await open('known', `tab=source&fn=${fn.sum}&b=0-${(20e6).toString(36)}`);
    assert.deepEqual((await rows('Source lines')).filter(row => row.includes('%')), ['100.0 % | 100.0 % | 20.0 ms | 12 | for item in items {']);
  });

  test('all panels share the selected function', async () => {
    await open('known', 'tab=tree');
    await rowWith('Call tree', 'app::walk').click();
    await page.keyboard.press('2');
    assert.match(await cursor('Functions'), /app::walk/);
    await page.keyboard.press('4');
    assert.match(await page.innerText('.source .tools'), /app::walk/);
  });

  test('shows hostile names as text, cut to a bounded length', async () => {
    await open('hostile', 'tab=functions');
    for (const tab of ['functions', 'tree', 'source', 'chart', 'spans', 'quality']) {
      for (const of of tab === 'quality' ? [0] : [0, 1, 3, 4, 5]) {
        await page.evaluate(hash => { location.hash = hash; }, `tab=${tab}&fn=${of.toString(36)}`);
        await page.waitForFunction(tab => document.querySelector(`#tab-${tab}[aria-selected=true]`), tab);
        assert.equal(await page.locator('#panel script, #panel img, #panel b:has(script)').count(), 0);
        const inPanel = await page.$$eval('#panel *', all => Math.max(0, ...all.flatMap(element => [
          element.title?.length ?? 0, ...[...element.childNodes].filter(node => node.nodeType === 3).map(node => node.data.length)])));
        assert.ok(inPanel <= 4000, `${tab}: a text of ${inPanel} letters`);
        assert.doesNotMatch(await page.innerText('#panel'), /[\u202a-\u202e\u0000-\u0008\u001b]/);
      }
    }
  });

  test('has tables for screen readers, and works in the dark theme', async () => {
    await open('known', `tab=functions&theme=dark&fn=${fn.sum}`);
    for (const [tab, roles] of [['2', ['grid', 'treegrid']], ['3', ['treegrid']], ['4', ['grid']], ['6', ['grid']]]) {
      await page.keyboard.press(tab);
      for (const role of roles) {
        const tables = page.locator(`#panel table[role=${role}]`);
        assert.ok(await tables.count() > 0, `${tab} ${role}`);
        assert.ok(await tables.first().getAttribute('aria-rowcount'));
        assert.ok(await tables.first().locator('th[scope=col]').count() > 0);
      }
    }
  });
});
