// The flame graph of a profile: breadcrumb, legend, details of a frame, menu.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { colourOf } from '../colour.ts';
import { findingFrames, flameTree, search } from '../derive.ts';
import { outermostFrames } from '../findings.ts';
import { Nothing } from '../panels/nothing.tsx';
import type { PanelProps } from '../panel.ts';
import { transformsOf } from '../panels/transformkeys.ts';
import { transformed } from '../state.ts';
import { heaviestAmong } from '../treematches.ts';
import { Crumbs } from './crumbs.tsx';
import type { Appearance } from './draw.ts';
import { describe, Tip } from './tip.tsx';
import { FrameTable } from './frame_table.tsx';
import { Labels } from './label.ts';
import { Layout } from './layout.ts';
import { Legend, useWanted } from './legend.tsx';
import { Menu } from './menu.tsx';
import { nodeAt, pathOf } from './path.ts';
import { stackText } from './stacktext.ts';
import { threadShares } from './threads.ts';
import { timeShares } from './times.ts';
import { FlameView } from './view.tsx';

export function FlamePanel({ model, state, dispatch, dark, chooseEditor }: PanelProps) {
  const colour = colourOf(model, state);
  const tree = flameTree(model, state);
  const layout = useMemo(() => new Layout(tree, state.byName ? model.nameRanks() : undefined), [tree, state.byName]);
  const labels = useMemo(() => new Labels(model), [model]);
  const zoomed = nodeAt(tree, state.zoom).node;
  const rootOnTop = state.icicle !== state.inverted;
  const found = search(model, state);
  const [group, setGroup] = useState<string | undefined>(undefined);
  useEffect(() => setGroup(undefined), [colour]);
  const inGroup = useWanted(model, colour, group);
  const wanted = found.kind === 'found' ? found.matched : inGroup;
  // The search and the legend take precedence over a finding.
  const marked = wanted ? undefined : findingFrames(model, state).marked;

  const threads = useMemo(() => colour === 'thread' ? threadShares(model, state) : undefined, [tree, colour]);
  const times = useMemo(() => colour === 'time' ? timeShares(model, state, tree) : undefined, [tree, colour]);
  const timeWanted = times && group !== undefined ? model.profile.timeKinds.findIndex(({ word }) => word === group) : -1;

  const appearance = useMemo<Appearance>(() => ({ model, labels, colour, dark, wanted, marked, zoomed, threads, times, timeWanted, inverted: state.inverted }),
    [model, labels, colour, dark, wanted, marked, zoomed, threads, times, timeWanted, state.inverted]);

  const zoom = (node: number) => dispatch({ zoom: pathOf(tree, node), ...(node ? { fn: tree.fn[node]! } : {}) });
  const select = (node: number) => dispatch({ fn: tree.fn[node]! });
  const matches = useMemo(() => (found.kind === 'found' ? heaviestAmong(model, tree, found.matched) : marked ? outermostFrames(tree.parent, tree.total, marked) : []), [tree, found, marked]);
  /** A path of callers is no place in the call tree. */
  const placeOf = (node: number) => ({ fn: tree.fn[node]!, path: state.inverted ? undefined : pathOf(tree, node) });
  const transforms = (node: number): Record<string, () => void> => {
    if (!node) return {};
    return Object.fromEntries(Object.entries(transformsOf(model, placeOf(node))).map(([key, transform]) => [key, () => dispatch(transformed(state, transform))]));
  };

  return (
    <FlameView layout={layout} appearance={appearance} zoomed={zoomed} rootOnTop={rootOnTop} zoom={zoom} matches={matches} onMatch={select} keys={transforms} onMenu={select}
      label="Flame graph. Arrow keys move, Enter zooms, Escape goes back, f focuses, h hides, m merges, the menu key shows more."
      bar={<div class="flame-bar">
        <Crumbs model={model} tree={tree} zoomed={zoomed} zoom={zoom} />
        <Legend model={model} state={state} colour={colour} dark={dark} threads={threads} times={times} group={group} setGroup={setGroup} />
      </div>}
      empty={<Nothing model={model} state={state} dispatch={dispatch} />}
      menu={({ node, x, y }, close) => <Menu model={model} state={state} dispatch={dispatch} chooseEditor={chooseEditor} at={{ ...placeOf(node), stack: () => stackText(model, tree, node, state.inverted), zoom: () => { close(); zoom(node); }, x, y }} close={close} />}
      tip={({ node, x, y }) => <Tip model={model} state={state} tree={tree} times={times} node={node} zoomed={zoomed} x={x} y={y} />}
      describe={node => describe(model, state, tree, node, times)}
      table={(boxes, version) => <FrameTable model={model} state={state} tree={tree} times={times} boxes={boxes} version={version} />} />
  );
}
