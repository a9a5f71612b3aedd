// "Save this view as HTML": one self-contained page, built like the one of `whyslow view -o`
// (crates/whyslow-render/src/html/page.rs), that opens with the current view.

/** Bytes in one block of the payload: a multiple of three, below the length limit of JavaScript strings. */
const BLOCK = 6_000_000;
/** Bytes converted to text at a time: a multiple of three. */
const PIECE = 24_576;

/** The parts of a page. */
export interface Parts {
  title: string;
  script: string;
  style: string;
  /** HTML for browsers without scripts. */
  withoutScripts: string;
  /** The state, as in an address. */
  view: string;
  payload: Uint8Array;
}

/** The script and the style of this page, embedded or linked. */
export async function ownParts(): Promise<Pick<Parts, 'script' | 'style' | 'withoutScripts'>> {
  const script = [...document.scripts].filter(script => !script.type).at(-1)!;
  const link = document.querySelector<HTMLLinkElement>('link[rel=stylesheet]');
  const get = async (address: string): Promise<string> => {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
    return answer.text();
  };
  return {
    script: script.src ? await get(script.src) : script.text,
    style: link ? await get(link.href) : document.querySelector('style')?.textContent ?? '',
    withoutScripts: document.querySelector('noscript')?.outerHTML ?? '',
  };
}

/** The pieces of the page. Its content security policy allows exactly its own script and style. */
export async function pageOf({ title, script, style, withoutScripts, view, payload }: Parts): Promise<string[]> {
  const policy = `default-src 'none'; script-src ${await allowed(script)}; style-src ${await allowed(style)}; img-src data: blob:; base-uri 'none'; form-action 'none'`;
  const pieces = [
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>', escaped(title), '</title>\n<meta name="viewport" content="width=device-width, initial-scale=1">\n',
    '<meta name="referrer" content="no-referrer">\n<link rel="icon" href="data:,">\n<meta http-equiv="Content-Security-Policy" content="', policy, '">\n',
    '<style>', style, '</style>\n</head>\n<body>\n<div id="app" data-view="', escaped(view), '"></div>\n', withoutScripts, '\n',
  ];
  for (let at = 0; at < payload.length || at === 0; at += BLOCK) {
    pieces.push('<script type="application/octet-stream" class="payload">', ...base64(payload.subarray(at, at + BLOCK)), '</script>\n');
  }
  pieces.push('<script>', script, '</script>\n</body>\n</html>\n');
  return pieces;
}

/** A policy source that allows exactly this text. */
async function allowed(text: string): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
  return `'sha256-${base64(hash).join('')}'`;
}

function base64(bytes: Uint8Array): string[] {
  const out: string[] = [];
  for (let at = 0; at < bytes.length; at += PIECE) out.push(btoa(String.fromCharCode(...bytes.subarray(at, at + PIECE))));
  return out;
}

const NAMED: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const escaped = (text: string): string => text.replace(/[&<>"]/g, letter => NAMED[letter]!);
