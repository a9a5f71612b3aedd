// Accessibility: axe-core finds no violations in any panel, light or dark, and keyboard tests cover what it
// cannot check.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { describe, test } from 'node:test';
import { causal } from '../viewer/test/causal.mjs';
import { found } from '../viewer/test/found.mjs';
import { heap } from '../viewer/test/heap.mjs';
import { SHAPES } from '../viewer/test/make-payload.mjs';
import { parallel } from '../viewer/test/parallel.mjs';
import { tasks } from '../viewer/test/tasks.mjs';
import { locks, waits } from '../viewer/test/waits.mjs';
import { facts, open, page, pageOf, problems, settled } from './opened.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const realistic = () => pageOf('realistic', SHAPES.realistic);

/** axe's violations: the rule, and where. */
async function objections(where) {
  await page.evaluate(`window.axe ?? (() => { ${AXE} })(); 0`);
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }));
  return violations.flatMap(({ id, help, nodes }) => nodes.map(node => `${where}: ${id} (${help}): ${node.target} ${node.html.slice(0, 160)}`));
}

describe('axe-core finds no violations', () => {
  for (const theme of ['light', 'dark']) {
    test(`in ${theme} panels`, async () => {
      const all = [];
      for (const file of [realistic(), pageOf('heap', () => heap({ cpu: true, processes: true })), pageOf('waits', waits), pageOf('locks', locks), pageOf('parallel', parallel), pageOf('tasks', tasks), pageOf('findings', found), pageOf('causal', causal)]) {
        await open(file, `#theme=${theme}`);
        assert.equal(await page.getAttribute('html', 'data-theme'), theme);
        for (const tab of await page.getByRole('tab').all()) {
          await tab.click();
          await settled();
          all.push(...await objections(await tab.textContent()));
          // A selected function fills the following panels.
          if (await tab.textContent() === 'Functions') await page.locator('#panel tbody tr').nth(1).click();
        }
      }
      assert.deepEqual(all, []);
      assert.deepEqual(problems, []);
    });
  }

  test('in the help dialog, a frame’s context menu, and the search', async () => {
    await open(realistic());
    const all = [];
    await page.fill('#search', 'a');
    await page.locator('.flame-scroll').focus();
    await page.keyboard.press('ArrowUp'); // everything
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('Shift+F10');
    await page.waitForSelector('[role=menu]');
    all.push(...await objections('menu'));
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    await page.waitForSelector('dialog');
    all.push(...await objections('help'));
    assert.deepEqual(all, []);
  });
});

test('processes can be selected with the keyboard', async () => {
  await open(realistic());
  const whole = await facts();
  await page.keyboard.press('t');
  await page.keyboard.press('Home');
  const active = () => page.evaluate(() => {
    const element = document.getElementById(document.activeElement.getAttribute('aria-activedescendant'));
    return [element.getAttribute('role'), element.className, element.getAttribute('aria-selected')];
  });
  assert.deepEqual(await active(), ['option', 'track process active', 'false']);
  await page.keyboard.press('Space');
  await settled();
  assert.deepEqual(await active(), ['option', 'track process active', 'true']);
  const [selected, threads] = [await page.locator('.track.thread[aria-selected=true]').count(), await page.textContent('.thread-count')];
  assert.ok(selected > 0 && threads.includes(' of '), threads);
  assert.notEqual(await facts(), whole);
  await page.keyboard.press('Space');
  await settled();
  assert.equal(await facts(), whole);
});

test('Quality scrolls with the keyboard', async () => {
  await open(realistic(), '', { viewport: { width: 900, height: 420 } });
  await page.keyboard.press('7');
  await settled();
  const scrolled = () => page.$eval('.quality', element => element.scrollTop);
  assert.equal(await scrolled(), 0);
  await page.keyboard.press('End');
  await page.waitForFunction(() => document.querySelector('.quality').scrollTop > 0);
});
