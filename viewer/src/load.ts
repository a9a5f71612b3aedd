// Loads the payload from the blocks in the page, or from the server.

import { decodeResults, type Results } from './bench/results.ts';
import { isRecord, PayloadError, readContainer } from './container.ts';
import { decodeChanges, type Changes } from './diff/changes.ts';
import { Model } from './model.ts';
import { decodeProfile } from './payload.ts';

interface WithFromBase64 { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }

let loaded: Blob | undefined;

/** The payload as loaded, for saving the page. */
export const zipped = (): Blob | undefined => loaded;

/** The kinds of payload that a page can show. */
export type Loaded = { kind: 'profile'; model: Model } | { kind: 'changes'; model: Model; changes: Changes } | { kind: 'results'; results: Results };

export async function load(): Promise<Loaded> {
  const blocks = document.querySelectorAll<HTMLScriptElement>('script.payload');
  loaded = blocks.length ? fromBlocks(blocks) : await fromServer();
  const container = readContainer(await unzip(loaded));
  if (isRecord(container.header.bench)) return { kind: 'results', results: decodeResults(container) };
  const model = new Model(decodeProfile(container));
  return isRecord(container.header.diff) ? { kind: 'changes', model, changes: decodeChanges(container, model) } : { kind: 'profile', model };
}

function fromBlocks(blocks: Iterable<HTMLScriptElement>): Blob {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (const block of blocks) {
    parts.push(base64((block.textContent ?? '').trim()));
    block.textContent = ''; // the text is no longer needed
  }
  return new Blob(parts);
}

/** A page opened from disk may not fetch; without blocks it has no profile. */
async function fromServer(): Promise<Blob> {
  if (location.protocol === 'file:') throw new PayloadError('This page contains no profile. The file may be truncated: write it again with `whyslow view FILE -o FILE.html`.');
  let answer: Response;
  try {
    answer = await fetch('profile' + location.search);
  } catch {
    throw new PayloadError('`whyslow view` does not answer. Is it still running?');
  }
  if (!answer.ok) throw new PayloadError(`\`whyslow view\` answered ${answer.status} ${answer.statusText}. Open the URL that it printed.`);
  return answer.blob();
}

/** Decodes in pieces: one call over megabytes would hold several copies of them at once. */
export function base64(text: string): Uint8Array<ArrayBuffer> {
  try {
    const { fromBase64 } = Uint8Array as unknown as WithFromBase64;
    if (fromBase64) return fromBase64.call(Uint8Array, text);
    const size = Math.floor(text.length * 3 / 4) - (text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0);
    const out = new Uint8Array(size);
    const piece = 64 * 1024;
    let at = 0;
    for (let start = 0; start < text.length; start += piece) {
      const bytes = atob(text.slice(start, start + piece));
      for (let i = 0; i < bytes.length; i++) out[at++] = bytes.charCodeAt(i);
    }
    return out;
  } catch {
    throw new PayloadError('The profile in this page is damaged: it is not base64.');
  }
}

async function unzip(zipped: Blob): Promise<Uint8Array> {
  const head = new Uint8Array(await zipped.slice(0, 2).arrayBuffer());
  if (head[0] !== 0x1f || head[1] !== 0x8b) throw new PayloadError('The profile in this page is damaged: it is not compressed data.');
  try {
    const stream = zipped.stream().pipeThrough(new DecompressionStream('gzip'));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch {
    throw new PayloadError('The profile in this page is damaged or truncated: it cannot be decompressed.');
  }
}
