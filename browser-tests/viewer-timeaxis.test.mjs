// What is on the axis of the timeline, in a real browser: the stack chart, the live heap over time, and the
// critical path. A point in time is at one place in all of them.

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { heap } from '../viewer/test/heap.mjs';
import { known } from '../viewer/test/known.mjs';
import { realistic } from '../viewer/test/make-payload.mjs';
import { waits } from '../viewer/test/waits.mjs';
import { FIREFOX } from './browser.mjs';
import { box, brush, hash, open, page, pageOf, problems, settled } from './opened.mjs';

afterEach(() => assert.deepEqual(problems, [], 'no errors, no requests, no dialogs'));

const ms = time => (time * 1e6).toString(36);
const edges = async selector => { const { x, width } = await box(selector); return [Math.round(x), Math.round(width)]; };
const shownTime = () => page.innerText('.chart .figures');
const shownRange = () => page.innerText('.ranges button[aria-current]');

describe('the stack chart', () => {
  test('has the edges of the timeline in every window', async () => {
    for (const [width, height] of [[1300, 850], [800, 600], [390, 844]]) {
      await open(pageOf('realistic', realistic), '#tab=chart', { viewport: { width, height } });
      assert.deepEqual(await edges('.chart-canvas canvas'), await edges('.timeline-window canvas'), `${width} × ${height}`);
    }
  });

  test('shows the time of the timeline, and a time selection at the same place', async () => {
    await open(pageOf('known', known), '#tab=chart');
    await brush(.2, .6);
    assert.match(await shownTime(), /^0 ns – 100 ms/, 'a time selection is a part of the shown time');
    assert.deepEqual(await edges('.chart-canvas .timeline-brush'), await edges('.timeline-window .timeline-brush'));
    await page.keyboard.press('t');
    await page.keyboard.press('Enter');
    await settled();
    assert.match(await shownTime(), /^20\.\d ms – (59\.\d|60\.0) ms/);
    assert.equal(await page.locator('.timeline-brush').count(), 0);
  });

  test('zooms and moves the timeline, with the keyboard and the wheel', async () => {
    await open(pageOf('known', known), '#tab=chart');
    await page.locator('.chart canvas').focus();
    for (const key of ['+', '+', '+']) await page.keyboard.press(key);
    await settled();
    const zoomed = await shownTime();
    assert.match(zoomed, /34\.3 ms$/, 'three times 0.7');
    assert.match(await shownRange(), /^32\.\d+ ms – 67\.\d+ ms$/);
    await page.keyboard.press('ArrowLeft');
    await settled();
    assert.match(await shownTime(), /^28\.6 ms – 62\.9 ms +34\.3 ms$/);
    await page.keyboard.press('0');
    await settled();
    assert.match(await shownRange(), /^All/);
    if (FIREFOX) return; // WebDriver BiDi turns the wheel only where the page scrolls
    const { x, y, width } = await box('.chart-canvas canvas');
    await page.mouse.move(x + width / 4, y + 60);
    await page.mouse.wheel(0, -400);
    await page.waitForFunction(() => !document.querySelector('.chart .figures').innerText.startsWith('0 ns – 100 ms'));
    assert.notEqual(await shownRange(), 'All 100 ms');
  });
});

describe('live bytes over time', () => {
  const held = async () => page.$eval('table[aria-label="Live bytes over time as a table"]', table =>
    [...table.querySelectorAll('tbody tr')].map(row => [...row.cells].map(cell => cell.textContent).join(' | ')));

  test('are stacked by allocation site, on the axis of the timeline', async () => {
    await open(pageOf('heap', heap), '#tab=heap', { viewport: { width: 1300, height: 900 } });
    assert.deepEqual(await edges('.heap-area canvas'), await edges('.timeline-window canvas'));
    // At 0, 252, 502, 750 and 1,000 ms: see heap.mjs.
    assert.deepEqual(await held(), [
      'known::parse::tokens src/parse.rs:40 | 640 KiB | 16.3 MiB | 31.3 MiB | 0 B | 0 B',
      'known::cache::insert src/cache.rs:12 | 100 KiB | 2.54 MiB | 4.98 MiB | 7.42 MiB | 9.77 MiB',
      'known::job::run src/job.rs:3 | 80.0 KiB | 0 B | 80.0 KiB | 0 B | 0 B',
    ]);
    assert.equal(await page.innerText('.heap-top'), '37.1 MiB', 'the same as the peak');
  });

  test('follow the range, the threads and the filters', async () => {
    await open(pageOf('heap', heap), `#tab=heap&r=${ms(700)}-${ms(900)}`, { viewport: { width: 1300, height: 900 } });
    assert.deepEqual((await held()).map(row => row.split(' | ')[0]), ['known::cache::insert src/cache.rs:12', 'known::job::run src/job.rs:3'], 'what is live in this time');
    await open(pageOf('heap', heap), '#tab=heap&t=1', { viewport: { width: 1300, height: 900 } });
    assert.deepEqual((await held()).map(row => row.split(' | ')[0]), ['known::job::run src/job.rs:3']);
    // Without the stacks of the function that the site is in.
    await open(pageOf('heap', heap), '#tab=heap&x=h3', { viewport: { width: 1300, height: 900 } });
    const all = ['parse', 'cache', 'job'], without = (await held()).map(row => /known::(\w+)/.exec(row)[1]);
    assert.equal(without.length, 2, `hides one of ${all}`);
  });

  test('name what is under the pointer, and a click selects it everywhere', async () => {
    await open(pageOf('heap', heap), '#tab=heap', { viewport: { width: 1300, height: 900 } });
    const { x, y, width, height } = await box('.heap-area canvas');
    await page.mouse.move(x + width * .5 - 1, y + height * .7);
    await page.mouse.move(x + width * .5, y + height * .7);
    await settled();
    assert.match((await page.innerText('.heap-pointed')).replace(/\s+/g, ' '), /known::parse::tokens src\/parse\.rs:40 (30\.6|31\.3) MiB, 8\d\.\d % of 3\d\.\d MiB at (499|500) ms/);
    await page.mouse.click(x + width * .5, y + height * .7);
    await settled();
    assert.match(await page.innerText('.heap-about'), /^known::parse::tokens/);
    assert.equal(await page.getAttribute('.heap-holders button:last-child', 'aria-pressed'), 'true');
    assert.match(await hash(), /&fn=\w+.*&z=/, 'the function, and its place in the flame graph');
    await page.getByRole('group', { name: 'Stacked by' }).getByRole('button', { name: 'Functions' }).click();
    assert.deepEqual((await held()).map(row => row.split(' | ')[0]), ['known::parse::tokens', 'known::cache::insert', 'known::job::run']);
    await page.getByRole('button', { name: 'Over time' }).click();
    assert.equal(await page.locator('.heap-chart').count(), 0);
  });

  test('leave the room of a small window to the table, and have an empty state', async () => {
    await open(pageOf('heap', heap), '#tab=heap', { viewport: { width: 800, height: 600 } });
    assert.equal(await page.locator('.heap-chart').count(), 0);
    await page.getByRole('button', { name: 'Over time' }).click();
    await page.locator('.heap-chart').scrollIntoViewIfNeeded();
    assert.ok((await box('.heap-body')).height >= 100, 'the table keeps some rows');
    await open(pageOf('heap', heap), '#tab=heap&t=0&x=f5', { viewport: { width: 1300, height: 900 } });
    assert.match(await page.innerText('.heap-area'), /Nothing of the selection was live/);
  });
});

describe('the critical path', () => {
  /** Whether a pixel of the timeline has the colour of the path. */
  const isPath = (x, y) => page.$eval('.timeline-window canvas', (canvas, [x, y]) => {
    const { width, height } = canvas.getBoundingClientRect();
    const [red, green, blue] = canvas.getContext('2d').getImageData(Math.round(x * canvas.width / width), Math.round(y * canvas.height / height), 1, 1).data;
    return red > 150 && green < 90 && blue > 50 && blue < 140;
  }, [x, y]);
  const rowTop = async name => {
    const { y } = await page.locator('.track.thread', { hasText: name }).boundingBox();
    return y - (await box('.timeline-window canvas')).y;
  };

  test('is drawn on the threads that it passes through while its panel is open', async () => {
    await open(pageOf('waits', waits), '#tab=critical&theme=light', { viewport: { width: 1300, height: 850 } });
    const { width } = await box('.timeline-window canvas'), at = time => time / 100 * width;
    const worker = await rowTop('worker'), main = await rowTop('main');
    // worker runs in every odd millisecond up to 80, main from 85 to 100; what waits is hollow.
    assert.ok(await isPath(at(3.5), worker + 4), 'the worker runs');
    assert.ok(!await isPath(at(2.5), worker + 4) && await isPath(at(2.5), worker + 2), 'the worker waits');
    assert.ok(await isPath(at(92), main + 4), 'main runs');
    assert.ok(!await isPath(at(92), worker + 4) && !await isPath(at(45), main + 4), 'not on the path');
    assert.ok(await isPath(Math.round(at(80)) + .2, (worker + main) / 2), 'goes on in main at 80 ms');
    const { x, y } = await box('.timeline-window canvas');
    await page.mouse.move(x + at(92) - 1, y + main + 10);
    await page.mouse.move(x + at(92), y + main + 10);
    await settled();
    assert.match(await page.innerText('.timeline-hover'), /critical path: ran/);
  });

  test('can be switched on and off, and follows the selected time', async () => {
    await open(pageOf('waits', waits), '#tab=critical&theme=light', { viewport: { width: 1300, height: 850 } });
    const { width } = await box('.timeline-window canvas'), at = time => time / 100 * width, main = await rowTop('main');
    await page.getByRole('button', { name: 'Draw on the timeline' }).click();
    await settled();
    assert.ok(!await isPath(at(92), main + 4));
    assert.match(await hash(), /p\.critical-drawn=off/);
    await open(pageOf('waits', waits), `#theme=light&p.critical-drawn=on&b=${ms(86)}-${ms(94)}`, { viewport: { width: 1300, height: 850 } });
    await settled();
    assert.ok(await isPath(at(92), main + 4) && !await isPath(at(97), main + 4), 'only in the selected time');
    await page.locator('.track-chooser summary').click();
    await page.getByLabel('Critical path').uncheck();
    await settled();
    assert.ok(!await isPath(at(92), main + 4));
  });

  test('is offered only where wakers were recorded', async () => {
    await open(pageOf('unwoken', () => waits({ cpus: 0 })), '#p.critical-drawn=on&theme=light');
    await page.locator('.track-chooser summary').click();
    assert.equal(await page.getByLabel('Critical path').count(), 0);
  });
});
