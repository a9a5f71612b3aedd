// Steps through the hot lines of a function: two keys and two buttons.

import { useLayoutEffect } from 'preact/hooks';

/** The direction of a key through the hot lines: 1, -1, or 0 for another key. */
export const hotStep = ({ key }: KeyboardEvent): number => (key === '.' ? 1 : key === ',' ? -1 : 0);

interface Props {
  /** Rows of `FunctionCosts.lines`, hottest first. */
  hot: readonly number[];
  /** The selected line, if it is one of them. */
  at: number | undefined;
  onGo: (line: number) => void;
}

export function HotLines({ hot, at, onGo }: Props) {
  const now = at === undefined ? -1 : hot.indexOf(at);
  const go = (step: number): void => {
    const line = hot[now < 0 ? 0 : (now + step + hot.length) % hot.length];
    if (line !== undefined) onGo(line);
  };
  // Works anywhere on the page except in input fields and in the machine code, which has its own hot lines.
  // Renewed immediately with each render: the next key may arrive before the next frame.
  useLayoutEffect(() => {
    const onKeyDown = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      const isTaken = event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || target.closest('.code-listing, dialog');
      const step = hotStep(event);
      if (isTaken || !step) return;
      go(step);
      event.preventDefault();
      event.stopPropagation();
    };
    addEventListener('keydown', onKeyDown, true);
    return () => removeEventListener('keydown', onKeyDown, true);
  });
  return (
    <div class="status quiet">
      <button type="button" onClick={() => go(-1)} disabled={hot.length < 2} title="Previous hot line (,)">Previous hot line</button>
      <button type="button" onClick={() => go(1)} disabled={hot.length < 2} title="Next hot line (.)">Next hot line</button>
      <span role="status">{now >= 0 ? `${now + 1} of ${hot.length} hot lines` : `${hot.length} hot lines`}</span>
    </div>
  );
}
