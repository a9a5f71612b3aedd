// The button that saves the view, and the message when saving fails.

import { useState } from 'preact/hooks';
import { zipped } from './load.ts';
import { ownParts, pageOf } from './save.ts';
import { toHash, type State } from './state.ts';

/** `file`: the opened file, which gives the page its name. */
export function SaveButton({ file, state }: { file: string; state: State }) {
  const [status, setStatus] = useState('');
  const save = async (): Promise<void> => {
    const name = file.replace(/^.*\//, '').replace(/\.(whyslow|json)$/, '') || 'profile';
    try {
      setStatus('Saving …');
      const payload = new Uint8Array(await zipped()!.arrayBuffer());
      const page = new Blob(await pageOf({ ...await ownParts(), title: document.title, view: toHash(state), payload }), { type: 'text/html' });
      download(page, `${name}.html`);
      setStatus('');
    } catch {
      setStatus('Not saved: `whyslow view` does not answer. Is it still running?');
    }
  };
  return (
    <>
      {status && <span class="save-status" role="status">{status}</span>}
      <button type="button" class="icon" onClick={() => void save()} aria-label="Save this view as HTML" title="Save this view as a self-contained HTML file">⤓</button>
    </>
  );
}

function download(content: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
