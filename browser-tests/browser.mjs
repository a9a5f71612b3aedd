// A real browser, with pages that have no network and record every problem.
//
// TEST_BROWSER selects Chromium (default) or Firefox, which is driven through WebDriver BiDi.

import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium, firefox } from 'playwright-core';

export const FIREFOX = process.env.TEST_BROWSER === 'firefox';
const EXECUTABLE = FIREFOX ? process.env.FIREFOX ?? '/usr/bin/firefox-esr' : process.env.CHROMIUM ?? '/usr/bin/chromium';

/** What may be missing in CI, where everything else is installed: no test may pass by being skipped. */
const MAY_BE_MISSING = [
  // Debian has no newer one.
  'profiler-cli needs node 24 (NODE24=/path/to/node)',
];

/** The reason to skip where something is missing, else false. */
export function without(what, reason) {
  if (what) return false;
  if (process.env.CI && !MAY_BE_MISSING.includes(reason)) throw new Error(`skipped under CI: ${reason}`);
  return reason;
}

/** Why there is no browser, or false. */
export const missing = without(existsSync(EXECUTABLE),
  `there is no ${EXECUTABLE}; ${FIREFOX ? 'FIREFOX' : 'CHROMIUM'} may name another`);

const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];

/** Long enough for any busy machine: only something that never happens takes this long. */
const PATIENCE = 120_000;

/** BiDi cannot set reduced motion for a page, so the browser's preferences do. */
const PREFERENCES = { 'ui.prefersReducedMotion': 1 };

export const launch = (args = FLAGS) => FIREFOX
  ? firefox.launch({ channel: 'moz-firefox', executablePath: EXECUTABLE, firefoxUserPrefs: PREFERENCES, timeout: PATIENCE })
  : chromium.launch({ executablePath: EXECUTABLE, args, timeout: PATIENCE });

/** A page that may only request addresses that start with `allowed`, and a list of its problems. */
export async function newPage(browser, settings = {}, allowed = 'file:') {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, reducedMotion: 'reduce', ...settings });
  context.setDefaultTimeout(PATIENCE);
  const problems = [];
  await context.route('**', route => {
    if (route.request().url().startsWith(allowed)) return route.continue();
    problems.push(`requested ${route.request().url()}`);
    return route.abort();
  });
  const page = await context.newPage();
  page.on('pageerror', error => problems.push(String(error)));
  page.on('console', message => { if (message.type() === 'error') problems.push(message.text()); });
  page.on('dialog', dialog => { problems.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
  return { page, problems };
}

/** Waits with a timer of the page: the page's own earlier timers run first, however slow the machine is. */
export const pause = (page, ms) => page.evaluate(ms => new Promise(done => setTimeout(done, ms)), ms);

/** Runs an example of a crate. EXAMPLES names the folder of built ones; without it, cargo builds it. */
export function example(crate, name, ...args) {
  const built = process.env.EXAMPLES;
  const [program, words] = built ? [join(built, name), args] : ['cargo', ['run', '-q', '-p', crate, '--example', name, '--', ...args]];
  execFileSync(program, words, { cwd: fileURLToPath(new URL('..', import.meta.url)), stdio: ['ignore', 'inherit', 'inherit'] });
}
