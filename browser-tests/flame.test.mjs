// The flame graph (SVG) in a real browser: zoom, search, details, keyboard, hostile names, and the image
// without scripts.
//
// FLAME_SVG names the file to open; without it the sample of whyslow-render is drawn. Expected names and
// numbers come from the file's own data, so any flame graph with at least three rows works.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { FIREFOX, example, launch, missing, newPage, without } from './browser.mjs';

let browser, page, folder, problems, frames;

const sample = shape => {
  const file = join(folder, `${shape}.svg`);
  example('whyslow-render', 'flame_sample', file, shape);
  return file;
};

async function open(file, settings = {}) {
  await page?.context().close();
  ({ page, problems } = await newPage(browser, { viewport: { width: 1000, height: 700 }, ...settings }));
  await page.goto(pathToFileURL(file).href);
}

// The frames of the open file, decoded here independently of the script.
const decode = () => page.evaluate(() => {
  const data = JSON.parse(document.querySelector('#data').textContent);
  const path = [], all = [];
  for (const line of data.frames.split(';')) {
    const [up, code, total] = line.split(',').map(text => parseInt(text, 36) || 0);
    path.length -= up;
    const parent = path.at(-1);
    const [name, kind] = data.functions[code >> 1];
    const frame = { name, kind, total, depth: path.length, inlined: code & 1, parent: parent?.id ?? -1, id: all.length,
      start: parent ? parent.end : 0 };
    frame.end = frame.start;
    if (parent) parent.end += total;
    all.push(frame);
    path.push(frame);
  }
  return { rows: data.rows, row: data.row, header: data.header, margin: data.margin, inverted: data.inverted, all };
});

/** The position of a frame on the page while everything is shown. */
async function middle(frame) {
  const { rows, row, header, margin, inverted, all } = frames;
  const [width, scroll] = await page.evaluate(() => [+document.documentElement.getAttribute('width'), scrollY]);
  const y = header + ((inverted ? frame.depth : rows - 1 - frame.depth) + .5) * row - scroll;
  return [margin + (width - 2 * margin) * (frame.start + frame.total / 2) / all[0].total, y];
}

/**
 * The same, after scrolling to it where the image is higher than the window: a driver's own clicks scroll
 * too.
 */
async function within(frame) {
  const [, y] = await middle(frame);
  await page.evaluate(([y, header]) => { if (y < header || y > innerHeight) scrollBy(0, y - (header + innerHeight) / 2); }, [y, frames.header]);
  return middle(frame);
}

// The lines of one path, or of all undimmed frames.
const lines = selector => page.evaluate(selector => [...document.querySelectorAll(selector)]
  .flatMap(path => (path.getAttribute('d') ?? '').split('M').slice(1))
  .map(line => /^(\S+) (\S+)h(\S+)$/.exec(line).slice(1).map(Number)), selector);
const crumbs = () => page.locator('.crumbs button').allTextContents();
const found = () => page.textContent('#found');
const percent = (value, whole) => {
  const share = 100 * value / whole;
  return share.toFixed(share < 10 ? 2 : 1) + ' %';
};

/** A frame wide enough to click, with a caller other than the root, and narrower than the root. */
const wide = () => frames.all.find(frame => frame.depth >= 2 && frame.total < frames.all[0].total * .9 &&
  frame.total > frames.all[0].total * .05 && frame.depth < frames.rows);

before(async () => {
  assert.ok(!missing, missing);
  folder = mkdtempSync(join(tmpdir(), 'whyslow-flame-'));
  browser = await launch();
});
after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true });
});

/** A window height in which two rows fit. */
const low = () => frames.header + 2 * frames.row + frames.margin;

describe('a flame graph', () => {
  let file;
  before(() => { file = process.env.FLAME_SVG ? resolve(process.env.FLAME_SVG) : sample('flame'); });
  beforeEach(async () => {
    await open(file);
    frames = await decode();
  });
  const quiet = () => assert.deepEqual(problems, []);

  test('has frames', () => {
    assert.ok(frames.all.length > 3 && wide(), 'the graph is too small for these tests');
    quiet();
  });

  test('zooms by click and returns by Escape, by Reset and by the root', async () => {
    const frame = wide();
    const before_ = await lines('#lit path');
    for (const back of [() => page.keyboard.press('Escape'), () => page.click('text=Reset'),
      () => page.click('.crumbs button >> nth=0')]) {
      await page.mouse.click(...await within(frame));
      const width = await page.evaluate(() => +document.documentElement.getAttribute('width')) - 2 * frames.margin;
      const row = await page.evaluate(() => Math.max(...[...document.querySelectorAll('#lit path')]
        .flatMap(path => (path.getAttribute('d').match(/h[\d.]+/g) ?? []).map(text => +text.slice(1)))));
      assert.ok(row > width - 1.5, `${row} of ${width}`);
      const path = await crumbs();
      assert.ok(path.length >= 2);
      assert.equal(await page.locator('.crumbs button').last().getAttribute('title'), frame.name);
      await back();
      assert.deepEqual(await crumbs(), []);
      assert.deepEqual(await lines('#lit path'), before_);
    }
    quiet();
  });

  test('animates unless reduced motion is preferred', async () => {
    await open(file, { reducedMotion: 'no-preference' });
    await page.mouse.click(...await within(wide()));
    await page.waitForFunction(name => [...document.querySelectorAll('.crumbs button')].at(-1)?.getAttribute('title') === name, wide().name);
    quiet();
  });

  test('shows the details of the frame under the pointer', async () => {
    const frame = wide();
    await page.mouse.move(...await within(frame));
    const tip = await page.textContent('.tip');
    assert.ok(tip.includes(frame.name), tip);
    assert.ok(tip.includes(percent(frame.total, frames.all[0].total)), tip);
    assert.match(tip, /total [\d.]+ \S+, [\d.]+ %.*self [\d.]+ \S+, [\d.<]+ %/s);
    await page.mouse.move(5, 5);
    assert.equal(await page.getAttribute('#tip', 'visibility'), 'hidden');
    quiet();
  });

  test('finds the frame under the pointer in a scrolled image', async () => {
    const height = low();
    await page.setViewportSize({ width: 1000, height });
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
    await page.waitForFunction(() => scrollY > 0);
    // Frames below the header, which remains visible.
    const seen = [];
    for (const frame of frames.all) {
      const [x, y] = await middle(frame);
      if (frame.total > frames.all[0].total * .05 && y > frames.header && y < height) seen.push([frame, x, y]);
    }
    assert.ok(seen.length > 1);
    for (const [frame, x, y] of seen.slice(0, 6)) {
      await page.mouse.move(x, y);
      assert.equal(await page.textContent('.tip b'), frame.name);
    }
    const [frame, x, y] = seen.find(([frame]) => frame.depth > 0);
    await page.mouse.click(x, y);
    assert.equal(await page.locator('.crumbs button').last().getAttribute('title'), frame.name);
    quiet();
  });

  test('fills the width of its <object>, and scrolls there', async () => {
    const around = join(folder, 'around.html');
    writeFileSync(around, `<!doctype html><title>around</title><body style="margin: 0"><object data="${pathToFileURL(file)}" type="image/svg+xml" width="700" height="${low()}">`);
    await open(around);
    await page.waitForFunction(() => document.querySelector('object').getBoundingClientRect().width === 700);
    const inside = page.frames()[1];
    await inside.waitForSelector('#dim', { state: 'attached' });
    const root = () => inside.evaluate(() => {
      const { left, width, bottom } = document.querySelector('#frames > rect:last-of-type').getBoundingClientRect();
      return { left, width, bottom, header: document.querySelector('#header').getBoundingClientRect().top };
    });
    const before = await root();
    assert.ok(Math.abs(before.left - frames.margin) < 1 && Math.abs(before.width - (700 - 2 * frames.margin)) < 1, JSON.stringify(before));
    assert.ok(frames.inverted || before.bottom <= low(), 'the root is visible');
    assert.ok(Math.abs(before.header) < 1, 'and so is the header');
    await page.mouse.move(350, frames.header + frames.row);
    await page.mouse.wheel(0, frames.inverted ? 60 : -60);
    await inside.waitForFunction(bottom => Math.abs(document.querySelector('#frames > rect:last-of-type').getBoundingClientRect().bottom - bottom) > 10, before.bottom);
    assert.ok(Math.abs((await root()).header) < 1);
    quiet();
  });

  test('prints its header on top', { skip: FIREFOX && 'Firefox does not emulate paper' }, async () => {
    await page.setViewportSize({ width: 1000, height: low() });
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
    await page.waitForFunction(() => scrollY > 0 && document.querySelector('#header').getBoundingClientRect().top > -1);
    await page.emulateMedia({ media: 'print' });
    const [header, bar] = await page.evaluate(() => [document.querySelector('#header').getBoundingClientRect().top + scrollY, document.querySelector('.bar').getClientRects().length]);
    assert.ok(Math.abs(header) < 1, `the header is ${header} from the top`);
    assert.equal(bar, 0, 'no controls');
    quiet();
  });

  const matchedShare = test => {
    const inside = new Set();
    let sum = 0;
    for (const frame of frames.all) {
      if (inside.has(frame.parent)) inside.add(frame.id);
      else if (test(frame.name)) { inside.add(frame.id); sum += frame.total; }
    }
    return percent(sum, frames.all[0].total);
  };

  test('finds text, counting nested matches once', async () => {
    const text = wide().name;
    await page.keyboard.press('/');
    await page.keyboard.type(text.toUpperCase().slice(0, 60));
    const small = text.slice(0, 60).toLowerCase();
    assert.ok((await found()).includes(`Matched ${matchedShare(name => name.toLowerCase().includes(small))} in `), await found());
    assert.ok((await lines('#dim path')).length > 0, 'other frames are dimmed');
    await page.keyboard.press('Escape');
    assert.equal(await found(), '');
    assert.equal((await lines('#dim path')).length, 0);
    quiet();
  });

  test('finds regular expressions, and reports invalid ones', async () => {
    await page.keyboard.press('Control+f');
    await page.keyboard.type('^.*a.*$');
    assert.ok((await found()).startsWith('Matched 0.00 %'), 'plain text first');
    await page.click('text=.*');
    assert.ok((await found()).includes(matchedShare(name => /^.*a.*$/i.test(name))), await found());
    await page.fill('.bar input', '(((');
    assert.match(await found(), /^Invalid regular expression/);
    assert.equal(await page.getAttribute('.bar input', 'aria-invalid'), 'true');
    await page.fill('.bar input', '(.*)*(.*)*(.*)*\\u0001$'); // never ends with backtracking
    assert.match(await found(), /^Matched 0.00 %|too long/);
    await page.fill('.bar input', 'x');
    assert.match(await found(), /^Matched/);
    quiet();
  });

  test('highlights a kind of code from the legend', async () => {
    await page.click('.kind >> nth=0');
    assert.match(await found(), /^Matched [\d.]+ %/);
    await page.click('.kind >> nth=0');
    assert.equal(await found(), '');
    quiet();
  });

  test('works with the keyboard alone', async () => {
    for (let presses = 0; presses < 20; presses++) {
      await page.keyboard.press('Tab');
      if (await page.evaluate(() => document.activeElement?.id === 'frames')) break;
    }
    assert.equal(await page.evaluate(() => document.activeElement?.id), 'frames');
    const [away, back] = frames.inverted ? ['ArrowDown', 'ArrowUp'] : ['ArrowUp', 'ArrowDown'];
    await page.keyboard.press(away); // the root itself
    await page.keyboard.press(away);
    const child = frames.all[1];
    assert.ok((await page.textContent('.tip')).includes(child.name));
    await page.keyboard.press(back);
    await page.keyboard.press(away);
    await page.keyboard.press('Enter');
    assert.equal(await page.locator('.crumbs button').last().getAttribute('title'), child.name);
    await page.keyboard.press('Backspace');
    assert.deepEqual(await crumbs(), []);
    await page.keyboard.press('Enter');
    await page.keyboard.press('Escape');
    assert.deepEqual(await crumbs(), []);
    quiet();
  });

  test('follows the width of the window', async () => {
    await page.setViewportSize({ width: 1600, height: 700 });
    await page.waitForFunction(() => +document.documentElement.getAttribute('width') > 1500);
    const widest = Math.max(...(await lines('#lit path')).map(line => line[2]));
    assert.ok(widest > 1500);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    quiet();
  });

  test('labels remain inside their frames', async () => {
    await page.mouse.click(...await within(wide()));
    const outside = await page.evaluate(() => {
      const right = new Map();
      for (const path of document.querySelectorAll('#lit path, #dim path')) {
        for (const [, x, y, w] of path.getAttribute('d').matchAll(/M(\S+) (\S+)h([^M]+)/g)) right.set(`${x} ${y}`, +x + +w);
      }
      return [...document.querySelectorAll('#labels text')].filter(text =>
        +text.getAttribute('x') + 4 + text.getComputedTextLength() >
          right.get(`${text.getAttribute('x')} ${text.getAttribute('y')}`) + .5).map(text => text.textContent);
    });
    assert.deepEqual(outside, []);
    quiet();
  });

  test('is the same image without scripts', { skip: FIREFOX && 'a test cannot turn scripts off in Firefox' }, async () => {
    await open(file, { viewport: { width: 1200, height: 700 } });
    const [scripted, labels] = [(await lines('#lit path')).length, await page.locator('#labels text').count()];
    await open(file, { viewport: { width: 1200, height: 700 }, javaScriptEnabled: false });
    const plain = await page.locator('#lit path').evaluateAll(paths =>
      paths.reduce((sum, path) => sum + path.getAttribute('d').split('M').length - 1, 0));
    assert.ok(Math.abs(plain - scripted) <= 2, `${plain} and ${scripted} frames`);
    assert.ok(Math.abs(await page.locator('#labels text').count() - labels) <= labels * .1 + 2);
    quiet();
  });
});

describe('a folded flame graph', { skip: without(process.env.WHYSLOW, 'WHYSLOW names no executable') }, () => {
  const worker = 'clone3;start_thread;std::sys::thread::unix::Thread::new::thread_start;__rust_try;rayon_core::registry::main_loop';
  const way = path => [0, 1, 2, 3].map(bit => (path >> bit & 1 ? 'rayon_core::join::join;rayon::iter::left' : 'rayon_core::job::execute;rayon::iter::right')).join(';');
  const stacks = [...Array(16).keys()].map(path => `${worker};${way(path)};app::render;app::pixel 5`);
  stacks.push(`_start;__libc_start_main;std::rt::lang_start;app::main;${Array(30).fill('app::visit').join(';')} 20`);

  const make = (...options) => {
    const [text, profile, picture] = ['stacks.folded', 'stacks.whyslow', 'stacks.svg'].map(name => join(folder, name));
    writeFileSync(text, stacks.join('\n') + '\n');
    execFileSync(process.env.WHYSLOW, ['import', text, '-o', profile], { stdio: 'ignore' });
    execFileSync(process.env.WHYSLOW, ['flame', profile, '-o', picture, ...options], { stdio: 'ignore' });
    return picture;
  };
  const labels = () => page.locator('#labels text').allTextContents();

  test('shows the work first, and whole stacks after one click', async () => {
    await open(make());
    const folded = ['all', '[thread start, rayon: 13 frames]', '[start-up: 3 frames]', 'app::render', 'app::main', 'app::pixel', 'app::visit (×30)'];
    assert.deepEqual((await labels()).sort(), folded.sort());
    const height = () => page.evaluate(() => document.querySelector('#frames > rect:last-of-type').getBoundingClientRect().height);
    const before = await height();
    await page.getByRole('button', { name: 'Whole' }).click();
    assert.ok(await height() > 4 * before);
    const whole = await labels();
    assert.ok(whole.includes('clone3') && whole.includes('app::visit') && !whole.some(text => text.includes('frames]')), whole.join('\n'));
    await page.fill('input', 'join::join');
    assert.match(await page.textContent('#found'), /^Matched 75\.0 % in 1 function$/);
    await page.locator('input').blur();
    await page.keyboard.press('w');
    assert.deepEqual((await labels()).sort(), folded.sort());
    frames = await decode();
    await page.mouse.move(...await within(frames.all[1]));
    assert.match(await page.textContent('.tip'), /^\[thread start, rayon: 13 frames\]total 80, 80\.0 %self 0, 0\.00 %start-up or runtime frames/);
    assert.deepEqual(problems, []);
  });

  test('opens with whole stacks on request', async () => {
    await open(make('--unfolded'));
    assert.ok((await labels()).includes('clone3'));
    assert.equal(await page.getByRole('button', { name: 'Whole' }).count(), 0);
  });

  test('is an image without scripts', async () => {
    await open(make(), { javaScriptEnabled: false });
    assert.ok((await labels()).includes('[thread start, rayon: 13 frames]'));
  });
});

describe('samples', { skip: process.env.FLAME_SVG ? 'FLAME_SVG is set' : false }, () => {
  test('hostile names are shown as text', async () => {
    await open(sample('hostile'), { viewport: { width: 6000, height: 400 } });
    frames = await decode();
    const labels = await page.locator('#labels text').allTextContents();
    assert.ok(labels.includes('<script>alert(1)</script>'), labels.join('\n'));
    assert.ok(labels.includes(']]></script><svg onload=alert(2)>'));
    assert.ok(labels.some(label => label.includes('right\\u{202e}tfel\\u{2066}')));
    for (const frame of frames.all.filter(frame => frame.depth === 1)) {
      await page.mouse.move(...await within(frame));
      assert.equal(await page.textContent('.tip b'), frame.name);
    }
    await page.mouse.click(...await within(frames.all[1]));
    assert.equal(await page.locator('.crumbs script').count(), 0);
    assert.equal(await page.locator('script').count(), 2);
    assert.deepEqual(problems, []);
  });

  test('kinds of time split each frame, in the legend and in its details', async () => {
    const file = sample('waits');
    const drawn = () => page.$$eval('#lit path', paths => paths.filter(path => path.getAttribute('d')).map(path => path.getAttribute('class')));
    await open(file, { javaScriptEnabled: false });
    assert.deepEqual(await drawn(), ['k8', 'k9', 'k10', 'k11', 'k12', 'k13'], 'complete without scripts');
    await open(file);
    frames = await decode();
    assert.deepEqual(await drawn(), ['k8', 'k9', 'k10', 'k11', 'k12', 'k13']);
    const legend = await page.locator('#legend .kind').allTextContents();
    assert.match(legend.join(' | '), /^running [\d.]+ m?s, [\d.]+ % \| queued for a CPU .* \| blocked: threads .* \| blocked: I\/O .* \| blocked: other .* \| idle /);
    await page.mouse.move(...await within(frames.all[0]));
    const tip = await page.locator('.tip div').allTextContents();
    assert.deepEqual(tip.slice(2, 8).map(line => line.replace(/ [\d.]+ m?s, .*/, '')), legend.map(line => line.replace(/ [\d.]+ m?s, .*/, '')), 'the root matches the legend');
    const parts = await page.evaluate(() => JSON.parse(document.querySelector('#data').textContent).times.split(';')[0].split(',').map(text => parseInt(text, 36)));
    assert.equal(parts.reduce((a, b) => a + b), frames.all[0].total);
    // A frame with fewer kinds in its data has no others.
    const leaf = frames.all.findLast(frame => frame.total > frames.all[0].total / 50 && !frames.all.some(other => other.parent === frame.id));
    await page.mouse.move(...await within(leaf));
    const kinds = (await page.locator('.tip div').allTextContents()).filter(line => legend.some(word => line.startsWith(word.replace(/ [\d.]+ m?s, .*/, ''))));
    assert.equal(kinds.length, 1, kinds.join(' | '));
    assert.match(kinds[0], / 100\.0 %$/);
    await page.locator('#legend .kind').nth(3).click();
    assert.deepEqual(await drawn(), ['k11'], 'the others are dimmed');
    assert.equal(await page.$$eval('#dim path', paths => paths.filter(path => path.getAttribute('d')).length), 5);
    await page.locator('#legend .kind').nth(3).click();
    await page.mouse.click(...await within(frames.all[2]));
    assert.ok((await drawn()).length >= 1);
    assert.deepEqual(problems, []);
  });

  test('zooming reaches frames too deep to draw', async () => {
    await open(sample('deep'));
    frames = await decode();
    const deepest = Math.max(...frames.all.map(frame => frame.depth));
    assert.ok(deepest > frames.rows);
    for (let clicks = 0; clicks < 3; clicks++) {
      await page.evaluate(() => scrollTo(0, 0));
      const header = await page.evaluate(() => document.querySelector('#header').getBoundingClientRect().top);
      assert.ok(Math.abs(header) < 1, 'the header remains visible');
      await page.mouse.click(30, frames.header + frames.row / 2);
    }
    const tip = await page.evaluate(() => document.querySelector('.crumbs').textContent);
    assert.match(tip, /all›…›/);
    assert.deepEqual(problems, []);
  });
});
