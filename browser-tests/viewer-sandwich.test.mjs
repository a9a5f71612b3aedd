// Callers and callees of a function as two flame graphs, in a real browser; viewer/test/known.mjs has the numbers.

import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { known } from '../viewer/test/known.mjs';
import { realistic } from '../viewer/test/make-payload.mjs';
import { box, hash, open, page, pageOf, problems, settled } from './opened.mjs';

afterEach(() => assert.deepEqual(problems, [], 'no errors, no requests, no dialogs'));

const fn = { main: 0, sum: 1, add: 2, walk: 3, hash: 4, work: 5, copy: 6 };
const half = name => `.sandwich-flames section[aria-label=${name}]`;
/** The frames in view: the table for screen readers follows the drawing after a short time. */
const frames = async (name, count) => {
  await page.waitForFunction(([selector, count]) => document.querySelectorAll(`${selector} tbody tr`).length === count, [half(name), count]);
  return page.$eval(half(name), section => [...section.querySelectorAll('tbody tr')].map(row => [...row.cells].map(cell => cell.textContent).join(' | ')));
};
const openKnown = fn => open(pageOf('known', known), `#tab=functions&fn=${fn}&p.sandwich-view=flame`, { viewport: { width: 1300, height: 1000 } });

test('callers are above and callees below the function, each sample once', async () => {
  await openKnown(fn.hash);
  assert.deepEqual(await frames('Callers', 3), [
    'app::sum | 1 | 10.0 ms | 50.0 % | 0 ns',
    'app::work | 1 | 10.0 ms | 50.0 % | 10.0 ms',
    'app::main | 2 | 10.0 ms | 50.0 % | 10.0 ms',
  ]);
  assert.deepEqual(await frames('Callees', 1), ['dep::hash | 0 | 20.0 ms | 100.0 % | 20.0 ms']);
  await openKnown(fn.walk);
  assert.deepEqual(await frames('Callees', 2), ['app::walk | 0 | 20.0 ms | 100.0 % | 10.0 ms', 'memcpy | 1 | 10.0 ms | 50.0 % | 10.0 ms'], 'recursion counts once');
  assert.deepEqual(await frames('Callers', 1), ['app::main | 1 | 20.0 ms | 100.0 % | 20.0 ms']);
});

test('both graphs meet at the function and have the same width, in small windows too', async () => {
  for (const [width, height] of [[1300, 850], [800, 600], [390, 844]]) {
    await open(pageOf('realistic', realistic), '#tab=functions&fn=8&p.sandwich-view=flame', { viewport: { width, height } });
    const above = await box(`${half('Callers')} canvas`), below = await box(`${half('Callees')} canvas`);
    assert.deepEqual([above.x, above.width], [below.x, below.width], `${width} × ${height}`);
    assert.ok(Math.abs(above.y + above.height - below.y) <= 1, `${width} × ${height}: ${JSON.stringify([above, below])}`);
    assert.ok(above.height >= 40 && below.height >= 40);
  }
});

test('a frame zooms its graph, the root zooms out, and the menu goes to its function', async () => {
  await openKnown(fn.sum);
  const { x, y, width } = await box(`${half('Callees')} canvas`);
  // Below sum: add 40 of 70 ms, then hash 10.
  const add = [x + width * .2, y + 4 + 18 * 1.5];
  await page.mouse.click(...add);
  await settled();
  assert.match(await page.locator('.tip').innerText(), /core::num::add\s+total 40\.0 ms, 57\.1 %/);
  await page.mouse.move(x + width * .9 - 1, add[1]);
  await page.mouse.move(x + width * .9, add[1]);
  await settled();
  assert.match(await page.locator('.tip').innerText(), /core::num::add/, 'fills the width');
  await page.mouse.click(x + width / 2, y + 12);
  await settled();
  await page.mouse.move(x + width * .6, add[1]);
  await settled();
  assert.match(await page.locator('.tip').innerText(), /dep::hash/, 'zoomed out');
  await page.mouse.click(x + width * .6, add[1], { button: 'right' });
  await page.getByRole('menuitem', { name: 'Show in the function table' }).click();
  await settled();
  assert.match(await page.innerText('.sandwich .tools strong'), /dep::hash/);
  assert.match(await hash(), /fn=4/);
});

test('without callers, without samples, and from the flame graph', async () => {
  await openKnown(fn.main);
  assert.match(await page.innerText(half('Callers')), /No callers/);
  await open(pageOf('known', known), `#tab=functions&fn=${fn.main}&p.sandwich-view=flame&t=1`);
  assert.match(await page.innerText('.sandwich'), /No selected sample contains this function/);
  await page.getByRole('button', { name: 'Tables' }).click();
  assert.equal(await page.locator('.sandwich-flames').count(), 0);
  await open(pageOf('known', known), '');
  const graph = await box('.flame-window canvas');
  await page.mouse.click(graph.x + 60, graph.y + graph.height - 4 - 27, { button: 'right' });
  await page.getByRole('menuitem', { name: 'Show callers and callees as flame graphs' }).click();
  await settled();
  assert.equal(await page.locator('.sandwich-flames').count(), 1);
  assert.equal(await page.getAttribute('#tab-functions', 'aria-selected'), 'true');
});

test('keys work in both graphs', async () => {
  await openKnown(fn.sum);
  await page.locator(`${half('Callees')} [role=application]`).focus();
  for (const key of ['ArrowDown', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
  await settled();
  assert.match(await page.textContent(`${half('Callees')} [role=status]`), /^core::num::add, total 40\.0 ms/);
  await page.locator(`${half('Callers')} [role=application]`).focus();
  for (const key of ['ArrowUp', 'ArrowUp']) await page.keyboard.press(key);
  await settled();
  assert.match(await page.textContent(`${half('Callers')} [role=status]`), /^app::main, total 70\.0 ms/);
  await page.keyboard.press('h');
  await settled();
  assert.match(await page.innerText('.chips'), /Without\s+app::main|Without\s+main/);
});
