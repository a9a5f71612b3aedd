// The axis above the tracks.

import type { Range } from '../state.ts';
import { ticks } from './ruler.ts';

export function Ruler({ range: [from, to], width, left }: { range: Range; width: number; left: number }) {
  return (
    <div class="ruler" aria-hidden="true" style={{ marginLeft: `${left}px`, width: `${width}px` }}>
      {ticks(from, to, width).map(({ at, text }) => {
        const x = (at - from) * width / (to - from);
        return x < width - 30 && <span key={at} style={{ left: `${x}px` }}>{text}</span>;
      })}
    </div>
  );
}
