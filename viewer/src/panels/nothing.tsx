// The message when no sample is selected, and how to select some.

import type { PanelProps } from '../panel.ts';
import { namedLike, valueInside } from '../spanrows.ts';

export function Nothing({ model, state, dispatch }: Pick<PanelProps, 'model' | 'state' | 'dispatch'>) {
  const { spans } = state;
  const others = spans && !spans.all ? valueInside(model, state, spans.kind === 'one' ? [spans.span] : namedLike(model, spans.span), true) : 0;
  if (!spans || !others) return <>No samples selected. Press Escape to go back one step.</>;
  return (
    <>
      {spans.kind === 'one' ? 'The span’s own thread has' : 'The spans’ own threads have'} no samples inside. Other threads do.{' '}
      <button type="button" onClick={() => dispatch({ spans: { ...spans, all: true } })}>Show all threads</button>
    </>
  );
}
