// Writes a complete page with a generated profile, for tests: whyslow itself writes the real file.
//
// node page.mjs SHAPE FILE.html      SHAPE: small, realistic, large, deep, hostile, threads node page.mjs
// SHAPE FILE.gz        only the payload, as `GET /profile` would answer

import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { SHAPES } from './make-payload.mjs';

const dist = new URL('../dist/', import.meta.url);

/**
 * The text of a page around these bytes (a compressed container); `block` is the maximum length of base64
 * text per script.
 */
export function page(payload, { block = 8 << 20 } = {}) {
  const text = Buffer.from(payload).toString('base64');
  const blocks = [];
  const size = block - block % 4;
  for (let at = 0; at < text.length; at += size) blocks.push(`<script type="application/octet-stream" class="payload">${text.slice(at, at + size)}</script>`);
  const script = readFileSync(new URL('viewer.js', dist), 'utf8').replaceAll('</script', '<\\/script');
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>whyslow</title>
<style>${readFileSync(new URL('viewer.css', dist), 'utf8')}</style></head>
<body><div id="app"></div>
${blocks.join('\n')}
<script>${script}</script></body></html>
`;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [shape, file] = process.argv.slice(2);
  if (!SHAPES[shape] || !file) throw new Error(`usage: page.mjs ${Object.keys(SHAPES).join('|')} FILE.html`);
  const payload = gzipSync(SHAPES[shape]());
  writeFileSync(file, file.endsWith('.gz') ? payload : page(payload));
}
