// The viewer in narrow windows, in a real browser: nothing is cut off, nothing overlaps.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realistic } from '../viewer/test/make-payload.mjs';
import { open, page, pageOf, problems } from './opened.mjs';

/**
 * Controls that cannot be clicked at their position: outside the window, clipped by a parent, or under
 * something else.
 */
const unreachable = () => page.evaluate(() => {
  const out = [];
  for (const element of document.querySelectorAll('.header button, .header select, .header input, .tabs button, .toolbar button, .toolbar select, .timeline-bar > :not(details) button, .timeline-bar summary, .tools button, .tools select')) {
    const { left, right, top, bottom, width } = element.getBoundingClientRect();
    const at = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    const isIn = left >= 0 && right <= innerWidth && width > 8;
    if (!isIn || !(element.contains(at) || at?.contains(element))) out.push(`${element.textContent || element.id || element.getAttribute('aria-label')} ${left}–${right} under ${at?.className}`);
  }
  return out;
});

test('small windows: the flame graph keeps half of the height, and the timeline is there', async () => {
  for (const [width, height] of [[800, 600], [390, 844], [1300, 1100]]) {
    await open(pageOf('realistic', realistic), '', { viewport: { width, height } });
    const panel = await page.locator('#panel').boundingBox(), tracks = await page.locator('.timeline-tracks').boundingBox();
    assert.ok(panel.height >= height / 2 - 1 && Math.abs(panel.y + panel.height - height) <= 1, `${width} × ${height}: ${JSON.stringify(panel)}`);
    assert.ok(tracks.height > 30, `${width} × ${height}: tracks of ${tracks.height}`);
  }
  assert.deepEqual(problems, []);
});

for (const width of [600, 760, 900, 1100, 1250, 1400]) {
  test(`${width} pixels: every control is reachable in every panel`, async () => {
    for (const tab of ['flame', 'functions', 'tree', 'source', 'chart', 'spans', 'quality']) {
      await open(pageOf('realistic', realistic), `#tab=${tab}&q=scan&fn=5&x=h9&b=1z141z4-2bjyxtu`, { viewport: { width, height: 900 } });
      assert.deepEqual(await unreachable(), [], `${tab} at ${width}`);
      const wide = await page.evaluate(() => [...document.querySelectorAll('.header, .timeline-bar, .bar, .tools, .flame-bar')].filter(bar => bar.scrollWidth > innerWidth).map(bar => bar.className));
      assert.deepEqual(wide, [], `${tab} at ${width}`);
    }
    const { width: title } = await page.locator('.header h1').boundingBox();
    assert.ok(title > 250, `the program's name has ${title} pixels`);
    assert.deepEqual(problems, []);
  });
}
