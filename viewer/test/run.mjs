// Runs the unit tests: bundles every src/**/*.test.ts with esbuild and passes it to `node --test`.

import { spawnSync } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = fileURLToPath(new URL('..', import.meta.url));
const out = `${here}test/out`;
const tests = readdirSync(`${here}src`, { recursive: true }).filter(name => name.endsWith('.test.ts')).map(name => `src/${name}`);
rmSync(out, { recursive: true, force: true });
await build({
  absWorkingDir: here,
  entryPoints: tests.sort(),
  outdir: out,
  outExtension: { '.js': '.mjs' },
  bundle: true,
  platform: 'node',
  format: 'esm',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  logLevel: 'warning',
});
const built = readdirSync(out, { recursive: true }).filter(name => name.endsWith('.mjs')).map(name => `${out}/${name}`);
process.exit(spawnSync(process.execPath, ['--test', ...built], { stdio: 'inherit' }).status ?? 1);
