// The viewer's search in a real browser: matches, going from match to match in every panel, hostile patterns.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { heap } from '../viewer/test/heap.mjs';
import { known } from '../viewer/test/known.mjs';
import { Payload, small } from '../viewer/test/make-payload.mjs';
import { clickFrame, cursor, found, open, page, pageOf, problems, settled, tip } from './opened.mjs';

afterEach(() => assert.deepEqual(problems, [], 'no errors, no requests, no dialogs'));

describe('a small profile with known answers', () => {
  beforeEach(() => open(pageOf('small', small)));

  test('search: matched share with recursion counted once, next and previous, regular expressions', async () => {
    await page.keyboard.press('/');
    await page.keyboard.type('PARSE');
    assert.equal(await found(), '2 matches · 60.0 % matched');
    await page.keyboard.press('Enter');
    await settled();
    assert.match(await tip(), /app::parse[^]*total 6\.00 ms/);
    await page.getByRole('button', { name: 'Next match' }).click();
    await settled();
    assert.match(await tip(), /app::parse[^]*total 5\.00 ms/);
    await page.getByRole('button', { name: 'Previous match' }).click();
    await settled();
    assert.match(await tip(), /total 6\.00 ms/);
    await page.fill('#search', '^(app::work|alloc)');
    assert.equal(await found(), 'no matches');
    await page.getByRole('button', { name: 'Regular expression' }).click();
    assert.equal(await found(), '2 matches · 68.0 % matched');
    await page.fill('#search', '(');
    assert.match(await found(), /Invalid regular expression/);
    assert.equal(await page.getAttribute('#search', 'aria-invalid'), 'true');
    await page.locator('#search').press('Escape');
    assert.equal(await page.inputValue('#search'), '');
    assert.equal(await found(), '');
  });

  test('the matched share is of the zoomed frame', async () => {
    await clickFrame(.1, 1);
    await page.fill('#search', 'alloc');
    assert.equal(await found(), '1 match · 50.0 % matched');
  });
});

describe('from match to match', () => {
  const selected = () => page.evaluate(() => new URLSearchParams(location.hash.slice(1)).get('fn'));

  test('n and N show the position among the matches, and select it', async () => {
    await open(pageOf('known', known), '#q=sum');
    assert.equal(await found(), '1 match · 70.0 % matched');
    await page.keyboard.press('n');
    await settled();
    assert.equal(await found(), '1 of 1 · 70.0 % matched');
    assert.match(await tip(), /app::sum/);
    await page.waitForFunction(() => /fn=1(&|$)/.test(location.hash));
    await page.fill('#search', 'app::');
    assert.match(await found(), /^4 matches · 100\.0 %/);
    await page.locator('#search').blur();
    await page.keyboard.press('N');
    await settled();
    assert.match(await found(), /^4 of 4 · /);
    await page.keyboard.press('n');
    assert.match(await found(), /^1 of 4 · /);
  });

  test('in the function table and the source', async () => {
    await open(pageOf('known', known), '#tab=functions&q=app::');
    assert.match(await found(), /^4 matches/);
    for (const [key, name, at] of [['n', 'app::sum', 1], ['n', 'app::walk', 2], ['N', 'app::sum', 1], ['N', 'app::work', 4]]) {
      await page.keyboard.press(key);
      await settled();
      assert.ok((await cursor('Functions')).includes(name), `${key} → ${name}`);
      assert.ok((await found()).startsWith(`${at} of 4 · `), await found());
    }
    await page.keyboard.press('4');
    await page.keyboard.press('n');
    await settled();
    assert.match(await page.textContent('.source .tools'), /app::main/);
    assert.match(await found(), /^1 of 4/);
    await page.keyboard.press('n');
    await settled();
    assert.match(await page.textContent('.source .tools'), /app::sum/);
  });

  test('in the stack chart, in time order', async () => {
    await open(pageOf('known', known), '#tab=chart&q=walk');
    assert.match(await found(), /^1 match ·/);
    await page.fill('#search', 'sum');
    await page.locator('#search').press('Enter');
    await settled();
    assert.match(await found(), /^1 of 1/);
    await page.waitForFunction(() => /fn=1(&|$)/.test(location.hash));
    assert.equal(await selected(), '1');
  });

  test('in spans by name, in the heap by allocating function', async () => {
    await open(pageOf('known', known), '#tab=spans&q=jo');
    await page.keyboard.press('n');
    await settled();
    assert.match(await cursor('Spans by name'), /^job/);
    assert.match(await found(), /^1 of 1/);
    await open(pageOf('heap', heap), '#tab=heap');
    const name = await page.locator('#panel table[aria-label="Allocation sites"] tbody tr').nth(1).locator('.name .text').textContent();
    await page.fill('#search', name);
    await page.locator('#search').press('Enter');
    await settled();
    assert.ok((await cursor('Allocation sites')).includes(name));
    assert.match(await found(), /^1 of [1-9]/);
  });
});

test('a pattern with nested repeats in the address does not freeze the page', async () => {
  const long = () => {
    const p = new Payload();
    p.metric('cpu', 1);
    p.sample(0, 0, p.thread(p.process(1, 'long'), 1, 'main'), p.stack(0xffffffff, p.location(0xffffffff, 1, [[p.fn(`${'a'.repeat(5000)}!`, 'app'), undefined, 0]])), 1000);
    return p.container();
  };
  for (const [pattern, message] of [['(a+)+$', /no matches/], ['(a|a)*!$', /1 match ·/], ['(.*)*x', /no matches/], ['(a{90}){90}', /Pattern too large/], ['(a)\\1', /not supported/]]) {
    await open(pageOf('long', long), `#on=re&q=${encodeURIComponent(pattern)}`);
    assert.match(await found(), message, pattern);
  }
});
