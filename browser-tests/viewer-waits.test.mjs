// Waits in the viewer: thread state lanes, concurrent threads, CPUs.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EVIL, locks, manyWaits, waits } from '../viewer/test/waits.mjs';
import { small } from '../viewer/test/make-payload.mjs';
import { box, brush, cursor, frame, grid, hash, hoverFrame, open, page, pageOf, problems, rows, settled } from './opened.mjs';

const known = () => pageOf('waits', waits);
/** The middle of a track, found by a text of its label, in page pixels; `down` from its top. */
async function trackAt(text, across, down) {
  const label = await page.locator('.track', { hasText: text }).first().boundingBox(), canvas = await box('.timeline-window canvas');
  return [canvas.x + canvas.width * across, label.y + down];
}
async function hoverTrack(text, across, down) {
  const [x, y] = await trackAt(text, across, down);
  await page.mouse.move(x - 1, y);
  await page.mouse.move(x, y);
  await settled();
  return page.textContent('.timeline-hover');
}
const STATES = 34, CURVE = 12;
/** The colour of the canvas at a position, as red, green, blue. */
const colourAt = ([x, y]) => page.evaluate(([x, y]) => {
  const canvas = document.querySelector('.timeline-window canvas'), { left, top } = canvas.getBoundingClientRect(), ratio = canvas.width / canvas.clientWidth;
  return [...canvas.getContext('2d').getImageData(Math.round((x - left) * ratio), Math.round((y - top) * ratio), 1, 1).data.slice(0, 3)];
}, [x, y]);

describe('the thread state lanes', () => {
  test('show state, reason, duration and line', async () => {
    await open(known());
    assert.match(await hoverTrack('main', .2, STATES), /main · blocked: other \(sleep\) for 30\.0 ms · waits::nap app\.rs:12/);
    assert.match(await hoverTrack('main', .6, STATES), /main · blocked: threads \(lock\) for 30\.0 ms · waits::locked app\.rs:20 · woken by worker/);
    assert.match(await hoverTrack('main', .825, STATES), /main · queued for a CPU for 5\.00 ms · waits::compute app\.rs:40/);
    assert.match(await hoverTrack('main', .95, STATES), /main · running for 15\.0 ms$/);
    assert.match(await hoverTrack('main', .2, CURVE), /main 0\.00 %/, 'the curve above is unchanged');
    assert.deepEqual(problems, []);
  });

  test('have distinct colours, and a legend with the sums', async () => {
    await open(known());
    const legend = await page.locator('.time-legend li').allTextContents();
    assert.deepEqual(legend, ['running 85.0 ms', 'queued for a CPU 5.00 ms', 'blocked: threads 30.0 ms', 'blocked: I/O 50.0 ms', 'blocked: other 30.0 ms', 'idle 100 ms']);
    // Patterns cover the colours: takes the most frequent colour of several positions.
    const colours = [];
    for (const across of [.05, .2, .6, .825]) {
      const seen = new Map();
      for (let shift = 0; shift < 8; shift++) {
        const [x, y] = await trackAt('main', across, STATES), colour = String(await colourAt([x + shift, y]));
        seen.set(colour, (seen.get(colour) ?? 0) + 1);
      }
      colours.push([...seen].sort((a, b) => b[1] - a[1])[0][0]);
    }
    assert.equal(new Set(colours).size, 4, colours.join(' | '));
  });

  test('show shares where a pixel has many waits', async () => {
    await open(pageOf('some', () => manyWaits({ count: 40_000 })));
    assert.match(await hoverTrack('worker-0', .5, STATES), /worker-0 · \d+ waits in [\d.]+ ms: running [\d.]+ %, .*(blocked: I\/O|blocked: threads) [\d.]+ %/);
  });

  test('select a wait and its thread by a click', async () => {
    await open(known(), '#m=2');
    await page.mouse.click(...await trackAt('main', .6, STATES));
    await settled();
    assert.match(await hash(), /t=0&b=/);
    assert.equal(await page.textContent('.brushed b'), '50.0 ms – 80.0 ms');
    assert.equal(await page.locator('.track.thread[aria-selected=true]').textContent().then(text => text.includes('main')), true);
    assert.deepEqual(await page.locator('.time-legend li').allTextContents(), ['blocked: threads 30.0 ms', 'queued for a CPU 1.00 µs'].reverse());
    await page.keyboard.press('Escape');
    await settled();
    assert.equal(await page.locator('.brushed').count(), 0);
  });

  test('can be hidden, and have a table for screen readers', async () => {
    await open(known());
    const rows = await page.$$eval('.timeline table tbody tr', rows => rows.map(row => [...row.cells].map(cell => cell.textContent).join(' | ')));
    assert.equal(rows.find(row => row.startsWith('main')), 'main | 35.0 ms | 5.00 ms | 30.0 ms | 0 ns | 30.0 ms | 0 ns | 1');
    assert.ok(rows.some(row => row.startsWith(EVIL)));
    const high = async () => (await page.locator('.track.thread').first().boundingBox()).height;
    const before = await high();
    await page.click('.track-chooser summary');
    await page.getByRole('checkbox', { name: 'Thread states' }).click();
    await settled();
    assert.equal(await high(), before - 16);
    assert.deepEqual(problems, [], 'a hostile name does nothing');
  });
});

test('without waits there are no thread states', async () => {
  await open(pageOf('small', small));
  assert.equal(await page.locator('.time-legend').count(), 0);
  assert.equal(await page.locator('.track', { hasText: 'Concurrent threads' }).count(), 0);
});

test('counts concurrent threads by state', async () => {
  await open(known());
  assert.match(await hoverTrack('Concurrent threads', .6, 20), /(0|0\.\d+|1) running, 1 blocked: threads, (0|0\.\d+|1) blocked: I\/O$|1 blocked: threads/);
  assert.equal(await page.locator('.track', { hasText: 'Concurrent threads' }).locator('.track-value').textContent(), '≤ 2');
});

describe('CPUs', () => {
  test('show the thread on each CPU, and where it moved from', async () => {
    await open(known());
    assert.equal(await page.locator('.track', { hasText: '4 CPUs' }).locator('.track-value').textContent(), '49 migrations');
    assert.match(await hoverTrack('CPU 0', .05, 8), /CPU 0 · main for 10\.0 ms · 1 migration in total$/);
    assert.match(await hoverTrack('CPU 1', .45, 8), /CPU 1 · main for 10\.0 ms · moved from CPU 0 · 1 migration in total$/);
    assert.match(await hoverTrack('CPU 1', .9, 8), /CPU 1 · no recorded thread/);
    await page.mouse.click(...await trackAt('CPU 1', .45, 8));
    await settled();
    assert.equal(await page.textContent('.brushed b'), '40.0 ms – 50.0 ms');
  });

  test('are collapsed when there are many, until expanded', async () => {
    await open(pageOf('cpus', () => waits({ cpus: 20 })));
    assert.equal(await page.locator('.track.cpu').count(), 0);
    await page.locator('.track', { hasText: '20 CPUs' }).locator('.track-twisty').click();
    await settled();
    assert.ok(await page.locator('.track.cpu').count() > 5);
    await page.click('.track-chooser summary');
    assert.equal(await page.getByLabel('Lanes for 20 CPUs').isChecked(), true);
    await page.keyboard.press('Escape');
  });
});

test('draws 400,000 waits at any zoom', async () => {
  await open(pageOf('many', manyWaits));
  assert.match(await hoverTrack('worker-0', .5, STATES), /worker-0 · \d+ waits in /);
  for (let turn = 0; turn < 6; turn++) {
    const [x, y] = await trackAt('worker-0', .5, STATES);
    await page.mouse.move(x, y);
    await page.keyboard.down('Control');
    await page.mouse.wheel(0, -600);
    await page.keyboard.up('Control');
    await settled();
  }
  assert.match(await hoverTrack('worker-0', .5, STATES), /worker-0 · /);
  assert.deepEqual(problems, []);
});

describe('the flame graph of wall time', () => {
  const legend = () => page.locator('.flame-bar .legend button').allTextContents();
  const selected = () => page.$eval('.toolbar select', select => select.value);
  const pixel = ([x, y]) => page.evaluate(([x, y]) => {
    const canvas = document.querySelector('.flame-window canvas'), { left, top } = canvas.getBoundingClientRect(), ratio = canvas.width / canvas.clientWidth;
    return String(canvas.getContext('2d').getImageData(Math.round((x - left) * ratio), Math.round((y - top) * ratio), 1, 1).data.slice(0, 3));
  }, [x, y]);

  test('is split by kinds of time, with sums in the legend and in each frame', async () => {
    await open(known(), '#m=2');
    assert.equal(await selected(), 'time');
    assert.deepEqual(await legend(), ['running 85.0 ms, 28.3 %', 'queued for a CPU 5.00 ms, 1.67 %', 'blocked: threads 30.0 ms, 10.0 %', 'blocked: I/O 50.0 ms, 16.7 %', 'blocked: other 30.0 ms, 10.0 %', 'idle 100 ms, 33.3 %']);
    const tip = await hoverFrame(.9, 0);
    assert.match(tip, /running 85\.0 ms, 28\.3 %\s+queued for a CPU 5\.00 ms, 1\.67 %/);
    // The root from left to right: running, queued for a CPU, threads, I/O, other, idle.
    await page.mouse.move(5, 5);
    const at = async across => pixel(await frame(across, 0));
    const colours = [];
    for (const across of [.2, .29, .35, .45, .6, .9]) colours.push(await at(across));
    assert.equal(new Set(colours).size, 6, colours.join(' | '));
    // For screen readers.
    await page.waitForFunction(() => [...document.querySelectorAll('.flame table td')].some(cell => cell.textContent === 'running 50.0 ms (50.0 %), blocked: I/O 50.0 ms (50.0 %)'));
  });

  test('has these colours only where there are kinds of time, unless another scheme is selected', async () => {
    await open(known());
    assert.equal(await selected(), 'kind', 'CPU time is unchanged');
    assert.equal(await page.locator('.toolbar option[value=time]').count(), 0);
    await page.selectOption('.metric select', '2');
    await settled();
    assert.equal(await selected(), 'time');
    await page.selectOption('.toolbar select', 'kind');
    await settled();
    assert.match((await legend())[0], /your code/);
    assert.match(await hash(), /c=kind/);
    await page.selectOption('.metric select', '1');
    await settled();
    assert.equal(await selected(), 'kind', 'the choice is kept');
  });

  test('dims everything but the selected kind, by mouse and keyboard', async () => {
    await open(known(), '#m=2');
    const idle = await frame(.9, 0), running = await frame(.2, 0);
    const before = [await pixel(idle), await pixel(running)];
    await page.locator('.flame-bar .legend button', { hasText: 'running' }).focus();
    await page.keyboard.press('Enter');
    await settled();
    assert.notEqual(await pixel(idle), before[0]);
    assert.equal(await pixel(running), before[1]);
  });

  test('shows callers by kinds of time, too', async () => {
    await open(known(), '#m=2&on=inv');
    assert.equal((await legend()).length, 6);
    assert.match(await hoverFrame(.1, 1, true), /idle 100 ms, 100\.0 %/);
    assert.deepEqual(problems, []);
  });
});

describe('the locks panel', () => {
  const open_ = () => open(pageOf('locks', locks), '#tab=locks');
  const about = () => page.locator('.locks-about').innerText();

  test('exists when threads waited for locks', async () => {
    await open(pageOf('without', () => waits({ cpus: 0 })));
    assert.equal(await page.getByRole('tab', { name: 'Locks' }).count(), 0);
    await open_();
    assert.equal(await page.getByRole('tab', { name: 'Locks' }).getAttribute('aria-selected'), 'true');
    assert.deepEqual(await rows('Locks'), [
      '97.6 % | 40.0 ms | 15 | 2.67 ms | 4.00 ms | 4.00 ms | std Mutex app::LOCK at 0x7f0012345678 | locks::update app.rs:20 | main',
      '2.44 % | 1.00 ms | 1 | 1.00 ms | 1.00 ms | 1.00 ms | parking_lot Mutex | locks::log app.rs:30 | ',
    ]);
    assert.match(await page.textContent('.locks > .status'), /waited 41\.0 ms for 2 locks/);
  });

  test('shows where threads waited for the selected lock, and which threads held it', async () => {
    await open_();
    assert.match(await about(), /All locks[\s\S]*Waiting threads and lock holders[\s\S]*worker[\s\S]*main/);
    await grid('Locks').locator('tbody tr').first().click();
    await settled();
    assert.match(await about(), /std Mutex app::LOCK at 0x7f0012345678[\s\S]*Waits at[\s\S]*locks::update app\.rs:20[\s\S]*20\.0 ms[\s\S]*Released at, by thread[\s\S]*locks::hold app\.rs:60\s+main/);
    assert.ok((await about()).includes(EVIL), 'a hostile name is text');
    await page.keyboard.press('ArrowDown');
    await settled();
    assert.match(await cursor('Locks'), /parking_lot/);
    assert.match(await about(), /The holder is not known\. whyslow record --wakers/);
    await page.keyboard.press('Enter');
    await settled();
    assert.equal(await page.getByRole('tab', { name: 'Flame' }).getAttribute('aria-selected'), 'true');
    assert.equal(await page.$eval('.metric select', select => select.value), '1', 'by waits');
    assert.deepEqual(problems, []);
  });

  test('follows the selected time', async () => {
    await open_();
    await brush(.0, .2);
    assert.match((await rows('Locks'))[0], /^100\.0 % \| 12\.0 ms \| 4 \|/);
  });
});

describe('the critical path panel', () => {
  const open_ = (more = '') => open(pageOf('waits', waits), `#tab=critical${more}`);
  const way = () => page.locator('.locks-about tbody tr').allInnerTexts();

  test('exists when wakers are known, and follows them', async () => {
    await open(pageOf('without', () => waits({ cpus: 0 })));
    assert.equal(await page.getByRole('tab', { name: 'Critical path' }).count(), 0);
    await open_();
    assert.equal(await page.getByRole('tab', { name: 'Critical path' }).getAttribute('aria-selected'), 'true');
    assert.deepEqual((await rows('Critical path')).sort(), [
      '15.0 % | 15.0 ms | ran | main | waits::compute app.rs:40',
      '40.0 % | 40.0 ms | file | worker | waits::read app.rs:30',
      '40.0 % | 40.0 ms | ran | worker | waits::work app.rs:28',
      '5.00 % | 5.00 ms | queued | main | (queued for a CPU)',
    ]);
    assert.match(await page.textContent('.locks .tools [role=status]'), /55\.0 ms running \(55\.0 %\), 45\.0 ms waiting/);
    assert.deepEqual((await way()).map(row => row.split(/\s+/).join(' ')), ['0 ns worker 80.0 ms 40.0 ms', '80.0 ms main 20.0 ms 15.0 ms']);
  });

  test('a part of the path selects its time, which has its own path', async () => {
    await open_();
    await page.locator('.locks-about tbody button').last().click();
    await settled();
    assert.match(await page.textContent('.brushed'), /20\.0 ms/);
    assert.match(await page.textContent('.locks .tools [role=status]'), /15\.0 ms running \(75\.0 %\)/);
    assert.deepEqual(problems, []);
  });
});
