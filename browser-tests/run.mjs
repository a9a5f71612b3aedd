// Runs the test files, several at a time and each with its own browser. A file that fails runs once more, alone: a
// browser on a busy machine can fail by chance, and a real failure fails twice.
//
//     node run.mjs [FILE…]      all files by default; TEST_BROWSER=firefox for Firefox
//
// TEST_CONCURRENCY is the number of files at a time. TEST_RESULTS names a file for the results: a JSON array of
// { test, file, seconds, passed, retry }.

import { readdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { fileURLToPath } from 'node:url';
import { FIREFOX } from './browser.mjs';

const folder = fileURLToPath(new URL('.', import.meta.url));

/** Covered in Chromium only: other tools' readers, or what WebDriver BiDi cannot do. */
const CHROMIUM_ONLY = ['peers', 'viewer-axe', 'viewer-bench', 'viewer-diff', 'viewer-folding', 'viewer-heap',
  'viewer-narrow', 'viewer-panels', 'viewer-save', 'viewer-tables'].map(name => `${name}.test.mjs`);

const chosen = process.argv.slice(2);
const all = readdirSync(folder).filter(name => name.endsWith('.test.mjs') && !(FIREFOX && CHROMIUM_ONLY.includes(name)));
const files = (chosen.length ? chosen.map(name => basename(name)) : all).map(name => join(folder, name));

const results = [];

/** Runs files and prints what happens. Returns those that failed. */
async function attempt(files, concurrency, retry) {
  const failed = new Set();
  const stream = run({ files, concurrency });
  const note = passed => ({ name, file, details, skip }) => {
    // A file itself is reported as a test, too.
    const isFile = !file || basename(name) === basename(file) && name.includes('.test.');
    if (!passed) failed.add(file ?? join(folder, basename(name)));
    if (isFile && passed || details.type === 'suite' || skip !== undefined) return;
    results.push({ test: name, file: basename(file ?? name), seconds: details.duration_ms / 1000, passed, retry });
  };
  stream.on('test:pass', note(true));
  stream.on('test:fail', note(false));
  await new Promise((done, fail) => stream.compose(new spec()).on('error', fail).on('end', done).pipe(process.stdout));
  return [...failed];
}

let failed = await attempt(files, Number(process.env.TEST_CONCURRENCY) || availableParallelism(), false);
if (failed.length) {
  console.log(`\nonce more: ${failed.map(file => basename(file)).join(', ')}\n`);
  failed = await attempt(failed, 1, true);
}
if (process.env.TEST_RESULTS) writeFileSync(process.env.TEST_RESULTS, JSON.stringify(results, undefined, 1));
process.exitCode = failed.length ? 1 : 0;
