// Light or dark: the user's choice, or the system's preference. Print is light.

import { useEffect, useState } from 'preact/hooks';
import { usePrinting } from './printing.ts';
import type { Theme } from './state.ts';

const wanted = matchMedia('(prefers-color-scheme: dark)');

/** Whether the dark theme is active. Also sets it on the page's root element for the style sheet. */
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
