// The dialog in which the user chooses an editor for source locations.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { chosenEditor, keepEditor, PRESETS, wrongAddress } from './editor.ts';

export function EditorDialog({ close }: { close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [editor, setEditor] = useState(chosenEditor);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const wrong = wrongAddress(editor.address);
  const isPreset = PRESETS.some(([, address]) => address === editor.address);
  const keep = (event: Event): void => {
    event.preventDefault();
    if (wrong) return;
    keepEditor(editor);
    dialog.current?.close();
  };
  return (
    <dialog ref={dialog} class="help editor" onClose={close} aria-labelledby="editor-title">
      <form class="editor-form" onSubmit={keep}>
        <h2 id="editor-title">Open source locations in an editor</h2>
        <label>Editor
          <select value={isPreset || !editor.address ? editor.address : 'other'} onChange={event => setEditor({ ...editor, address: event.currentTarget.value === 'other' ? 'editor://open?file={path}&line={line}' : event.currentTarget.value })}>
            <option value="">None: copy the location instead</option>
            {PRESETS.map(([name, address]) => <option key={name} value={address}>{name}</option>)}
            <option value="other">Other</option>
          </select>
        </label>
        <label>URL
          <input type="text" value={editor.address} spellcheck={false} aria-invalid={!!wrong} aria-describedby="editor-wrong" placeholder="vscode://file/{path}:{line}"
            onInput={event => setEditor({ ...editor, address: event.currentTarget.value.trim() })} />
        </label>
        <p id="editor-wrong" class="quiet" role="status">{wrong || 'The editor must have registered this URL scheme. The viewer fills in {path} and {line}.'}</p>
        <label>Folder for relative paths
          <input type="text" value={editor.folder} spellcheck={false} placeholder="/home/me/project" onInput={event => setEditor({ ...editor, folder: event.currentTarget.value.trim() })} />
        </label>
        <div class="editor-buttons">
          <button type="submit" disabled={!!wrong}>Save</button>
          <button type="button" onClick={() => dialog.current?.close()}>Cancel</button>
        </div>
      </form>
    </dialog>
  );
}
