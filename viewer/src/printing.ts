// Whether the page is being printed: then panels show all rows, not just those that fit into the window.

import { options } from 'preact';
import { useEffect, useState } from 'preact/hooks';

export function usePrinting(): boolean {
  const [printing, setPrinting] = useState(false);
  useEffect(() => {
    const begin = () => atOnce(() => setPrinting(true)), end = () => setPrinting(false);
    addEventListener('beforeprint', begin);
    addEventListener('afterprint', end);
    return () => { removeEventListener('beforeprint', begin); removeEventListener('afterprint', end); };
  }, []);
  return printing;
}

/**
 * The browser captures the page when the event ends; a page that calls `print()` itself runs nothing else
 * before.
 */
function atOnce(change: () => void): void {
  const later = options.debounceRendering;
  options.debounceRendering = render => render();
  try {
    change();
  } finally {
    if (later) options.debounceRendering = later;
    else delete options.debounceRendering;
  }
}
