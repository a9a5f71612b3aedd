// The dialog with the keyboard shortcuts.

import { useLayoutEffect, useRef } from 'preact/hooks';
import { KEYS, type Key, type Place } from './keys.ts';

const PLACES: [Place, string][] = [['anywhere', 'Anywhere'], ['flame', 'In the flame graph'], ['timeline', 'In the timeline'], ['table', 'In tables'], ['chart', 'In the stack chart']];

export function Help({ close, keys: all = KEYS }: { close: () => void; keys?: readonly Key[] }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="help" onClose={close} onClick={event => { if (event.target === dialog.current) dialog.current?.close(); }} aria-labelledby="help-title">
      <div class="help-body">
        <h2 id="help-title">Keyboard shortcuts</h2>
        {PLACES.map(([place, title]) => {
          const keys = all.filter(key => key.place === place);
          return keys.length > 0 && (
            <section key={place}>
              <h3>{title}</h3>
              <dl>{keys.map(({ keys, does }) => <div key={keys}><dt>{keys.split('  ').map(key => <kbd key={key}>{key}</kbd>)}</dt><dd>{does}</dd></div>)}</dl>
            </section>
          );
        })}
        <button type="button" autofocus onClick={() => dialog.current?.close()}>Close</button>
      </div>
    </dialog>
  );
}
