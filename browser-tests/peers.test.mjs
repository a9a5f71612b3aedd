// whyslow's exports, read by other tools' own code: speedscope's viewer, pprof's decoder (pprof-format),
// Valgrind's DHAT viewer, and the Firefox Profiler's loader (profiler-cli, which needs node 24: set NODE24
// where `node` is older).

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { Profile } from 'pprof-format';
import { example, launch, newPage, without } from './browser.mjs';

// speedscope draws with WebGL; without a graphics card Chromium has to do it in software.
const FLAGS = ['--headless', '--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--use-gl=angle', '--use-angle=swiftshader', '--enable-unsafe-swiftshader'];
const modules = fileURLToPath(new URL('node_modules', import.meta.url));

let folder, totals;

before(() => {
  folder = mkdtempSync(join(tmpdir(), 'whyslow-peers-'));
  example('whyslow-formats', 'export_sample', folder);
  totals = JSON.parse(readFileSync(join(folder, 'totals.json'), 'utf8'));
});

after(() => rmSync(folder, { recursive: true, force: true }));

const ms = text => {
  const [, number, unit] = /^([\d.]+)(ns|µs|ms|s)/.exec(text) ?? assert.fail(`'${text}' is not a time`);
  return Number(number) * { ns: 1e-6, 'µs': 1e-3, ms: 1, s: 1e3 }[unit];
};

describe('speedscope', () => {
  let browser, page, problems;

  before(async () => {
    browser = await launch(FLAGS);
    ({ page, problems } = await newPage(browser));
  });

  after(() => browser?.close());

  // Opens a file as speedscope's own command does. Returns the rows of its function table for each thread.
  async function load(name) {
    problems.length = 0;
    const script = join(folder, `${name}.js`);
    const content = readFileSync(join(folder, name)).toString('base64');
    writeFileSync(script, `speedscope.loadFileFromBase64(${JSON.stringify(name)}, ${JSON.stringify(content)})`);
    await page.goto('about:blank');
    await page.goto(`${pathToFileURL(join(modules, 'speedscope/dist/release/index.html')).href}#localProfilePath=${script}`);
    await page.getByText('Sandwich').waitFor();
    await page.keyboard.press('3');
    const threads = [];
    for (;;) {
      await page.getByText('Symbol Name').waitFor();
      // The table's heading appears before its rows, and the previous thread's rows remain until the next
      // frame.
      await page.waitForFunction(() => [...document.querySelectorAll('table tr')].some(row => /%\)$/.test(row.children[0]?.innerText.trim() ?? '')));
      await page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))));
      const rows = await page.$$eval('table tr', rows => rows.map(row => [...row.children].map(cell => cell.innerText.trim())));
      threads.push(Object.fromEntries(rows.filter(cells => cells.length === 3 && /%\)$/.test(cells[0]))
        .map(([total, self, name]) => [name, { self: ms(self), total: ms(total) }])));
      const position = /\((\d+)\/(\d+)\)/.exec(await page.innerText('body'));
      if (!position || position[1] === position[2]) break;
      await page.keyboard.press('n');
      await page.waitForFunction(next => document.body.innerText.includes(`(${next}/`), Number(position[1]) + 1);
    }
    assert.deepEqual(problems, []);
    return threads;
  }

  // The sum over threads, which share functions only by name.
  const merged = threads => {
    const sum = {};
    for (const rows of threads) {
      for (const [name, { self, total }] of Object.entries(rows)) {
        sum[name] ??= { self: 0, total: 0 };
        sum[name].self += self;
        sum[name].total += total;
      }
    }
    return sum;
  };

  const expected = () => Object.fromEntries(
    Object.entries(totals).map(([name, { self, total }]) => [name, { self: self / 1e6, total: total / 1e6 }]));

  test('shows the totals of our speedscope file', async () => {
    const threads = await load('speedscope.json');
    assert.equal(threads.length, 2);
    assert.deepEqual(merged(threads), expected());
  });

  test('shows the totals of our pprof file', async () => {
    // speedscope names only the function that others were inlined into.
    const { 'app::next': inlined, ...others } = expected();
    assert.ok(inlined.total > 0);
    assert.deepEqual(merged(await load('pprof.pb.gz')), others);
  });

  test('reads our perf script text', async () => {
    const threads = await load('perf-script.txt');
    assert.deepEqual(Object.keys(merged(threads)).sort(), Object.keys(totals).sort());
  });
});

test('pprof-format decodes our pprof file to the same totals', () => {
  const profile = Profile.decode(gunzipSync(readFileSync(join(folder, 'pprof.pb.gz'))));
  const text = id => profile.stringTable.strings[Number(id)];
  const kinds = profile.sampleType.map(kind => [text(kind.type), text(kind.unit)]);
  assert.deepEqual(kinds, [['samples', 'count'], ['cpu', 'nanoseconds']]);
  assert.equal(text(profile.defaultSampleType), 'cpu');
  const functions = new Map(profile.function.map(row => [Number(row.id), text(row.name)]));
  const locations = new Map(profile.location.map(row => [Number(row.id), row]));
  const mappings = new Set(profile.mapping.map(row => Number(row.id)));
  for (const location of profile.location) {
    assert.ok(Number(location.mappingId) === 0 || mappings.has(Number(location.mappingId)));
  }
  const sums = {};
  const add = (name, key, value) => { (sums[name] ??= { self: 0, total: 0 })[key] += value; };
  for (const sample of profile.sample) {
    assert.equal(sample.value.length, kinds.length);
    const value = Number(sample.value[1]);
    const names = sample.locationId.flatMap(id =>
      locations.get(Number(id)).line.map(line => functions.get(Number(line.functionId))));
    add(names[0], 'self', value);
    for (const name of new Set(names)) add(name, 'total', value);
    const labels = sample.label.map(label => text(label.key));
    assert.deepEqual(labels, ['thread', 'thread_id', 'process', 'process_id']);
  }
  assert.deepEqual(sums, totals);
});

test('pprof-format finds the four types of a heap', () => {
  const profile = Profile.decode(gunzipSync(readFileSync(join(folder, 'heap.pb.gz'))));
  const text = id => profile.stringTable.strings[Number(id)];
  const kinds = profile.sampleType.map(kind => `${text(kind.type)}/${text(kind.unit)}`);
  assert.deepEqual(kinds, ['alloc_objects/count', 'alloc_space/bytes', 'inuse_objects/count', 'inuse_space/bytes']);
  assert.equal(text(profile.defaultSampleType), 'alloc_space');
  assert.equal(`${text(profile.periodType.type)}/${text(profile.periodType.unit)}`, 'space/bytes');
  const sums = kinds.map((_, at) => profile.sample.reduce((sum, sample) => sum + Number(sample.value[at]), 0));
  assert.deepEqual(sums, [7, 3077, 1, 1000]);
});

describe("Valgrind's DHAT viewer", () => {
  const viewer = ['/usr/libexec/valgrind/dh_view.html', '/usr/lib/valgrind/dh_view.html'].find(existsSync);

  test('opens our file and shows its totals', { skip: without(viewer, 'valgrind is not installed') }, async () => {
    const browser = await launch(FLAGS);
    try {
      const { page, problems } = await newPage(browser);
      await page.goto(pathToFileURL(viewer).href);
      await page.setInputFiles('input[type=file]', join(folder, 'dhat.json'));
      await page.getByText('Allocated at').first().waitFor();
      const shown = await page.innerText('body');
      assert.match(shown, /Total: +3,077 bytes \(100%.*in 7 blocks/);
      assert.match(shown, /At t-gmax: +2,000 bytes/);
      assert.match(shown, /At t-end: +1,000 bytes/);
      assert.match(shown, /3,050 bytes .* in 4 blocks/, 'equal locations are merged');
      assert.match(shown, /app::load \(src\/load\.rs:7\)/);
      assert.deepEqual(problems, []);
    } finally {
      await browser.close();
    }
  });
});

describe('the Firefox Profiler', () => {
  const node = process.env.NODE24 ?? process.execPath;
  const version = Number(/^v(\d+)/.exec(execFileSync(node, ['--version'], { encoding: 'utf8' }))[1]);
  const cli = join(modules, '.bin/profiler-cli');
  const skip = without(version >= 24, 'profiler-cli needs node 24 (NODE24=/path/to/node)') || without(existsSync(cli), 'profiler-cli is not installed');
  const ask = (...args) => execFileSync(node, [cli, ...args], { encoding: 'utf8', env: { ...process.env, HOME: folder } });

  test('loads our file and finds the totals, markers and threads', { skip }, () => {
    // Its daemon gives up when it starts slowly, which says nothing about our file.
    const load = attempts => {
      try {
        return ask('load', join(folder, 'firefox.json'));
      } catch (error) {
        if (attempts <= 1) throw error;
        console.log(`tried again: profiler-cli: ${String(error.message).split('\n')[0]}`);
        return load(attempts - 1);
      }
    };
    try {
      load(3);
      const threads = JSON.parse(ask('thread', 'list', '--json')).threads;
      assert.deepEqual(threads.map(thread => thread.name).sort(), ['main', 'worker']);
      const sums = {};
      for (const thread of threads) {
        const list = JSON.parse(ask('thread', 'functions', '--json', '--include-idle', '--thread', thread.threadHandle));
        for (const row of list.functions) {
          sums[row.name] ??= { self: 0, total: 0 };
          sums[row.name].self += Math.round(row.selfSamples * 1e6);
          sums[row.name].total += Math.round(row.totalSamples * 1e6);
        }
      }
      assert.deepEqual(sums, totals);
      assert.match(ask('thread', 'markers'), /request/);
    } finally {
      ask('stop', '--all');
    }
  });
});
