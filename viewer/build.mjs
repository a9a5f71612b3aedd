// Builds dist/viewer.js and dist/viewer.css, and dist/pattern.js: the search of flame graphs (SVG). The same sources give the same bytes: versions are pinned, and
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
await build({
  absWorkingDir: here,
  entryPoints: { pattern: 'src/regex.ts' },
  outdir: 'dist',
  bundle: true,
  minify: true,
  format: 'iife',
  globalName: 'whyslowRegex',
  target: ['es2022'],
  charset: 'utf8',
  legalComments: 'none',
  logLevel: 'warning',
});
for (const name of ['viewer.js', 'viewer.css', 'pattern.js']) {
  const bytes = readFileSync(`${here}dist/${name}`);
  console.log(`dist/${name}: ${bytes.length} bytes, ${gzipSync(bytes, { level: 9 }).length} gzipped`);
}
