// The selected function between two flame graphs: its callers above, its callees below. Both meet at its row.

import { useMemo, useState } from 'preact/hooks';
import type { CallTree } from '../aggregate.ts';
import { colourOf } from '../colour.ts';
import { search, treeAroundFunction } from '../derive.ts';
import type { Appearance } from '../flame/draw.ts';
import { FrameTable } from '../flame/frame_table.tsx';
import { Labels } from '../flame/label.ts';
import { Layout } from '../flame/layout.ts';
import { Menu } from '../flame/menu.tsx';
import { nodeAt, pathOf } from '../flame/path.ts';
import { describe, Tip } from '../flame/tip.tsx';
import { FlameView } from '../flame/view.tsx';
import type { PanelProps } from '../panel.ts';
import { calleesTree, callersTree } from '../sandwichtrees.ts';
import { transformed, type State } from '../state.ts';
import { transformsOf } from './transformkeys.ts';

/** A zoomed frame: its path from the function, in one of the graphs. */
interface Zoomed { fn: number; half: 'callers' | 'callees'; path: readonly number[] }

export function SandwichFlame(props: PanelProps & { fn: number }) {
  const { model, state, fn } = props;
  const tree = treeAroundFunction(model, state);
  const callers = useMemo(() => callersTree(tree, fn), [tree, fn]), callees = useMemo(() => calleesTree(tree, fn), [tree, fn]);
  const [zoomed, setZoomed] = useState<Zoomed>();
  const labels = useMemo(() => new Labels(model), [model]);
  if (!callees.total[0]) return <p class="empty">No selected sample contains this function.</p>;
  const half = (of: Zoomed['half'], tree: CallTree) => (
    <Half {...props} labels={labels} of={of} tree={tree} path={zoomed?.fn === fn && zoomed.half === of ? zoomed.path : []}
      zoom={path => setZoomed(path.length ? { fn, half: of, path } : undefined)} />
  );
  // The deeper half has more of the room.
  const rows = (tree: CallTree): number => Math.min(30, tree.depth.reduce((most, depth) => Math.max(most, depth), 0));
  return (
    <div class="sandwich-flames" role="group" aria-label="Callers above, callees below">
      <section aria-label="Callers" style={{ flexGrow: Math.max(3, rows(callers)) }}>
        {callers.parent.length > 1 ? half('callers', callers) : <p class="empty">No callers: its stacks start here.</p>}
      </section>
      <section aria-label="Callees" style={{ flexGrow: Math.max(3, rows(callees) + 1) }}>{half('callees', callees)}</section>
    </div>
  );
}

interface HalfProps extends PanelProps { labels: Labels; of: Zoomed['half']; tree: CallTree; path: readonly number[]; zoom: (path: readonly number[]) => void }

function Half({ model, state, dispatch, dark, chooseEditor, labels, of, tree, path, zoom }: HalfProps) {
  const isCallers = of === 'callers';
  // Callers and callees of the function are shown whichever way the other flame graph is turned.
  const shown: State = useMemo(() => ({ ...state, inverted: isCallers }), [state, isCallers]);
  const layout = useMemo(() => new Layout(tree, state.byName ? model.nameRanks() : undefined), [tree, state.byName]);
  const zoomed = nodeAt(tree, path).node;
  const found = search(model, state), wanted = found.kind === 'found' ? found.matched : undefined;
  const chosen = colourOf(model, state), colour = chosen === 'thread' || chosen === 'time' ? 'kind' : chosen;
  const appearance = useMemo<Appearance>(() => ({ model, labels, colour, dark, wanted, zoomed, threads: undefined, times: undefined, timeWanted: -1, inverted: isCallers }),
    [model, labels, colour, dark, wanted, zoomed, isCallers]);
  const transforms = (node: number): Record<string, () => void> => Object.fromEntries(Object.entries(transformsOf(model, { fn: tree.fn[node]! }))
    .map(([key, transform]) => [key, () => dispatch(transformed(state, transform))]));
  const about = { model, state: shown, tree, times: undefined };
  return (
    <FlameView layout={layout} appearance={appearance} zoomed={zoomed} rootOnTop={!isCallers} hidesRoot={isCallers} zoom={node => zoom(pathOf(tree, node))} onMatch={() => undefined}
      keys={transforms} bar={null} empty={null}
      label={`Flame graph of ${isCallers ? 'callers' : 'callees'}. Arrow keys move, Enter zooms, f focuses, h hides, m merges, the menu key shows more.`}
      menu={({ node, x, y }, close) => <Menu model={model} state={state} dispatch={dispatch} chooseEditor={chooseEditor} close={close}
        at={{ fn: tree.fn[node]!, zoom: () => { close(); zoom(pathOf(tree, node)); }, x, y }} />}
      tip={({ node, x, y }) => <Tip {...about} node={node} zoomed={zoomed} x={x} y={y} />}
      describe={node => describe(model, shown, tree, node)}
      table={(boxes, version) => <FrameTable {...about} boxes={boxes} version={version} />} />
  );
}
