// The findings panel: a generated profile with known answers, and an imported one that must match `whyslow
// explain`.
//
// WHYSLOW names the executable.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { found as findings } from '../viewer/test/found.mjs';
import { small } from '../viewer/test/make-payload.mjs';
import { FIREFOX, without } from './browser.mjs';
import { cursor, folder, found, hash, open, page, pageOf, problems, settled } from './opened.mjs';

const WHYSLOW = process.env.WHYSLOW;
const known = () => pageOf('findings', findings);
const words = async text => (await text).replace(/\s+/g, ' ').trim();
const card = at => page.locator('.finding').nth(at);
const press = async (at, name) => { await card(at).getByRole('button', { name, exact: true }).click(); await settled(); };
const shownTab = () => page.locator('[role=tab][aria-selected=true]').textContent();
/** The label of the focused element. */
const focused = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.className ?? '');
/** How saturated the flame graph's colours are at a position: from 0 to 255 apart. */
const strength = (across, depth) => page.evaluate(([across, depth]) => {
  const canvas = document.querySelector('.flame-window canvas'), scale = canvas.width / canvas.getBoundingClientRect().width;
  const height = canvas.getBoundingClientRect().height;
  const [, , , alpha] = canvas.getContext('2d').getImageData(Math.round(across * canvas.width), Math.round((height - 4 - depth * 18 - 3) * scale), 1, 1).data;
  return alpha;
}, [across, depth]);

describe('the findings panel', () => {
  test('shows what, how much, where, what to do, and how to check', async () => {
    await open(known(), '#tab=findings');
    assert.equal(await words(page.locator('.findings > [role=status]').innerText()), '3 findings in the whole recording, largest possible gain first. 1 allowed and not shown.');
    const first = await words(card(0).innerText());
    assert.match(first, /^1\. values are formatted formatting 40\.0 % of CPU time \(31\.0 to 50\.0\) at most 1\.67 times as fast without it confidence: high At app::show \S*main\.rs:22 out \+= &format!\("\{word\}"\);/i);
    assert.match(first, /40\.0 % in core::fmt::write core\/fmt\.rs:2 Do: write into one buffer Check: whyslow verify found\.whyslow Copy Show in flame graph Show source$/);
    assert.match(await words(card(2).innerText()), /the program <b>waits<\/b> mostly-waiting 20\.0 % of elapsed time \(20\.0 to 20\.0\) confidence: low for nobody Do: see for what Check: whyslow verify found\.whyslow Copy$/i);
    assert.match(await words(page.locator('.findings > p').last().innerText()), /^one hotspot: app::main/);
    const [bar, whole] = await page.$eval('.finding-bar', element => [element.querySelector('i').getBoundingClientRect().width, element.getBoundingClientRect().width]);
    assert.ok(Math.abs(bar / whole - .4) < .01, `the bar is ${bar} of ${whole}`);
    assert.deepEqual(problems, []);
  });

  test('a click highlights its frames in the flame graph, and Escape or undo removes the highlight', async () => {
    await open(known(), '#tab=findings');
    await press(1, 'keys are hashed with SipHash');
    assert.equal(await shownTab(), 'Flame');
    assert.equal(await focused(), await page.getAttribute('.flame-scroll', 'aria-label'), 'the focus moves to the graph');
    assert.equal(await found(), '2 matches · 40.0 % highlighted');
    // From the left, heaviest first: count (50 %) with hash (30 %), show (40 %), hash of main (10 %).
    const [marked, unmarked] = [await strength(.1, 3), await strength(.6, 2)];
    assert.ok(marked > 200 && unmarked < 120, `hash has ${marked}, show has ${unmarked}`);
    assert.match(await page.locator('.chips').innerText(), /Finding\s+keys are hashed with SipHash/);
    assert.match(await hash(), /found=1/);
    await page.keyboard.press('n');
    await settled();
    assert.equal(await found(), '1 of 2 · 40.0 % highlighted');
    await page.keyboard.press('Escape');
    await settled();
    assert.equal(await found(), '');
    assert.ok(await strength(.6, 2) > 200, 'nothing is dimmed');
    await page.keyboard.press('u');
    await settled();
    assert.match(await found(), /40\.0 % highlighted$/, 'undo highlights them again');
    await page.getByRole('button', { name: 'Remove: Finding keys are hashed with SipHash' }).click();
    await settled();
    assert.equal(await found(), '');
    assert.deepEqual(problems, []);
  });

  test('an address restores the highlight, and a search takes precedence', async () => {
    await open(known(), '#found=0');
    assert.equal(await found(), '1 match · 40.0 % highlighted');
    await page.fill('#search', 'app::count');
    await settled();
    assert.match(await found(), /50\.0 % matched$/);
    await open(known(), '#found=9');
    assert.equal(await found(), '', 'one that does not exist');
  });

  test('links to its line, and to its instructions where the profile has them', async () => {
    await open(known(), '#tab=findings');
    await press(1, 'Show source');
    assert.equal(await shownTab(), 'Source');
    assert.match(await cursor('Source lines'), /12\s*\*seen\.entry\(word\)/);
    assert.equal(await focused(), 'Source lines');
    await hash(); // waits until it is written
    await page.reload();
    await page.waitForSelector('.app');
    await settled();
    assert.match(await cursor('Source lines'), /12\s*\*seen\.entry\(word\)/, 'the address has the line');
    await page.getByRole('tab', { name: 'Findings' }).click();
    await press(1, 'Show instructions');
    assert.match(await cursor('Instructions'), /call core::hash::sip::hash/);
    assert.equal(await focused(), 'Instructions');
    await page.getByRole('tab', { name: 'Findings' }).click();
    assert.equal(await card(0).getByRole('button', { name: 'Show instructions' }).count(), 0, 'the profile has no code of show');
    assert.deepEqual(problems, []);
  });

  test('works with the keyboard alone, and copies the command', async () => {
    await open(known());
    if (!FIREFOX) await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.keyboard.press('2');
    await settled();
    assert.equal(await shownTab(), 'Findings');
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'values are formatted');
    await page.keyboard.press('Tab');
    assert.equal(await focused(), 'Copy the command that checks finding 1');
    await page.keyboard.press('Enter');
    await settled();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Copied');
    if (!FIREFOX) assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'whyslow verify found.whyslow');
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Enter');
    await settled();
    assert.equal(await shownTab(), 'Flame');
    assert.deepEqual(problems, []);
  });

  test('shows the summary without findings, and is missing without explain', async () => {
    await open(pageOf('nothing-found', () => findings({ findings: false })), '#tab=findings');
    assert.equal(await words(page.locator('.findings').innerText()), 'No known pattern stands out. one hotspot: app::main has 100.0 % of the time. Look at its lines: whyslow report found.whyslow lines');
    await open(pageOf('small', small), '#tab=findings');
    assert.equal(await page.getByRole('tab', { name: 'Findings' }).count(), 0);
    assert.equal(await shownTab(), 'Flame');
  });

  for (const width of [400, 600, 1200]) {
    test(`is not cut off in a window of ${width} pixels`, async () => {
      await open(known(), '#tab=findings&found=1', { viewport: { width, height: 900 } });
      const outside = await page.evaluate(() => [...document.querySelectorAll('.findings *')].filter(element => element.getBoundingClientRect().right > innerWidth + 1).map(element => element.className || element.tagName));
      assert.deepEqual(outside, []);
    });
  }

  test('prints completely, without buttons', { skip: FIREFOX && 'Firefox does not emulate paper' }, async () => {
    await open(known(), '#tab=findings', { viewport: { width: 1200, height: 500 } });
    await page.emulateMedia({ media: 'print' });
    assert.equal(await page.locator('.finding-links').first().isVisible(), false);
    assert.equal(await page.locator('.copy').first().isVisible(), false);
    const [shown, whole] = await page.$eval('.findings', element => [element.clientHeight, element.scrollHeight]);
    assert.equal(shown, whole);
  });
});

test('an imported profile matches explain', { skip: without(WHYSLOW, 'WHYSLOW does not name the executable') }, async () => {
  const whyslow = (...args) => execFileSync(WHYSLOW, args, { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'pipe'], cwd: folder });
  const kinds = [['main', 'app::count', 'core::hash::sip::Hasher::write'], ['main', 'app::work'], ['main', 'app::show', 'core::fmt::write']];
  const script = Array.from({ length: 900 }, (_, at) => [
    `app 100/100 ${(5 + at / 1000).toFixed(6)}: 1000000 cpu-clock:`, ...kinds[at % 3].toReversed().map((fn, depth) => `\t${(0x401000 + 16 * (at % 3) + depth).toString(16)} ${fn}+0x10 (/bin/app)`), '',
  ].join('\n')).join('\n');
  writeFileSync(join(folder, 'found.txt'), script);
  whyslow('import', 'found.txt', '-o', 'found.whyslow');
  const { findings: reported, shape } = JSON.parse(whyslow('explain', 'found.whyslow', '--format', 'json'));
  assert.ok(reported.length >= 1, 'there is something to show');
  whyslow('view', 'found.whyslow', '-o', 'viewed.html');
  whyslow('export', 'found.whyslow', '--to', 'html', '-o', 'exported.html');
  for (const html of ['viewed.html', 'exported.html']) {
    await open(join(folder, html), '#tab=findings');
    assert.deepEqual(await page.locator('.finding .id').allTextContents(), reported.map(({ id }) => id));
    for (const [at, { title, share, advice, verify }] of reported.entries()) {
      const shown = await words(card(at).textContent());
      for (const part of [title, advice, verify]) assert.ok(shown.includes(part.replace(/\s+/g, ' ')), `${part} in ${shown}`);
      await page.getByRole('tab', { name: 'Findings' }).click();
      await press(at, 'Show in flame graph');
      const weighed = parseFloat(/([\d.]+) % highlighted$/.exec(await found())[1]);
      assert.ok(Math.abs(weighed - 100 * share) < .1, `${weighed} highlighted, and a share of ${share}`);
      await page.getByRole('tab', { name: 'Findings' }).click();
    }
    assert.equal(await words(page.locator('.findings > p').last().innerText()), shape.replace(/\s+/g, ' '));
  }
  assert.deepEqual(problems, []);
});
