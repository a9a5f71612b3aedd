// `whyslow view` from a user's perspective: records a program, opens the saved page from disk with the
// network denied, and opens the server's printed address. Expected names come from `whyslow report`.
//
// WHYSLOW names the executable; VIEW_PROFILE a profile to use instead of recording the bundled slow program.

import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { FIREFOX, launch, missing, newPage, without } from './browser.mjs';

const WHYSLOW = process.env.WHYSLOW;
const GOLDEN = fileURLToPath(new URL('../crates/whyslow-profile/tests/golden/v1.whyslow', import.meta.url));
const skip = without(WHYSLOW, 'WHYSLOW does not name the executable') || missing;

/** The viewer may shorten or tag function names: only their last words are compared. */
const lastWord = name => name.replace(/<.*$/, '').split('::').at(-1).replace(/[^\w]+$/, '');

describe('whyslow view', { skip }, () => {
  let browser, folder, profile, html, report, problems;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'whyslow-view-'));
    profile = join(folder, 'lab.whyslow');
    record();
    html = join(folder, 'lab.html');
    execFileSync(WHYSLOW, ['view', profile, '-o', html], { stdio: 'pipe' });
    report = JSON.parse(execFileSync(WHYSLOW, ['report', profile, '--format', 'json'], { encoding: 'utf8', maxBuffer: 1 << 28 }));
    browser = await launch();
  });

  after(async () => {
    await browser?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  function record() {
    if (process.env.VIEW_PROFILE) return copyFileSync(process.env.VIEW_PROFILE, profile);
    spawnSync(WHYSLOW, ['-q', 'lab'], { cwd: folder, stdio: 'ignore' });
    // Where this machine cannot record, any profile will do.
    if (!existsSync(profile)) copyFileSync(GOLDEN, profile);
  }

  /** Opens an address; a request outside `allowed` is denied and counts as a problem. */
  async function open(address, allowed, settings = {}) {
    let page;
    ({ page, problems } = await newPage(browser, settings, allowed));
    page.on('console', message => { if (message.type() === 'warning') problems.push(message.text()); });
    page.on('response', response => { if (response.status() >= 400) problems.push(`${response.status()} for ${response.url()}`); });
    await page.goto(address);
    return page;
  }

  /** The viewer has started and shows the hottest functions. */
  async function showsTheProfile(page) {
    await page.waitForSelector('[role=tablist], [role=alert]');
    assert.equal(await page.locator('[role=alert]').count(), 0, await page.locator('body').innerText());
    await page.getByRole('tab', { name: 'Functions' }).click();
    const hottest = report.functions.filter(row => row.self_samples > 0).slice(0, 3);
    assert.ok(hottest.length > 0);
    const text = await page.locator('[role=tabpanel]').innerText();
    for (const { name } of hottest) assert.ok(text.includes(lastWord(name)), `${name} in ${text}`);
    assert.ok((await page.locator('body').innerText()).includes(report.samples.toLocaleString('en-US')), 'the number of samples');
    assert.deepEqual(problems, []);
  }

  test('one file from disk, with the network denied', async () => {
    const page = await open(pathToFileURL(html).href, 'file:');
    await showsTheProfile(page);
    assert.match(await page.title(), / · whyslow$/);
    await page.context().close();
  });

  test('source and machine code are in the file', async t => {
    const other = without(report.command.at(-1)?.includes('whyslow-lab-program'), 'only known of the bundled program');
    if (other) return t.skip(other);
    const page = await open(pathToFileURL(html).href, 'file:');
    await page.waitForSelector('[role=tablist]');
    await page.getByRole('tab', { name: 'Functions' }).click();
    await page.locator('[role=tabpanel]').getByText('find_customer').first().click();
    await page.getByRole('tab', { name: 'Source' }).click();
    const panel = page.locator('[role=tabpanel]');
    await panel.getByText(/\b(mov|cmp|lea)\b/).first().waitFor();
    const text = await panel.innerText();
    assert.match(text, /\bj\w+ 0x[0-9a-f]+ <\+0x[0-9a-f]+>/, 'jumps show their targets');
    assert.match(text, /fn find_customer/, 'the source of the function');
    assert.deepEqual(problems, []);
    await page.context().close();
  });

  test('without scripts the file still lists the hot functions', { skip: FIREFOX && 'a test cannot turn scripts off in Firefox' }, async () => {
    const page = await open(pathToFileURL(html).href, 'file:', { javaScriptEnabled: false });
    const text = await page.locator('body').innerText();
    assert.ok(text.includes(report.functions[0].name.slice(0, 900)), text);
    assert.match(text, /\d\.\d %/);
    assert.deepEqual(problems, []);
    await page.context().close();
  });

  test('the file’s content security policy blocks injected code', async () => {
    const page = await open(pathToFileURL(html).href, 'file:');
    await page.waitForSelector('[role=tablist]');
    assert.deepEqual(problems, []);
    const ran = await page.evaluate(async () => {
      const script = document.createElement('script');
      script.textContent = 'window.injected = true';
      document.body.append(script);
      const answered = await fetch('https://example.com/').then(() => true, () => false);
      return [window.injected === true, answered];
    });
    assert.deepEqual(ran, [false, false]);
    // Firefox reports only to its own console.
    assert.ok(FIREFOX || problems.length >= 2 && problems.every(problem => /Content[- ]Security[- ]Policy/.test(problem)), problems.join('\n'));
    await page.context().close();
  });

  test('the page is one file of a sensible size', () => {
    const text = readFileSync(html, 'utf8');
    assert.doesNotMatch(text, /<(script|link|img|iframe)[^>]+(src|href)="(?!data:)/);
    assert.ok(statSync(html).size < 15e6);
  });

  test('the printed address, in a browser', async () => {
    const server = spawn(WHYSLOW, ['view', profile, '--no-open'], { stdio: ['ignore', 'pipe', 'ignore'] });
    try {
      const address = await new Promise((done, fail) => {
        createInterface({ input: server.stdout }).once('line', done);
        server.once('exit', code => fail(new Error(`whyslow view ended with ${code}`)));
      });
      assert.match(address, /^http:\/\/127\.0\.0\.1:\d+\/\?token=[0-9a-f]{32}$/);
      const origin = new URL(address).origin;
      const page = await open(address, origin);
      await showsTheProfile(page);
      // Without the token the server refuses.
      const status = await new Promise((done, fail) => get(`${origin}/profile`, answer => done(answer.statusCode)).on('error', fail));
      assert.equal(status, 403);
      // Another site's page cannot read it, token or not.
      const other = await browser.newPage();
      const read = await other.evaluate(address => fetch(address).then(answer => answer.ok, () => false), address);
      assert.equal(read, false);
      await other.close();
      await page.context().close();
    } finally {
      server.kill('SIGINT');
    }
  });
});
