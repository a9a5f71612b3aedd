// "Save this view as HTML" in a real browser: from a served page and from a file, the saved page opens with
// the same view.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { known } from '../viewer/test/known.mjs';
import { SHAPES } from '../viewer/test/make-payload.mjs';
import { clickFrame, crumbs, facts, folder, open, page, pageOf, problems, settled } from './opened.mjs';

const dist = name => readFileSync(new URL(`../viewer/dist/${name}`, import.meta.url));
// As `whyslow view` serves it: crates/whyslow-render/src/html/page.rs.
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const SERVED = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>x</title><link rel="stylesheet" href="viewer.css?token=abc"></head>
<body><div id="app"></div><noscript><h1>a &amp; b</h1></noscript><script src="viewer.js?token=abc"></script></body></html>`;

async function saved(name) {
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save this view as HTML' }).click()]);
  const file = join(folder, name);
  await download.saveAs(file);
  return { file, suggested: download.suggestedFilename() };
}

test('a served page saves as one file that opens with the same view, and can be saved again', async () => {
  const answers = { '/': ['text/html', SERVED], '/viewer.js': ['text/javascript', dist('viewer.js')], '/viewer.css': ['text/css', dist('viewer.css')], '/profile': ['application/octet-stream', gzipSync(SHAPES.realistic())] };
  const server = createServer((request, response) => {
    const { pathname, search } = new URL(request.url, 'http://x');
    const [type, body] = search === '?token=abc' ? answers[pathname] ?? [] : [];
    response.writeHead(body ? 200 : 403, { 'content-type': type ?? 'text/plain', 'content-security-policy': POLICY }).end(body);
  });
  await new Promise(done => server.listen(0, '127.0.0.1', done));
  let first;
  try {
    const address = `http://127.0.0.1:${server.address().port}/`;
    await open(`${address}?token=abc`, '#theme=dark', { allowed: address });
    await clickFrame(.1, 3);
    await page.fill('#search', 'a&"<b>');
    await settled();
    first = { path: await crumbs(), facts: await facts() };
    const { file, suggested } = await saved('first.html');
    assert.equal(suggested, 'logsearch.html');
    assert.deepEqual(problems, []);
    await open(file);
  } finally {
    server.close();
  }
  assert.deepEqual({ path: await crumbs(), facts: await facts() }, first);
  assert.ok(first.path.length > 2);
  assert.equal(await page.inputValue('#search'), 'a&"<b>');
  assert.equal(await page.getAttribute('html', 'data-theme'), 'dark');
  assert.match(readFileSync(join(folder, 'first.html'), 'utf8'), /<noscript><h1>a &amp; b<\/h1><\/noscript>/);
  assert.match(await page.getAttribute('meta[http-equiv]', 'content'), /script-src 'sha256-/);
  // Another view, saved from the file.
  await page.fill('#search', '');
  await page.keyboard.press('Tab');
  await page.getByRole('tab', { name: 'Functions' }).click();
  const { file } = await saved('second.html');
  await open(file);
  assert.equal(await page.getAttribute('#tab-functions', 'aria-selected'), 'true');
  assert.equal(await page.inputValue('#search'), '');
  await open(file, '#tab=tree');
  assert.equal(await page.getAttribute('#tab-tree', 'aria-selected'), 'true', 'an address takes precedence');
  assert.deepEqual(problems, []);
});

test('reports a stopped server', async () => {
  await open(pageOf('known', known));
  await page.evaluate(() => { document.head.insertAdjacentHTML('beforeend', '<link rel="stylesheet" href="file:///nowhere.css">'); });
  await page.getByRole('button', { name: 'Save this view as HTML' }).click();
  await page.waitForFunction(() => /Not saved/.test(document.querySelector('.save-status')?.textContent));
});
