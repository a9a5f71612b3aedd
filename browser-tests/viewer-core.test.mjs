// The viewer in a real browser, opened from disk with the network denied: timeline, time selection, threads,
// flame graph, keyboard, themes, hostile names, damaged files. The pages are generated (viewer/test) around
// the built bundle.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { beforeEach, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { container, NONE, Payload, SHAPES } from '../viewer/test/make-payload.mjs';
import { page as pageText } from '../viewer/test/page.mjs';
import { FIREFOX, pause } from './browser.mjs';
import * as opened from './opened.mjs';
import { box, brush, clickFrame, crumbs, doubleClick, facts, folder, found, frame, hash, hoverFrame, page, problems, settled, tip } from './opened.mjs';

const LABELS = 212;

/** The page of a generated profile. */
const pageOf = shape => opened.pageOf(shape, SHAPES[shape], shape === 'realistic' ? { block: 100_000 } : {});
const open = (file, { hash = '', ...settings } = {}) => opened.open(file, hash, settings);
const pressed = name => page.getByRole('button', { name, exact: true }).getAttribute('aria-pressed');

test('the flame graph is whole after every change of its height', async () => {
  await open(pageOf('deep'), { hash: '#on=whole&z=0.0.0', viewport: { width: 1000, height: 700 } });
  await page.keyboard.press('Escape');
  const shape = () => page.$eval('.flame-scroll', scroller => ({
    height: scroller.clientHeight, canvas: scroller.querySelector('canvas').clientHeight, content: scroller.scrollHeight, below: scroller.scrollHeight - scroller.clientHeight - scroller.scrollTop,
  }));
  const { content } = await shape();
  const check = async what => {
    await settled();
    const now = await shape();
    assert.deepEqual({ canvas: now.canvas, content: now.content }, { canvas: now.height, content }, what);
    assert.ok(now.below < 1, `${what}: the root is ${now.below} pixels below the window`);
    assert.match(await hoverFrame(.5, 0), /^all/, what);
  };
  for (const height of [420, 1000, 560]) {
    await page.setViewportSize({ width: 1000, height });
    await check(`a window of ${height} pixels`);
  }
  const edge = page.locator('.timeline-resizer');
  await edge.focus();
  for (const key of ['ArrowUp', 'ArrowUp', 'ArrowDown']) {
    await edge.press(key);
    await check(key);
  }
});

describe('a small profile with known answers', () => {
  beforeEach(() => open(pageOf('small')));

  test('opens and shows its totals', async () => {
    assert.match(await facts(), /10\.0 ms · 100 samples · 10\.0 ms/);
    assert.equal(await page.title(), 'app · whyslow');
    assert.deepEqual(await page.locator('.tabs [role=tab]').allTextContents(), ['Flame', 'Functions', 'Call tree', 'Source', 'Stack chart', 'Spans', 'Quality', 'Threads', 'Modules']);
    assert.deepEqual(await page.locator('.track.thread .track-name').allTextContents(), ['main', 'worker']);
    assert.deepEqual(problems, []);
  });

  test('details of a frame', async () => {
    const text = await hoverFrame(.1, 2);
    assert.match(text, /app::parse/);
    assert.match(text, /total 6\.00 ms, 60\.0 %/);
    assert.match(text, /self 0 ns/);
    assert.match(text, /your code · crate app/);
    assert.match(text, /src\/main\.rs:20/);
    assert.match(await hoverFrame(.1, 3), /Map<I,F>::next[^]*inlined into its caller/);
    assert.equal(await hoverFrame(.9, 12), '');
  });

  test('a click zooms, the breadcrumb and Escape go back', async () => {
    await clickFrame(.1, 3);
    assert.deepEqual(await crumbs(), ['all', 'app::main', 'app::parse', 'Map::next']);
    assert.match(await hoverFrame(.97, 3), /Map<I,F>::next[^]*100\.0 % of the zoomed frame/);
    await page.locator('.crumbs button').nth(1).click();
    assert.deepEqual(await crumbs(), ['all', 'app::main']);
    await page.keyboard.press('Escape');
    await settled();
    assert.deepEqual(await crumbs(), ['all']);
    assert.match(await hoverFrame(.97, 1), /app::work/);
  });

  test('everything follows the time selection; ranges nest', async () => {
    await brush(.001, .601);
    assert.match(await facts(), /(59|60|61) samples/);
    assert.match(await hoverFrame(.5, 1), /app::main/);
    assert.match(await hoverFrame(.97, 1), /app::main[^]*100\.0 %/);
    await page.getByRole('button', { name: 'Zoom in' }).click();
    await settled();
    assert.equal(await page.locator('.ranges button').count(), 2);
    await brush(.5, .9);
    assert.match(await facts(), /2[345] samples/);
    await doubleClick(page.locator('.timeline-window canvas'), { position: { x: 100, y: 40 } });
    await settled();
    assert.equal(await page.locator('.ranges button').count(), 2, 'a double-click elsewhere only clears the time selection');
    assert.match(await facts(), /60 samples/);
    await brush(.5, .9);
    await doubleClick(page.locator('.timeline-window canvas'), { position: { x: 600, y: 40 } });
    await settled();
    assert.equal(await page.locator('.ranges button').count(), 3);
    await page.keyboard.press('Escape');
    await brush(.5, .9);
    await page.locator('.timeline-tracks').focus();
    await page.keyboard.press('Enter');
    await settled();
    assert.equal(await page.locator('.ranges button').count(), 3);
    await page.keyboard.press('Escape');
    await settled();
    assert.equal(await page.locator('.ranges button').count(), 2);
    await page.locator('.ranges button').first().click();
    await settled();
    assert.match(await facts(), /100 samples/);
  });

  test('the edge of the time selection can be dragged; a click clears it', async () => {
    await brush(.2, .4);
    const { x, width } = await box('.timeline-window canvas');
    await brush((await box('.timeline-brush')).x / width - x / width + .2 / width, .8);
    const after = await box('.timeline-brush');
    assert.ok(Math.abs((after.x - x) / width - .4) < .02 && Math.abs(after.width / width - .4) < .02, JSON.stringify(after));
    await page.mouse.click(x + width * .1, after.y + 10);
    await settled();
    assert.equal(await page.locator('.timeline-brush').count(), 0);
  });

  test('threads: one, several, all', async () => {
    const thread = name => page.locator('.track.thread', { hasText: name });
    await thread('worker').click();
    assert.match(await facts(), /40 samples/);
    assert.equal(await thread('worker').getAttribute('aria-selected'), 'true');
    await thread('main').click({ modifiers: ['Control'] });
    assert.match(await facts(), /100 samples/);
    await thread('main').click();
    assert.match(await facts(), /60 samples/);
    await thread('main').click();
    assert.match(await facts(), /100 samples/, 'a second click selects all');
    await thread('main').click();
    await page.getByRole('button', { name: 'All threads' }).click();
    assert.match(await facts(), /100 samples/);
  });

  test('threads and time by keyboard', async () => {
    await page.keyboard.press('t');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Space');
    assert.match(await facts(), /40 samples/);
    await page.keyboard.press('a');
    assert.match(await facts(), /100 samples/);
    await page.keyboard.press('ArrowRight');
    assert.match(await facts(), /(9|10|11) samples/);
    for (let n = 0; n < 5; n++) await page.keyboard.press('Shift+ArrowRight');
    assert.match(await facts(), /1[456] samples/);
    await page.keyboard.press('Enter');
    await settled();
    assert.equal(await page.locator('.ranges button').count(), 2);
  });

  test('callers, icicle, inlined, generics, recursion', async () => {
    await page.keyboard.press('w'); // every recursive call
    await page.getByRole('button', { name: 'Invert', exact: true }).click();
    await settled();
    assert.match(await hoverFrame(.1, 1, true), /alloc::alloc::alloc[^]*30\.0 %/);
    await page.getByRole('button', { name: 'Invert', exact: true }).click();
    await page.getByRole('button', { name: 'Icicle' }).click();
    await settled();
    assert.match(await hoverFrame(.1, 1, true), /app::main/);
    await page.keyboard.press('k');
    await page.keyboard.press('l');
    await settled();
    assert.equal(await pressed('Inlined'), 'false');
    assert.match(await hoverFrame(.1, 3), /app::parse/);
    await page.keyboard.press('o');
    await settled();
    assert.match(await hoverFrame(.1, 3), /alloc::alloc::alloc/);
    await page.keyboard.press('g');
    await settled();
    assert.match(await hoverFrame(.7, 2), /dep::Set<…>::insert[^]*30\.0 %/);
  });

  test('focus, hide and merge through menu and keys, undone and redone', async () => {
    await page.mouse.click(...await frame(.1, 2), { button: 'right' });
    await page.getByRole('menuitem', { name: 'Focus on this function' }).click();
    await settled();
    assert.match(await facts(), /· 6\.00 ms/);
    assert.match(await page.textContent('.chip'), /Focus on app::parse/);
    await page.keyboard.press('Control+z');
    await settled();
    assert.match(await facts(), /· 10\.0 ms/);
    await page.keyboard.press('r');
    await settled();
    assert.match(await facts(), /· 6\.00 ms/);
    await page.getByRole('button', { name: /^Remove: Focus on/ }).click();
    assert.match(await facts(), /· 10\.0 ms/);

    await page.locator('.flame-scroll').focus();
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('h');
    await settled();
    assert.match(await page.textContent('.chip'), /Without app::main/);
    assert.match(await facts(), /· 4\.00 ms/);
    await page.keyboard.press('u');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('m');
    await settled();
    assert.match(await page.textContent('.chip'), /Merged app::main/);
    assert.match(await hoverFrame(.1, 1), /app::parse/);
    await page.getByRole('button', { name: 'Undo' }).click();
    await settled();
    assert.match(await hoverFrame(.1, 1), /app::main/);
  });

  test('collapses functions and libraries, focuses on and merges one place; from the address too', async () => {
    await page.locator('.flame-scroll').focus();
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('C');
    await settled();
    assert.match(await page.textContent('.chip'), /Collapsed app::main/);
    assert.match(await hoverFrame(.1, 1), /app::main[^]*self 6\.00 ms/i);
    assert.match(await facts(), /· 10\.0 ms/);
    await page.getByRole('button', { name: /^Remove: Collapsed/ }).click();
    await settled();
    await page.mouse.click(...await frame(.1, 2), { button: 'right' });
    await page.getByRole('menuitem', { name: 'Focus on this place only' }).click();
    await settled();
    assert.match(await page.textContent('.chip'), /Focus on one place of app::parse/);
    assert.match(await facts(), /· 6\.00 ms/);
    assert.match(await hoverFrame(.1, 1), /app::parse/);
    const address = await hash();
    assert.match(address, /x=s1-2/);
    await page.keyboard.press('u');
    await settled();
    await page.locator('.flame-scroll').focus();
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('M');
    await settled();
    assert.match(await page.textContent('.chip'), /Merged in one place app::main/);
    await page.evaluate(address => { location.hash = address; }, address);
    await page.waitForFunction(() => /Focus on one place/.test(document.querySelector('.chip')?.textContent ?? ''));
    assert.match(await facts(), /· 6\.00 ms/);
    await page.evaluate(() => { location.hash = '#x=l1'; });
    await page.waitForFunction(() => /Collapsed library app/.test(document.querySelector('.chip')?.textContent ?? ''));
  });

  test('frames by keyboard', async () => {
    await page.locator('.flame-scroll').focus();
    await page.keyboard.press('ArrowUp');
    assert.match(await tip(), /^all/);
    await page.keyboard.press('ArrowUp');
    assert.match(await tip(), /app::main/);
    await page.keyboard.press('ArrowRight');
    assert.match(await tip(), /app::work/);
    assert.match(await page.locator('.flame [role=status]').textContent(), /app::work, total 3\.80 ms, 38\.0 %, level 1/);
    await page.keyboard.press('ArrowRight');
    assert.match(await tip(), /truncated stack/);
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('Enter');
    await settled();
    assert.deepEqual(await crumbs(), ['all', 'app::work']);
    await page.keyboard.press('Backspace');
    await settled();
    assert.deepEqual(await crumbs(), ['all']);
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('Shift+F10');
    assert.equal(await page.locator('[role=menuitem]:focus').textContent(), 'Zoom into this frameEnter');
    await page.keyboard.press('ArrowDown');
    assert.match(await page.locator('[role=menuitem]:focus').textContent(), /Focus/);
    await page.keyboard.press('Escape');
    assert.equal(await page.locator('.menu').count(), 0);
    assert.equal(await page.evaluate(() => document.activeElement.className), 'flame-scroll');
  });

  test('the wheel zooms and dragging pans; Escape resets', async () => {
    const [x, y] = await frame(.8, 1);
    await page.mouse.move(x, y);
    await page.keyboard.down('Control');
    await page.mouse.wheel(0, -300);
    await page.keyboard.up('Control');
    await settled();
    assert.match(await hoverFrame(.2, 1), /app::work/);
    await page.mouse.move(...await frame(.2, 1));
    await page.mouse.down();
    await page.mouse.move(...await frame(.9, 1), { steps: 4 });
    await page.mouse.move(...await frame(.95, 1));
    await page.mouse.up();
    await settled();
    assert.deepEqual(await crumbs(), ['all'], 'a drag is not a click');
    assert.match(await hoverFrame(.02, 1), /app::main/);
    await page.locator('.flame-scroll').focus();
    await page.keyboard.press('Escape');
    await pause(page, 300);
    assert.match(await hoverFrame(.58, 1), /app::main/);
    assert.match(await hoverFrame(.62, 1), /app::work/);
  });

  test('light and dark', async () => {
    const colour = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(await colour(), 'rgb(255, 255, 255)');
    await page.getByRole('button', { name: 'Dark theme' }).click();
    assert.equal(await colour(), 'rgb(23, 25, 30)');
    await page.keyboard.press('d');
    assert.equal(await colour(), 'rgb(255, 255, 255)');
    if (FIREFOX) return; // a test cannot set its colour scheme
    await open(pageOf('small'), { colorScheme: 'dark' });
    assert.equal(await colour(), 'rgb(23, 25, 30)');
  });

  test('? lists the shortcuts; numbers and arrows switch tabs', async () => {
    await page.keyboard.press('?');
    assert.match(await page.locator('dialog').innerText(), /Undo, redo/);
    await page.keyboard.press('Escape');
    await page.waitForSelector('dialog', { state: 'detached' });
    for (const [key, tab] of [['2', 'functions'], ['3', 'tree'], ['4', 'source'], ['5', 'chart'], ['6', 'spans'], ['7', 'quality'], ['1', 'flame']]) {
      await page.keyboard.press(key);
      assert.equal(await page.getAttribute(`#tab-${tab}`, 'aria-selected'), 'true');
      await settled();
    }
    await page.locator('#tab-flame').focus();
    await page.keyboard.press('ArrowRight');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'tab-functions');
    assert.deepEqual(problems, []);
  });

  test('Tab reaches everything, with a visible focus', async () => {
    const seen = new Set();
    for (let n = 0; n < 60; n++) {
      await page.keyboard.press('Tab');
      const at = await page.evaluate(() => {
        const element = document.activeElement, style = getComputedStyle(element);
        return { name: element.id || element.className || element.textContent, ring: !document.hasFocus() || style.outlineStyle !== 'none' || style.backgroundColor !== 'rgba(0, 0, 0, 0)' };
      });
      if (at.name) { seen.add(String(at.name)); assert.ok(at.ring, `no focus ring on ${at.name}`); }
    }
    for (const wanted of ['search', 'timeline-tracks', 'timeline-resizer', 'tab-flame', 'flame-scroll', 'switch']) {
      assert.ok([...seen].some(name => name.includes(wanted)), `${wanted} in ${[...seen]}`);
    }
  });

  test('the canvas has an accessible table', async () => {
    await page.waitForFunction(() => document.querySelectorAll('.flame table tbody tr').length >= 8);
    const rows = await page.locator('.flame table tbody tr').allInnerTexts();
    assert.ok(rows.length >= 8, rows.join('\n'));
    assert.match(rows.join('\n'), /app::parse\s+2\s+6\.00 ms\s+60\.0 %/);
  });
});

describe('a realistic profile', () => {
  beforeEach(() => open(pageOf('realistic')));

  test('payload in several blocks, three metrics, counters, spans, two processes', async () => {
    assert.ok(await page.evaluate(() => document.querySelectorAll('script.payload').length) > 1);
    assert.equal(await page.locator('.track.thread').count() >= 2, true);
    await page.locator('.timeline-resizer').focus();
    for (let n = 0; n < 12; n++) await page.keyboard.press('ArrowDown');
    await settled();
    assert.deepEqual((await page.locator('.track .track-name').allTextContents()).slice(0, 4), ['resident memory', 'requests in flight', 'Spans', 'logsearch']);
    await open(pageOf('realistic'), { hash: '#p.timeline-tracks=spans&p.timeline-height=600' });
    assert.equal(await page.locator('.track.thread').count(), 8);
    const before = await facts();
    await page.locator('.metric select').selectOption('2');
    await settled();
    assert.notEqual(await facts(), before);
    assert.match(await facts(), /[KM]iB/);
    assert.deepEqual(problems, []);
  });

  test('the timeline describes what is under the pointer; a click selects a span; the wheel zooms', async () => {
    const { x, y, width } = await box('.timeline-window canvas');
    const hover = async (across, down) => { await page.mouse.move(x + width * across, y + down); await settled(); return page.textContent('.timeline-hover'); };
    assert.match(await hover(.05, 10), /resident memory [\d.]+ MiB/);
    assert.match(await hover(.05, 70), /warm-up · 1\.60 s/);
    assert.match(await hover(.5, 112), /tokio-worker-\d [\d.]+ %/);
    await page.mouse.click(x + width * .05, y + 70);
    await settled();
    assert.match(await page.textContent('.brushed'), /1\.60 s/);
    await page.keyboard.press('Escape');
    await page.mouse.move(x + width * .5, y + 150);
    await page.keyboard.down('Control');
    await page.mouse.wheel(0, -200);
    await page.mouse.wheel(0, -200);
    await page.keyboard.up('Control');
    await settled();
    assert.equal(await page.locator('.ranges button').count(), 2, 'one turn is one range');
    await page.keyboard.press('u');
    await settled();
    assert.equal(await page.locator('.ranges button').count(), 1);
    assert.deepEqual(problems, []);
  });

  test('every colour mode, and the legend dims the rest', async () => {
    for (const colour of ['crate', 'module', 'thread', 'function', 'kind']) {
      await page.locator('.toolbar select').selectOption(colour);
      await settled();
    }
    const pixels = () => page.evaluate(() => document.querySelector('.flame-window canvas').toDataURL().length);
    const before = await pixels();
    await page.locator('.legend button', { hasText: 'allocator' }).click();
    await settled();
    assert.notEqual(await pixels(), before);
    assert.deepEqual(problems, []);
  });

  test('callers inside a narrow frame have full detail', async () => {
    await page.keyboard.press('i');
    await settled();
    await clickFrame(.9, 1, true);
    await clickFrame(.5, 2, true);
    assert.equal((await crumbs()).length, 3);
    assert.match(await hoverFrame(.1, 3, true), /total/);
  });
});

test('10,000 frames deep: scrolls to the innermost, zooms, searches, collapses', async () => {
  await open(pageOf('deep'), { hash: '#on=whole' });
  const { height } = await box('.flame-window canvas');
  assert.ok(height < 800, 'the canvas is as high as its window');
  await page.evaluate(() => { document.querySelector('.flame-scroll').scrollTop = 0; });
  await settled();
  const { x, y, width } = await box('.flame-window canvas');
  await page.mouse.click(x + width * .004, y + 40);
  await settled();
  assert.equal((await crumbs()).length, 6);
  assert.match(await hash(), /z=[0-9a-z.]{15000,}/);
  await page.keyboard.press('Escape');
  await page.fill('#search', 'recurse');
  assert.equal(await found(), '10,000 matches · 50.0 % matched');
  await page.locator('#search').blur();
  await page.keyboard.press('i');
  await settled();
  await page.keyboard.press('i');
  await page.keyboard.press('o');
  await settled();
  assert.match(await hoverFrame(.25, 1), /deep::recurse[^]*50\.0 %/);
  assert.deepEqual(problems, []);
});

test('a profile without timestamps has no timeline, and an empty one opens', async () => {
  const p = new Payload();
  const stack = p.stack(NONE, p.location(NONE, 1, [[p.fn('main', 'app'), undefined, 0]]));
  p.metric('count', 0);
  for (let n = 0; n < 10; n++) p.sample(0, 0, 0, stack, 3);
  for (const [bytes, words] of [[p.container(), /^10 samples · 30$/], [container({}, {}), /^0 samples/]]) {
    const file = join(folder, 'untimed.html');
    writeFileSync(file, pageText(gzipSync(bytes)));
    await open(file);
    assert.match(await facts(), words);
    assert.match(await page.textContent('.timeline'), /no timestamps/);
    assert.equal(await page.locator('.timeline-tracks').count(), 0);
    for (const key of ['2', '3', '4', '5', '6', '7', '1', 'i', 'g', 'o']) { await page.keyboard.press(key); await settled(); }
    assert.deepEqual(problems, []);
  }
});

test('a thousand threads: only those in view are rendered', async () => {
  await open(pageOf('threads'));
  assert.ok(await page.locator('.track').count() < 40);
  await page.locator('.timeline-tracks').focus();
  await page.keyboard.press('End');
  await page.keyboard.press('Space');
  await settled();
  assert.match(await page.textContent('.thread-count'), /1 of 1000 threads/);
  assert.ok(await page.locator('.track').count() < 40);
  assert.equal(await page.locator('.track[aria-selected=true]').count(), 1);
  assert.deepEqual(problems, []);
});

test('hostile names are text everywhere', async () => {
  await open(pageOf('hostile'));
  for (const key of ['2', '3', '4', '5', '6', '7', '1']) { await page.keyboard.press(key); await settled(); }
  for (let n = 0; n < 12; n++) {
    await hoverFrame((n + .5) / 12, 2);
    await page.mouse.click(...await frame((n + .5) / 12, 2), { button: 'right' });
    await page.keyboard.press('Escape');
  }
  await clickFrame(.05, 2);
  assert.match((await crumbs()).at(-1), /script|img|u\{|x|exe|unnamed|<|closure|operator|関|😀/);
  await page.fill('#search', '<script>');
  assert.match(await found(), /matched/);
  assert.equal(await page.locator('img').count(), 0);
  assert.equal(await page.evaluate(() => document.body.innerText.includes('\u202e')), false);
  assert.deepEqual(problems, []);
});

describe('unreadable profiles give a message', () => {
  const message = async text => {
    const file = join(folder, 'broken.html');
    writeFileSync(file, text);
    await open(file);
    // Firefox also reports this itself.
    assert.deepEqual(problems.filter(problem => !/ReadableStream.*without reaching the stream end/.test(problem)), []);
    return page.textContent('[role=alert]');
  };
  const good = () => gzipSync(SHAPES.small());

  test('no profile in the page', async () => assert.match(await message(pageText(new Uint8Array())), /contains no profile/));
  test('truncated', async () => assert.match(await message(pageText(good().subarray(0, 900))), /damaged or truncated/));
  test('not compressed', async () => assert.match(await message(pageText(Buffer.from('hello world'))), /not compressed/));
  test('not base64', async () => assert.match(await message(pageText(good()).replace('class="payload">', 'class="payload">*')), /not base64/));
  test('not a profile', async () => assert.match(await message(pageText(gzipSync('nothing of the kind'))), /truncated|damaged/));
});

test('many processes of one name are one row that selects them all and opens', async () => {
  const built = () => {
    const p = new Payload(), cpu = p.metric('cpu', 1), make = p.process(1, 'make');
    const stack = p.stack(NONE, p.location(NONE, 1, [[p.fn('cc::parse', 'cc', 'yours', 'cc.c', 1), 'cc.c', 1]]));
    p.context.duration_ns = 1e8;
    p.sample(cpu, 1e6, p.thread(make, 1, 'make'), stack, 1e6);
    for (let at = 1; at <= 9; at++) p.sample(cpu, at * 1e7, p.thread(p.process(1 + at, 'cc1', make), 1 + at, 'cc1'), stack, 1e6);
    return p.container();
  };
  await open(opened.pageOf('alike', built));
  const rows = () => page.locator('.track').evaluateAll(rows => rows.map(row => row.textContent));
  assert.deepEqual(await rows(), ['make 110.0 %', '▸cc1 × 990.0 %']);
  await page.locator('.track', { hasText: 'cc1' }).click();
  await settled();
  assert.match(await facts(), /9 samples/);
  await page.locator('.timeline-tracks').focus();
  await page.keyboard.press('x');
  await settled();
  assert.equal((await rows()).length, 11);
  assert.match((await rows())[2], /^cc1 2/);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Space');
  await settled();
  assert.match(await facts(), /1 sample/);
  assert.deepEqual(problems, []);
});

test('served: fetches the profile with the token of the address', async () => {
  const payload = gzipSync(SHAPES.small()), requested = [];
  const server = createServer((request, response) => {
    requested.push(request.url);
    if (request.url === '/?token=abc') response.setHeader('content-type', 'text/html').end(pageText(new Uint8Array()));
    else if (request.url === '/profile?token=abc') response.end(payload);
    else { response.statusCode = 403; response.end(); }
  });
  await new Promise(done => server.listen(0, '127.0.0.1', done));
  try {
    const address = `http://127.0.0.1:${server.address().port}/`;
    await opened.open(`${address}?token=abc`, '', { allowed: address });
    assert.match(await facts(), /100 samples/);
    assert.ok(requested.includes('/profile?token=abc'));
  } finally {
    server.close();
  }
});
