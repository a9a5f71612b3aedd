// Measures the viewer in Chromium and in Firefox on a large generated profile: opening, selecting time,
// zooming. Prints JSON, with Firefox under its name. A browser that is not installed is left out.
//
// node measure.mjs [FILE.html]      (without a file: 1,000,000 samples over 200,000 stack nodes)

import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { large } from './make-payload.mjs';
import { page } from './page.mjs';

const { chromium, firefox } = createRequire(new URL('../../browser-tests/package.json', import.meta.url))('playwright-core');
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium', FIREFOX = process.env.FIREFOX ?? '/usr/bin/firefox-esr';
const STEPS = 40;
const folder = mkdtempSync(join(tmpdir(), 'whyslow-measure-'));
let file = process.argv[2];
if (!file) {
  file = join(folder, 'large.html');
  writeFileSync(file, page(gzipSync(large())));
}
const median = list => [...list].sort((a, b) => a - b)[list.length >> 1];

// From the pointer event to the drawn frame: handlers, aggregation, all visible panels, drawing of the next
// frame.
const during = (tab, what) => tab.evaluate(([what, steps]) => new Promise(done => {
  const target = document.querySelector(what === 'brush' ? '.timeline-window canvas' : '.flame-scroll canvas');
  const { left, top, width, height } = target.getBoundingClientRect();
  const times = [];
  const send = (type, x, y, more = {}) => target.dispatchEvent(new (type === 'wheel' ? WheelEvent : PointerEvent)(type, { bubbles: true, cancelable: true, clientX: left + x, clientY: top + y, button: 0, buttons: 1, pointerId: 1, ...more }));
  target.setPointerCapture = () => undefined;
  let n = 0;
  if (what === 'brush') send('pointerdown', width * .2, height - 10);
  const step = () => {
    const begun = performance.now();
    if (what === 'brush') send('pointermove', width * (.3 + .5 * n / steps), height - 10);
    else send('wheel', width * .3, height / 2, { ctrlKey: true, deltaY: n < steps / 2 ? -30 : 30 });
    // The task after the next frame's callbacks: the frame is complete by then.
    requestAnimationFrame(() => { const { port1, port2 } = new MessageChannel(); port1.onmessage = () => { times.push(performance.now() - begun); if (++n < steps) setTimeout(step, 20); else { if (what === 'brush') send('pointerup', 0, 0); done(times); } }; port2.postMessage(0); });
  };
  step();
}), [what, STEPS]);

/**
 * `cpu` returns a function that reads the CPU time of a page's main thread: the cost of the work, also on a
 * busy machine.
 */
async function measured(browser, cpu) {
  const opened = [], openedCpu = [];
  let tab, used;
  for (let run = 0; run < 3; run++) {
    await tab?.close();
    tab = await browser.newPage({ viewport: { width: 1440, height: 900 } });
    tab.setDefaultTimeout(120_000);
    used = await cpu(tab);
    await tab.goto(pathToFileURL(file).href);
    await tab.waitForSelector('.app');
    opened.push(await tab.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))));
    openedCpu.push(await used());
  }
  const result = { open_ms: opened.map(Math.round), open_cpu_ms: openedCpu.map(Math.round) };
  for (const [name, what] of [['brush', 'brush'], ['zoom', 'zoom'], ['brush_callers', 'brush']]) {
    if (name === 'brush_callers') await tab.keyboard.press('i');
    const before = await used(), times = await during(tab, what);
    result[name] = { median_ms: +median(times).toFixed(1), worst_ms: +Math.max(...times).toFixed(1), cpu_ms_per_step: +((await used() - before) / STEPS).toFixed(1) };
  }
  await browser.close();
  return result;
}

async function cpuByDevtools(tab) {
  const metrics = await tab.context().newCDPSession(tab);
  await metrics.send('Performance.enable', { timeDomain: 'threadTicks' });
  return async () => (await metrics.send('Performance.getMetrics')).metrics.find(({ name }) => name === 'TaskDuration').value * 1000;
}

const result = { html_bytes: statSync(file).size, load: loadavg().map(load => +load.toFixed(1)) };
if (existsSync(CHROMIUM)) Object.assign(result, await measured(await chromium.launch({ executablePath: CHROMIUM, args: FLAGS, timeout: 120_000 }), cpuByDevtools));
if (existsSync(FIREFOX)) {
  result.firefox = await measured(await firefox.launch({ channel: 'moz-firefox', executablePath: FIREFOX, timeout: 120_000 }), async () => async () => NaN);
}
console.log(JSON.stringify(result, null, 1));
rmSync(folder, { recursive: true });
