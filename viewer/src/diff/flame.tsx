// The differential flame graph: frames of both sides in one tree, coloured by change.

import { useMemo } from 'preact/hooks';
import type { CallTree } from '../aggregate.ts';
import { search } from '../derive.ts';
import { Crumbs } from '../flame/crumbs.tsx';
import type { Appearance } from '../flame/draw.ts';
import { foldNote, Labels, nodeName } from '../flame/label.ts';
import { Layout, type Boxes } from '../flame/layout.ts';
import { nodeAt, pathOf } from '../flame/path.ts';
import { cut, TipBox } from '../flame/tip.tsx';
import { FlameView } from '../flame/view.tsx';
import type { Model } from '../model.ts';
import { changeColour, kindWord } from '../palette.ts';
import type { Dispatch } from '../panel.ts';
import type { State } from '../state.ts';
import { heaviestAmong } from '../treematches.ts';
import { changeAt, SIDES, treeOf, type Changes, type Width } from './changes.ts';
import { foldChains } from './fold.ts';
import { beforeAfter, worth } from './words.ts';

export interface DiffProps { model: Model; changes: Changes; state: State; dispatch: Dispatch; dark: boolean }

export const widthOf = (state: State): Width => SIDES.find(side => side === state.panel['diff-side']) ?? 'both';

const NEITHER = 'Nothing here on either side.';
const MOST = 200;

export function DiffFlame({ model, changes, state, dispatch, dark }: DiffProps) {
  const width = widthOf(state);
  const paths = useMemo(() => (state.whole ? changes.tree : foldChains(model, changes.tree)), [changes, state.whole]);
  const tree = useMemo(() => treeOf(paths, changes, width), [paths, width]);
  // The order is that of both sides, so that a frame keeps its position when a side is selected.
  const layout = useMemo(() => new Layout(tree, 'given'), [tree]);
  const labels = useMemo(() => new Labels(model), [model]);
  const zoomed = useMemo(() => nodeAt(tree, state.zoom).node, [tree, state.zoom]);
  const found = search(model, state);
  const picked = useMemo(() => state.fn === undefined ? undefined : new Uint8Array(model.functionCount).fill(1, state.fn, state.fn + 1), [model, state.fn]);
  const wanted = found.kind === 'found' ? found.matched : picked;
  const appearance = useMemo<Appearance>(() => ({
    model, labels, colour: 'kind', dark, wanted, zoomed, threads: undefined, times: undefined, timeWanted: -1, inverted: false, changes: changes.colour,
  }), [model, labels, dark, wanted, zoomed, changes]);
  const matches = useMemo(() => (found.kind === 'found' ? heaviestAmong(model, tree, found.matched) : []), [tree, found]);
  const zoom = (node: number) => dispatch({ zoom: pathOf(tree, node) });
  return (
    <FlameView layout={layout} appearance={appearance} zoomed={zoomed} rootOnTop={state.icicle} zoom={zoom} matches={matches} onMatch={() => {}}
      label="Differential flame graph. Arrow keys move, Enter zooms, Escape goes back."
      bar={<div class="flame-bar">
        <Crumbs model={model} tree={tree} zoomed={zoomed} zoom={zoom} />
        <Legend changes={changes} dark={dark} />
      </div>}
      empty={NEITHER}
      tip={({ node, x, y }) => <Tip model={model} changes={changes} tree={tree} node={node} x={x} y={y} />}
      describe={node => describe(model, changes, tree, node)}
      table={(boxes, version) => <FrameTable model={model} changes={changes} tree={tree} boxes={boxes} version={version} />} />
  );
}

/** The colours that occur in the graph. */
function Legend({ changes, dark }: { changes: Changes; dark: boolean }) {
  const present = useMemo(() => new Set(changes.colour.subarray(1)), [changes]);
  return (
    <ul class="legend" aria-label="Colours: change">
      {changes.colours.map((word, row) => present.has(row) && <li key={word}><i style={{ background: changeColour(row, dark) }} />{word}</li>)}
    </ul>
  );
}

function Tip({ model, changes, tree, node, x, y }: { model: Model; changes: Changes; tree: CallTree; node: number; x: number; y: number }) {
  const { unit, pathOwn, pathTotal, verdicts } = changes, fn = tree.fn[node]!;
  const total = changeAt(pathTotal, node), own = changeAt(pathOwn, node);
  const about = node === 0 ? [] : foldNote(model, tree, node).name ? ['start-up or runtime frames; the outermost one is compared', 'press w for whole stacks'] : [kindWord(model.kind(fn)), model.crate(fn) && `crate ${cut(model.crate(fn))}`, tree.inlined[node] ? 'inlined into its caller' : ''];
  return (
    <TipBox x={x} y={y}>
      <b><bdi>{cut(nodeName(model, tree, node))}</bdi></b>
      <div>total {beforeAfter(total, unit)}: <strong>{verdicts[total.verdict]}</strong></div>
      <div>{worth(total, unit)}</div>
      {(own.before > 0 || own.after > 0) && <div>self {beforeAfter(own, unit)}: {verdicts[own.verdict]}; {worth(own, unit)}</div>}
      <div class="quiet">{about.filter(Boolean).join(' · ')}</div>
      {model.place(fn) && <div class="quiet tip-place"><bdi>{cut(model.place(fn))}</bdi></div>}
    </TipBox>
  );
}

/** The same as one sentence, for screen readers. */
function describe(model: Model, { unit, pathTotal, verdicts }: Changes, tree: CallTree, node: number): string {
  const total = changeAt(pathTotal, node);
  return `${cut(nodeName(model, tree, node))}, ${beforeAfter(total, unit)}, ${worth(total, unit)}: ${verdicts[total.verdict]}, level ${tree.depth[node]}`;
}

interface FrameTableProps { model: Model; changes: Changes; tree: CallTree; boxes: Boxes | undefined; version: number }

/** The frames in view as a real table, for screen readers. */
function FrameTable({ model, changes, tree, boxes, version }: FrameTableProps) {
  return useMemo(() => {
    if (!boxes) return null;
    const { unit, pathTotal, verdicts } = changes;
    const nodes = boxes.node.filter((_, at) => !boxes.run[at]).sort((a, b) => tree.total[b]! - tree.total[a]! || a - b).slice(0, MOST);
    return (
      <div class="hidden"><table>
        <caption>The {nodes.length} widest frames in view</caption>
        <thead><tr><th>Function</th><th>Level</th><th>Before and after</th><th>Change</th><th>Verdict</th></tr></thead>
        <tbody>
          {nodes.map(node => {
            const total = changeAt(pathTotal, node);
            return (
              <tr key={node}>
                <td>{nodeName(model, tree, node).slice(0, 300)}</td><td>{tree.depth[node]}</td><td>{beforeAfter(total, unit)}</td><td>{worth(total, unit)}</td><td>{verdicts[total.verdict]}</td>
              </tr>
            );
          })}
        </tbody>
      </table></div>
    );
  }, [version]);
}
