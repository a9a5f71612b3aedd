// A real browser, and pages in it that have no network and of which everything that goes wrong is written down.

import { chromium } from 'playwright-core';

export const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];

/** Only what never comes takes so long, however busy the machine is. */
const PATIENCE = 120_000;

export const launch = (args = FLAGS) => chromium.launch({ executablePath: CHROMIUM, args, timeout: PATIENCE });

/** A page that may ask only for addresses that begin with `allowed`, and a list of what went wrong in it. */
export async function newPage(browser, settings = {}, allowed = 'file:') {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, reducedMotion: 'reduce', ...settings });
  context.setDefaultTimeout(PATIENCE);
  const problems = [];
  await context.route('**', route => {
    if (route.request().url().startsWith(allowed)) return route.continue();
    problems.push(`asked the network for ${route.request().url()}`);
    return route.abort();
  });
  const page = await context.newPage();
  page.on('pageerror', error => problems.push(String(error)));
  page.on('console', message => { if (message.type() === 'error') problems.push(message.text()); });
  page.on('dialog', dialog => { problems.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
  return { page, problems };
}

/** Waits by a timer of the page: the page's own timers that are due before come first, however slow the machine is. */
export const pause = (page, ms) => page.evaluate(ms => new Promise(done => setTimeout(done, ms)), ms);
