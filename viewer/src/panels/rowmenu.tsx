// The context menu of a function's row: the same as that of a frame in the flame graph.

import type { ComponentChild } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { Menu, type MenuAt } from '../flame/menu.tsx';
import type { PanelProps } from '../panel.ts';

export interface RowMenu {
  /** The menu element to render. */
  menu: ComponentChild;
  open: (at: MenuAt) => void;
}

export function useRowMenu(props: PanelProps): RowMenu {
  const [at, setAt] = useState<MenuAt>();
  const before = useRef<Element | null>(null);
  const open = (next: MenuAt): void => {
    before.current = document.activeElement;
    setAt(next);
  };
  const close = (): void => {
    setAt(undefined);
    (before.current as HTMLElement | null)?.focus();
  };
  return { open, menu: at && <Menu {...props} at={at} close={close} /> };
}
