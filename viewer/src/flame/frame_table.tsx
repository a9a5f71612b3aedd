// The frames in view as a real table, for screen readers.

import { useMemo } from 'preact/hooks';
import type { CallTree } from '../aggregate.ts';
import { amount, share } from '../format.ts';
import type { Model } from '../model.ts';
import type { State } from '../state.ts';
import { nodeName } from './label.ts';
import type { Boxes } from './layout.ts';
import { splitWords, type TimeShares } from './times.ts';

const MOST = 200;

interface FrameTableProps { model: Model; state: State; tree: CallTree; times: TimeShares | undefined; boxes: Boxes | undefined; version: number }

/** Built again only when a new drawing has been unchanged for a short time. */
export function FrameTable(props: FrameTableProps) {
  return useMemo(() => table(props), [props.version]);
}

function table({ model, state, tree, times, boxes }: FrameTableProps) {
  if (!boxes) return null;
  const rows = boxes.node.map((node, at) => ({ node, at })).filter(({ node, at }) => !boxes.run[at] && node < tree.total.length)
    .sort((a, b) => tree.total[b.node]! - tree.total[a.node]! || a.node - b.node).slice(0, MOST);
  const unit = model.unit(state.metric);
  return (
    <div class="hidden"><table>
      <caption>The {rows.length} heaviest frames in view</caption>
      <thead><tr><th>Function</th><th>Level</th><th>Total</th><th>Share</th><th>Self</th>{times && <th>Thread states</th>}</tr></thead>
      <tbody>
        {rows.map(({ node }) => (
          <tr key={node}>
            <td>{nodeName(model, tree, node).slice(0, 300)}{tree.inlined[node] ? ' (inlined)' : ''}</td><td>{tree.depth[node]}</td>
            <td>{amount(tree.total[node]!, unit)}</td><td>{share(tree.total[node]!, tree.total[0]!)}</td><td>{amount(tree.self[node]!, unit)}</td>{times && <td>{splitWords(model, times, tree, node)}</td>}
          </tr>
        ))}
      </tbody>
    </table></div>
  );
}
