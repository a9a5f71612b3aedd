// The differential flame graph (SVG) in a real browser: details, single sides, the legend.
//
// WHYSLOW names the executable.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { launch, missing, newPage, without } from './browser.mjs';

const WHYSLOW = process.env.WHYSLOW;
const skip = without(WHYSLOW, 'WHYSLOW does not name the executable') || missing;
const OLD = 'main;load;parse 3000\nmain;load 500\nmain;hash 2000\nmain;gone 900\nmain;same 2500\n';
const NEW = 'main;load;parse 1200\nmain;load 500\nmain;hash 2400\nmain;fresh 700\nmain;same 2510\n';

function sample(folder) {
  const [old, new_, svg] = ['old.folded', 'new.folded', 'diff.svg'].map(name => join(folder, name));
  writeFileSync(old, OLD);
  writeFileSync(new_, NEW);
  execFileSync(WHYSLOW, ['flame', '--diff', old, new_, '-o', svg], { stdio: 'ignore' });
  return svg;
}

describe('a differential flame graph', { skip }, () => {
  let browser, page, problems, folder;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'whyslow-flame-diff-'));
    browser = await launch();
    ({ page, problems } = await newPage(browser, { viewport: { width: 1100, height: 700 } }));
    await page.goto(pathToFileURL(sample(folder)).href);
  });
  after(async () => {
    await browser?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const labels = () => page.$$eval('#labels text', all => all.map(text => text.textContent));
  const lines = class_ => page.$eval(`#lit path.${class_}`, path => (path.getAttribute('d').match(/M/g) ?? []).length);
  const details = async name => {
    await page.evaluate(name => {
      const label = [...document.querySelectorAll('#labels text')].find(text => text.textContent === name);
      const { left, top, height } = label.getBoundingClientRect();
      const target = document.querySelector('#frames > rect[fill=transparent]');
      target.dispatchEvent(new MouseEvent('mousemove', { clientX: left + 5, clientY: top + height / 2, bubbles: true }));
    }, name);
    return page.textContent('.tip');
  };

  test('has colours for less, more, new, removed and within noise', async () => {
    assert.deepEqual(await Promise.all(['k14', 'k15', 'k16', 'k17', 'k18'].map(lines)), [3, 2, 1, 1, 1]);
    assert.deepEqual(problems, []);
  });

  test('shows before, after and the change with its verdict', async () => {
    assert.match(await details('parse'), /parse.*before 3,000, after 1,200.*change -1,800 \(×0\.40\): undecided/s);
    assert.match(await details('gone'), /before 900, after 0.*\(removed\): undecided/s);
    assert.match(await details('fresh'), /before 0, after 700.*\(new\): undecided/s);
    assert.match(await details('same'), /change \+10 \(×1\.00\): undecided/s);
  });

  test('shows one side alone, then both again', async () => {
    const both = await labels();
    assert.ok(both.includes('gone') && both.includes('fresh'), both.join());
    await page.click('.bar button >> text=Before');
    let names = await labels();
    assert.ok(names.includes('gone') && !names.includes('fresh'), names.join());
    await page.click('.bar button >> text=After');
    names = await labels();
    assert.ok(!names.includes('gone') && names.includes('fresh'), names.join());
    const width = await page.$$eval('#lit path', all => Math.max(...all.flatMap(path =>
      (path.getAttribute('d').match(/h[\d.]+/g) ?? []).map(text => +text.slice(1)))));
    assert.ok(width > 1070, `the root fills the graph: ${width}`);
    await page.click('.bar button >> text=Both');
    assert.deepEqual(await labels(), both);
    assert.deepEqual(problems, []);
  });

  test('a click in the legend dims all other changes', async () => {
    await page.click('.kind >> text=within noise');
    assert.deepEqual(await Promise.all(['k14', 'k16', 'k18'].map(lines)), [0, 1, 0]);
    await page.click('.kind >> text=within noise');
    assert.equal(await lines('k14'), 3);
  });
});
