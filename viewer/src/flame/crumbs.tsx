// The path from the root to the zoomed frame.

import type { CallTree } from '../aggregate.ts';
import type { Model } from '../model.ts';
import { foldNote, nodeName } from './label.ts';

export function Crumbs({ model, tree, zoomed, zoom }: { model: Model; tree: CallTree; zoomed: number; zoom: (node: number) => void }) {
  const path: number[] = [];
  for (let node = zoomed; node !== 0; node = tree.parent[node]!) path.unshift(node);
  const shown = path.length > 6 ? [0, -1, ...path.slice(-5)] : [0, ...path];
  return (
    <nav class="crumbs" aria-label="Zoomed frame">
      {shown.map((node, at) => node < 0 ? <span key="gap" class="quiet">›&nbsp;…</span> : (
        <span key={node} class={at === shown.length - 1 ? 'crumb last' : 'crumb'}>
          {at > 0 && <span class="quiet" aria-hidden="true">›</span>}
          <button type="button" title={nodeName(model, tree, node).slice(0, 500)} aria-current={at === shown.length - 1 ? 'location' : undefined}
            onClick={() => zoom(node)}>{(foldNote(model, tree, node).name ?? model.short(tree.fn[node]!)).slice(0, 120) || '·'}</button>
        </span>
      ))}
    </nav>
  );
}
