// One viewer page at a time, opened from disk with the network denied, and helpers for tests. Importing this
// file starts the browser before the tests and closes it after them.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { page as pageText } from '../viewer/test/page.mjs';
import { FIREFOX, launch, missing, newPage, pause } from './browser.mjs';

const ROW = 18, EDGE = 4;

/** The open page, its problems, the browser, and a folder for the tests. */
export let page, problems, browser, folder;
const written = new Map();

before(async () => {
  assert.ok(!missing, missing);
  folder = mkdtempSync(join(tmpdir(), 'whyslow-viewer-'));
  browser = await launch();
});
after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** The page of a generated profile, written once. */
export function pageOf(name, container, options = {}) {
  if (!written.has(name)) {
    const file = join(folder, `${name}.html`);
    writeFileSync(file, pageText(gzipSync(container(), { level: 1 }), options));
    written.set(name, file);
  }
  return written.get(name);
}

/** Opens a file, or an address that the page may make requests to. */
export async function open(where, hash = '', { allowed = 'file:', ...settings } = {}) {
  await page?.context().close();
  ({ page, problems } = await newPage(browser, settings, allowed));
  await page.goto((where.includes('://') ? where : pathToFileURL(where).href) + hash);
  await page.waitForSelector('.app, [role=alert]');
  await settled();
}

export const settled = () => page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))));
export const box = selector => page.locator(selector).boundingBox();
export const facts = () => page.textContent('.facts');
export const found = () => page.textContent('.found');
export const crumbs = () => page.locator('.crumbs button').allTextContents();
export const tip = async () => (await page.locator('.tip').count()) ? page.locator('.tip').innerText() : '';
/** The address, after pending changes are written to it. */
export const hash = async () => { await pause(page, 250); return page.evaluate(() => location.hash); };

/** The position of a frame: `across` from 0 to 1 of the graph, `depth` rows from the root. */
export async function frame(across, depth, rootOnTop = false) {
  const { x, y, width, height } = await box('.flame-window canvas');
  const down = EDGE + (depth + .5) * ROW;
  return [x + width * across, rootOnTop ? y + down : y + height - down];
}
export const clickFrame = async (...where) => { await page.mouse.click(...await frame(...where)); await settled(); };
export const hoverFrame = async (...where) => {
  const [x, y] = await frame(...where);
  // Firefox sends no event for a pointer that does not move.
  await page.mouse.move(x - 1, y);
  await page.mouse.move(x, y);
  await settled();
  return tip();
};
/** On a slow machine Firefox treats a double-click as two clicks. */
export async function doubleClick(locator, options) {
  if (!FIREFOX) return locator.dblclick(options);
  await locator.click(options);
  await locator.dispatchEvent('dblclick');
}

/** Drags over a part of the timeline, from 0 to 1. */
export async function brush(from, to) {
  const { x, y, width, height } = await box('.timeline-window canvas');
  await page.mouse.move(x + width * from, y + height - 8);
  await page.mouse.down();
  await page.mouse.move(x + width * (from + to) / 2, y + height - 8);
  await page.mouse.move(x + width * to, y + height - 8);
  await page.mouse.up();
  await settled();
}

/** The rows of a table as texts, cells joined by ` | `; empty cells are kept. */
export const rows = label => page.$eval(`#panel table[aria-label="${label}"]`, table =>
  [...table.querySelectorAll('tbody tr:not(.space)')].map(row => [...row.cells].map(cell => cell.textContent.replace(/\s+/g, ' ').trim()).join(' | ')));
export const column = async (label, at) => (await rows(label)).map(row => row.split(' | ')[at]);
export const grid = label => page.locator(`#panel table[aria-label="${label}"]`);
export const rowWith = (label, text) => grid(label).locator('tbody tr', { hasText: text }).first();
export const cursor = label => page.$eval(`#panel table[aria-label="${label}"]`, table => table.querySelector('tr[aria-selected=true]')?.textContent.replace(/\s+/g, ' ').trim());

/** Undoes a step. */
export const undo = async () => { await page.keyboard.press('u'); await settled(); };
