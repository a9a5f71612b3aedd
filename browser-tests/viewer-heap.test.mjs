// A heap in the viewer, in a real browser: its panel, live bytes at any time, and the timeline. viewer/test/heap.mjs has the numbers.
//
// The pages are opened over file:// with the network denied.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { heap } from '../viewer/test/heap.mjs';
import { HOSTILE, small } from '../viewer/test/make-payload.mjs';
import { page as html } from '../viewer/test/page.mjs';
import { launch, newPage, pause } from './browser.mjs';

const METRIC = { bytes: 0, allocations: 1, freed: 2, peak: 3, exit: 4, temporary: 5, live: 6 };

let browser, folder, page, problems;

before(async () => {
  browser = await launch();
  folder = mkdtempSync(join(tmpdir(), 'whyslow-heap-'));
  const write = (name, container) => writeFileSync(join(folder, `${name}.html`), html(gzipSync(container)));
  write('heap', heap());
  write('both', heap({ cpu: true, processes: true }));
  write('small', small());
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

afterEach(() => assert.deepEqual(problems, [], 'no errors, no requests, no dialogs'));

async function open(name, hash = '', settings = {}) {
  await page?.context().close();
  ({ page, problems } = await newPage(browser, { viewport: { width: 1300, height: 850 }, ...settings }));
  await page.goto(`${pathToFileURL(join(folder, `${name}.html`)).href}#${hash}`);
  await page.waitForSelector('#panel');
}

const LINES = '#panel table[aria-label="Allocation sites"]';
const rows = () => page.$eval(LINES, table => [...table.querySelectorAll('tbody tr:not(.space)')].map(row => [...row.cells].map(cell => cell.textContent.trim()).join(' | ')));
const about = () => page.innerText('.heap-about');
const facts = () => page.innerText('.facts');
const order = name => page.locator('.heap .segments button', { hasText: name }).click();
const hash = async () => { await pause(page, 250); return page.evaluate(() => location.hash); };
const ms = time => (time * 1e6).toString(36);

describe('the heap panel', () => {
  test('exists when the heap was recorded', async () => {
    await open('small', 'tab=heap');
    assert.equal(await page.locator('#tab-heap').count(), 0);
    assert.equal(await page.getAttribute('#tab-flame', 'aria-selected'), 'true', 'an address for another profile');
    await page.keyboard.press('9');
    await page.keyboard.press('1');
    assert.equal(await page.getAttribute('#tab-flame', 'aria-selected'), 'true');
    await open('heap');
    await page.keyboard.press('8');
    assert.equal(await page.getAttribute('#tab-heap', 'aria-selected'), 'true');
  });

  test('shows the totals of the program', async () => {
    await open('heap', 'tab=heap');
    const totals = (await page.innerText('.heap-totals')).replace(/\s+/g, ' ');
    assert.equal(totals, 'Peak 37.1 MiB at 595 ms Allocated 48.0 MiB 111,500 allocations Temporary 80.7 % 90,000 blocks Live at exit 9.77 MiB 10,000 blocks Leaked 1.95 MiB definitely Over time linear live bytes');
    assert.match(await about(), /The whole program[^]*Freed by another thread\s+1,000[^]*Definitely lost\s+1\.95 MiB in 2,000 blocks/);
  });

  test('sorts the allocation sites in every order', async () => {
    await open('heap', 'tab=heap');
    assert.deepEqual(await rows(), [
      '84.2 % | 31.3 MiB | 500 | 31.3 MiB | sawtooth | known::parse::tokens | src/parse.rs:40',
      '15.8 % | 5.86 MiB | 6,000 | 9.77 MiB | linear | known::cache::insert | src/cache.rs:12',
    ]);
    await order('Bytes');
    assert.deepEqual((await rows()).map(row => row.split(' | ')[1]), ['31.3 MiB', '9.77 MiB', '3.91 MiB', '3.05 MiB']);
    await order('Allocations');
    assert.equal((await rows())[0], '89.7 % | 100,000 | 3.05 MiB | 32 B | 2.00 µs | known::print::label | src/print.rs:7');
    await order('Temporary');
    assert.deepEqual(await rows(), ['100.0 % | 90,000 | 100,000 | 90.0 % | 32 B | known::print::label | src/print.rs:7']);
    await order('Leaks');
    assert.deepEqual(await rows(), ['100.0 % | 1.95 MiB |  |  | 7.81 MiB | known::cache::insert | src/cache.rs:12']);
    await order('Growing');
    assert.deepEqual(await rows(), ['100.0 % | linear | 9.77 MiB | 9.77 MiB | 10,000 | known::cache::insert | src/cache.rs:12']);
    await order('Reallocation');
    assert.deepEqual(await rows(), ['100.0 % | 15.6 MiB | 500 | 50 | 64.0 KiB | known::parse::tokens | src/parse.rs:40']);
    assert.match(await hash(), /p\.heap-order=chains/);
  });

  test('shows details of the selected site: advice, sizes, lifetimes', async () => {
    await open('heap', 'tab=heap');
    await page.locator(`${LINES} tbody tr`, { hasText: 'parse::tokens' }).click();
    assert.match(await about(), /`with_capacity` for 64\.0 KiB would save all of these reallocations, with nothing unused in a typical block/);
    const bars = await page.$$eval('.histogram', all => all.map(table => `${table.caption.textContent}: ${[...table.rows].map(row => `${row.cells[0].textContent} ${row.cells[1].textContent}`).join(', ')}`));
    assert.deepEqual(bars, ['Block sizes: < 128 KiB 500', 'Lifetimes of freed blocks: < 268 ms 200, < 537 ms 240, < 1.07 s 60']);
  });

  test('a click selects the stack, Enter shows it in the flame graph', async () => {
    await open('heap', 'tab=heap&on=inv');
    await page.locator(LINES).focus();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    assert.match(await page.innerText(`${LINES} tr[aria-selected=true]`), /cache::insert/);
    await page.keyboard.press('1');
    assert.match(await page.innerText('#panel'), /all[^]*known::main[^]*cache::insert/, 'the zoomed path');
    await page.keyboard.press('8');
    await page.locator(`${LINES} tbody tr`, { hasText: 'parse::tokens' }).dblclick();
    await page.waitForSelector('#tab-flame[aria-selected=true]');
    assert.equal(await page.inputValue('.metric select'), String(METRIC.peak), 'the metric of the order');
    assert.match(await page.innerText('#panel'), /all[^]*known::main[^]*parse::tokens/);
    await page.keyboard.press('8');
    await page.locator('.heap-totals button').click();
    await page.waitForSelector('#tab-flame[aria-selected=true]');
    assert.match(await facts(), /37\.1 MiB/);
  });

  test('works in the dark theme, in a narrow window and for screen readers', async () => {
    await open('heap', 'tab=heap&theme=dark', { viewport: { width: 800, height: 700 } });
    assert.equal(await page.getAttribute(LINES, 'aria-rowcount'), '3');
    const inside = await page.$$eval('.heap, .heap-about, .heap-totals', all => all.every(element => element.getBoundingClientRect().right <= innerWidth + 1));
    assert.ok(inside, 'the page does not overflow');
    const colours = await page.$eval('.heap-totals .bad b', element => [getComputedStyle(element).color, getComputedStyle(document.body).backgroundColor]);
    assert.deepEqual(colours, ['rgb(255, 165, 102)', 'rgb(23, 25, 30)']);
  });
});

describe('live bytes', () => {
  test('are those at the end of the time selection', async () => {
    await open('heap', `m=${METRIC.live}`);
    assert.equal(await facts(), '1.00 s · live at 1.00 s: 9.77 MiB');
    await open('heap', `m=${METRIC.live}&b=${ms(90)}-${ms(95)}&tab=functions`);
    assert.equal(await facts(), '1.00 s · live at 95.0 ms: 7.23 MiB');
    const first = await page.$eval('#panel table[aria-label="Functions"] tbody tr', row => row.textContent);
    assert.match(first, /6\.25 MiB86\.5 %.*grow_one/);
  });

  test('follow the keys of the timeline', async () => {
    await open('heap', `m=${METRIC.live}&b=0-${ms(500)}`);
    assert.match(await facts(), /live at 500 ms: 36\.3 MiB$/);
    await page.keyboard.press('t');
    await page.keyboard.press('Alt+ArrowRight');
    assert.match(await facts(), /live at 600 ms: 6\.04 MiB$/, 'the tokens are freed');
  });

  test('every heap metric can be selected, in its unit', async () => {
    await open('both');
    const names = await page.locator('.metric option').allTextContents();
    assert.deepEqual(names, ['cpu-time', 'bytes-allocated', 'allocations', 'bytes-freed', 'live-at-peak', 'live-at-exit', 'temporary-allocations', 'live at the end of the range']);
    const shown = {};
    for (const label of names) {
      await page.locator('.metric select').selectOption({ label });
      shown[label] = await facts();
      for (const tab of ['2', '3', '4', '5', '6', '7', '8', '1']) await page.keyboard.press(tab);
    }
    assert.deepEqual(shown, {
      'cpu-time': '1.00 s · 500 samples · 1.00 s', 'bytes-allocated': '1.00 s · 48.0 MiB', allocations: '1.00 s · 111,500', 'bytes-freed': '1.00 s · 38.2 MiB',
      'live-at-peak': '1.00 s · 37.1 MiB', 'live-at-exit': '1.00 s · 9.77 MiB', 'temporary-allocations': '1.00 s · 90,000', 'live at the end of the range': '1.00 s · live at 1.00 s: 9.77 MiB',
    });
  });
});

describe('the timeline', () => {
  test('shows the live heap and the resident set, and marks the peak', async () => {
    await open('heap');
    const labels = await page.locator('.track').allInnerTexts();
    assert.deepEqual(labels.slice(0, 2).map(text => text.replace(/\s+/g, ' ')), ['live heap peak 37.1 MiB', 'resident set ≤ 43.1 MiB']);
    // The mark is the only thing in this colour.
    const marked = await page.$eval('.timeline-window canvas', canvas => {
      const { data, width, height } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      let columns = new Set();
      for (let at = 0; at < width * height; at++) if (data[4 * at] === 179 && data[4 * at + 1] === 68 && data[4 * at + 2] === 11) columns.add(at % width);
      return [...columns].map(x => x / width);
    });
    assert.ok(marked.some(x => Math.abs(x - .595) < .003), String(marked));
    await open('both');
    const names = await page.locator('.track-name').allInnerTexts();
    assert.deepEqual(names.slice(0, 3), ['live heap · known', 'resident set', 'live heap · child']);
  });

  test('hovering shows the live bytes', async () => {
    await open('heap');
    const box = await page.locator('.timeline-window canvas').boundingBox();
    await page.mouse.move(box.x + box.width * .505, box.y + 10);
    await page.waitForFunction(() => /live heap/.test(document.querySelector('.timeline-hover')?.textContent ?? ''));
    assert.match(await page.textContent('.timeline-hover'), /505\.0 ms · live heap 36\.3 MiB/);
  });
});

test('untrusted names remain text in the heap panel', async () => {
  const { Payload } = await import('../viewer/test/make-payload.mjs');
  const p = new Payload();
  const thread = p.thread(p.process(1, 'app'), 1, 'main');
  p.metric('bytes-allocated', 2);
  HOSTILE.forEach((name, at) => {
    const fn = p.fn(name, 'app', 'yours', name, at + 1);
    const stack = p.stack(0xffffffff, p.location(0xffffffff, at + 1, [[fn, name, at + 1]]));
    p.sample(0, 0, thread, stack, 10);
    p.row('heap', { function: fn, file: p.text(name), line: at + 1, stack, stacks: 1, growth: 0, grower: 0, capacity: NaN, allocations: 1, bytes_allocated: 10, peak_bytes: 10 });
  });
  p.heap = { peak_bytes: 10, peak_ns: 0, growth: '<script>', leaks_checked: false, totals: { allocations: 'many' } };
  writeFileSync(join(folder, 'hostile.html'), html(gzipSync(p.container())));
  await open('hostile', 'tab=heap');
  for (let row = 0; row < Math.min(HOSTILE.length, 10); row++) {
    await page.locator(`${LINES} tbody tr`).nth(row).click();
    assert.equal(await page.locator('#panel script, #panel img').count(), 0);
    const longest = await page.$$eval('#panel *', all => Math.max(0, ...all.flatMap(element => [element.title?.length ?? 0, ...[...element.childNodes].filter(node => node.nodeType === 3).map(node => node.data.length)])));
    assert.ok(longest <= 4000, `a text of ${longest} letters`);
    assert.doesNotMatch(await page.innerText('#panel'), /[\u202a-\u202e\u0000-\u0008\u001b]/);
  }
});

test('the time and thread selection filter the allocation sites', async () => {
  await open('heap', `tab=heap&p.heap-order=total&b=${ms(0)}-${ms(100)}`);
  assert.match(await page.innerText('.heap > .status'), /allocated in the selected time/);
  // Ten steps: parse 10 × 64 KiB each, cache 100 × 1 KiB, job 20 × 4 KiB in every second one, print 1,000 × 32 B.
  const numbers = async () => Object.fromEntries((await rows()).map(row => row.split(' | ')).map(cells => [cells[5].split('::').at(-1), `${cells[1]} ${cells[2]}`]));
  assert.deepEqual(await numbers(), { tokens: '6.25 MiB 100', insert: '1000 KiB 1,000', run: '400 KiB 100', label: '313 KiB 10,000' });
  await open('heap', `tab=heap&p.heap-order=total&b=${ms(700)}-${ms(800)}`);
  assert.deepEqual(Object.keys(await numbers()).sort(), ['insert', 'label', 'run'], 'nothing is parsed any more');
  await open('heap', 'tab=heap&p.heap-order=total&t=1');
  assert.deepEqual(await numbers(), { run: '3.91 MiB 1,000' });
  await open('heap', 'tab=heap&p.heap-order=total');
  assert.equal((await rows()).length, 4);
  assert.equal(await page.locator('.heap > .status').count(), 0);
});
