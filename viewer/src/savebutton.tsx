// The button that saves the view, and what went wrong when it could not be.

import { useState } from 'preact/hooks';
import { zipped } from './load.ts';
import { ownParts, pageOf } from './save.ts';
import { toHash, type State } from './state.ts';

/** `file`: what was opened; the page is called like it. */
export function SaveButton({ file, state }: { file: string; state: State }) {
  const [said, say] = useState('');
  const save = async (): Promise<void> => {
    const name = file.replace(/^.*\//, '').replace(/\.(whyslow|json)$/, '') || 'profile';
    try {
      say('Saving …');
      const payload = new Uint8Array(await zipped()!.arrayBuffer());
      const page = new Blob(await pageOf({ ...await ownParts(), title: document.title, view: toHash(state), payload }), { type: 'text/html' });
      download(page, `${name}.html`);
      say('');
    } catch {
      say('Not saved: `whyslow view` does not answer. Is it still running?');
    }
  };
  return (
    <>
      {said && <span class="said" role="status">{said}</span>}
      <button type="button" class="icon" onClick={() => void save()} aria-label="Save this view as HTML" title="Save this view as HTML: one file with everything in it">⤓</button>
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
