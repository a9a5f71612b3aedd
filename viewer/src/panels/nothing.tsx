// What is said where no sample is selected, and the way out of it.

import type { PanelProps } from '../panel.ts';
import { namedLike, valueInside } from '../spanrows.ts';

export function Nothing({ model, state, dispatch }: Pick<PanelProps, 'model' | 'state' | 'dispatch'>) {
  const { spans } = state;
  const others = spans && !spans.all ? valueInside(model, state, spans.kind === 'one' ? [spans.span] : namedLike(model, spans.span), true) : 0;
  if (!spans || !others) return <>No samples are selected. Escape goes one step back.</>;
  return (
    <>
      {spans.kind === 'one' ? 'The span’s own thread has' : 'The spans’ own threads have'} no samples inside: it waited for others.{' '}
      <button type="button" onClick={() => dispatch({ spans: { ...spans, all: true } })}>All threads during it</button>
    </>
  );
}
