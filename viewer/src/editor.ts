// Opening a place in the source in the reader's editor: by an address that the editor listens to, which the reader chooses once.

export interface Editor {
  /** An address with `{path}` and `{line}`; empty when none was chosen. */
  address: string;
  /** The folder that relative paths begin in. */
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

/** What was chosen before; a browser may keep nothing. */
export function chosenEditor(): Editor {
  try {
    const { address, folder } = JSON.parse(localStorage.getItem(KEY) ?? '{}') as Partial<Editor>;
    return { address: typeof address === 'string' ? address : '', folder: typeof folder === 'string' ? folder : '' };
  } catch {
    return NONE_CHOSEN;
  }
}

export function keepEditor(editor: Editor): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(editor));
  } catch {
    // It holds for this page then: there is nowhere to keep it.
  }
}

/** Why an address cannot be used; empty when it can, or when there is none. */
export function wrongAddress(address: string): string {
  if (!address) return '';
  if (!/^[a-z][a-z0-9+.-]*:/i.test(address)) return 'It has to begin with a scheme, such as vscode:';
  // An address must not be able to run anything in this page.
  if (/^(javascript|data|blob|vbscript|about|file):/i.test(address)) return 'This scheme opens no editor';
  return address.includes('{path}') ? '' : 'It has no {path}';
}

/** The address of a place such as `src/main.rs:12`; nothing when no editor was chosen or the path leads nowhere on this machine. */
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

/** Opens a place in the editor; gives whether that was possible. */
export function openInEditor(place: string): boolean {
  const address = addressOf(chosenEditor(), place);
  if (!address) return false;
  const link = document.createElement('a');
  link.href = address;
  link.click();
  return true;
}

/** The clipboard, where the browser allows it. */
export const copy = (text: string): void => void navigator.clipboard?.writeText(text).catch(() => undefined);
