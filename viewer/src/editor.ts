// Opens source locations in the user's editor, through a URL scheme that the user chooses once.

export interface Editor {
  /** A URL with `{path}` and `{line}`; empty when none is chosen. */
  address: string;
  /** The folder that relative paths start in. */
  folder: string;
}

export const PRESETS: readonly (readonly [string, string])[] = [
  ['Visual Studio Code', 'vscode://file/{path}:{line}'],
  ['VSCodium', 'vscodium://file/{path}:{line}'],
  ['Cursor', 'cursor://file/{path}:{line}'],
  ['Zed', 'zed://file/{path}:{line}'],
  ['JetBrains (RustRover, CLion, IDEA)', 'jetbrains://open?file={path}&line={line}'],
  ['Sublime Text', 'subl://open?url=file://{path}&line={line}'],
];

const KEY = 'whyslow-editor';
const NONE_CHOSEN: Editor = { address: '', folder: '' };
/** The choice of this page, or of the user's configuration. */
let known: Editor | undefined;

/** A choice from outside, whatever it contains. */
function editorOf(json: string): Editor {
  try {
    const { address, folder } = JSON.parse(json) as Partial<Editor>;
    return { address: typeof address === 'string' ? address : '', folder: typeof folder === 'string' ? folder : '' };
  } catch {
    return NONE_CHOSEN;
  }
}

/** Whether `whyslow view` serves this page: it keeps the choice, as each run has another port. */
const isServed = (): boolean => location.protocol.startsWith('http');

/** The choice: the one that the server keeps, or that of the browser. Browsers may refuse to store one. */
export function chosenEditor(): Editor {
  const kept = known ?? editorOf(document.getElementById('app')?.dataset.editor ?? '');
  if (known || kept.address || kept.folder) return kept;
  try {
    return editorOf(localStorage.getItem(KEY) ?? '');
  } catch {
    return NONE_CHOSEN;
  }
}

/** Two hexadecimal digits for each byte: the server decodes nothing else. */
export const digitsOf = (text: string): string => Array.from(new TextEncoder().encode(text), byte => byte.toString(16).padStart(2, '0')).join('');

export function keepEditor(editor: Editor): void {
  known = editor;
  const text = JSON.stringify(editor);
  try {
    localStorage.setItem(KEY, text);
  } catch {
    // Without storage, the choice holds for this page only.
  }
  if (isServed()) void fetch(`editor${location.search}&value=${digitsOf(text)}`, { method: 'POST' }).catch(() => undefined);
}

/** Why a URL cannot be used; empty when it can, or when there is none. */
export function wrongAddress(address: string): string {
  if (!address) return '';
  if (!/^[a-z][a-z0-9+.-]*:/i.test(address)) return 'The URL must start with a scheme, such as vscode:';
  // A URL must not be able to run code in this page.
  if (/^(javascript|data|blob|vbscript|about|file):/i.test(address)) return 'This scheme does not open an editor';
  return address.includes('{path}') ? '' : 'The URL has no {path}';
}

/**
 * The URL for a location such as `src/main.rs:12`; undefined when no editor is chosen or the path does not
 * exist on this machine.
 */
export function addressOf({ address, folder }: Editor, place: string): string | undefined {
  if (!address || wrongAddress(address)) return undefined;
  const [, path, line] = /^(.*?)(?::(\d+))?$/s.exec(place)!;
  const whole = path!.startsWith('/') ? path! : folder ? `${folder.replace(/\/+$/, '')}/${path}` : '';
  // The paths of Rust's own sources are those of the machine that built them.
  if (!whole.startsWith('/') || whole.startsWith('/rustc/')) return undefined;
  const encoded = whole.split('/').map(encodeURIComponent).join('/');
  return address.replace(/(\/?)\{path\}/, (_, slash: string) => (slash && !/:\/\/$/.test(address.slice(0, address.indexOf('{path}'))) ? encoded : slash + encoded))
    .replace('{line}', line ?? '1');
}

/** Opens a location in the editor. Returns whether that was possible. */
export function openInEditor(place: string): boolean {
  const address = addressOf(chosenEditor(), place);
  if (!address) return false;
  const link = document.createElement('a');
  link.href = address;
  link.click();
  return true;
}

/** Copies to the clipboard, where the browser allows it. */
export const copy = (text: string): void => void navigator.clipboard?.writeText(text).catch(() => undefined);
