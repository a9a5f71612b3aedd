// Light or dark: what the reader chose, or what the system wants. Paper is light.

import { useEffect, useState } from 'preact/hooks';
import { usePrinting } from './printing.ts';
import type { Theme } from './state.ts';

const wanted = matchMedia('(prefers-color-scheme: dark)');

/** Whether the dark theme is shown; the page's root element carries it for the style sheet. */
export function useDark(theme: Theme): boolean {
  const [system, setSystem] = useState(wanted.matches);
  useEffect(() => {
    const onChange = () => setSystem(wanted.matches);
    wanted.addEventListener('change', onChange);
    return () => wanted.removeEventListener('change', onChange);
  }, []);
  const printing = usePrinting();
  const dark = !printing && (theme === 'auto' ? system : theme === 'dark');
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  return dark;
}
