// Builds dist/viewer.js and dist/viewer.css. The same sources give the same bytes: versions are pinned, and
// nothing from the machine or the clock goes in.

import { fileURLToPath } from 'node:url';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const here = fileURLToPath(new URL('.', import.meta.url));
await build({
  absWorkingDir: here,
  entryPoints: { viewer: 'src/main.tsx' },
  outdir: 'dist',
  bundle: true,
  minify: true,
  format: 'iife',
  target: ['es2022'],
  charset: 'utf8',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  logLevel: 'warning',
});
for (const name of ['viewer.js', 'viewer.css']) {
  const bytes = readFileSync(`${here}dist/${name}`);
  console.log(`dist/${name}: ${bytes.length} bytes, ${gzipSync(bytes, { level: 9 }).length} gzipped`);
}
