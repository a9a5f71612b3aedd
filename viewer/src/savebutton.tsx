// The button that saves the view, and what went wrong when it could not be.

import { useState } from 'preact/hooks';
import { zipped } from './load.ts';
import type { PanelProps } from './panel.ts';
import { ownParts, pageOf } from './save.ts';
import { toHash } from './state.ts';

export function SaveButton({ model, state }: Pick<PanelProps, 'model' | 'state'>) {
  const [said, say] = useState('');
  const save = async (): Promise<void> => {
    const name = String(model.profile.context.file ?? '').replace(/^.*\//, '').replace(/\.whyslow$/, '') || 'profile';
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
