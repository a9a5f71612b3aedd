// What takes the space in a file: areas in proportion to bytes, groups as frames around what is in them. The table
// beside it has the same rows, for the keyboard and for screen readers.

import './panels.css';
import './treemap.css';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { callTree, search } from '../derive.ts';
import { nodeAt, pathOf } from '../flame/path.ts';
import { amount, share } from '../format.ts';
import { useMatches } from '../matches.ts';
import type { Model } from '../model.ts';
import { kindColour, kindWord } from '../palette.ts';
import type { PanelProps } from '../panel.ts';
import { blocks, childrenOf, STRIP, type Block } from '../treemap.ts';
import { limited, Name, Share } from './cells.tsx';
import { Rows, type Column } from './rows.tsx';

const COLUMNS: readonly Column[] = [
  { id: 'share', title: '%', width: '5rem', numeric: true, help: 'Share of the whole file' },
  { id: 'value', title: 'Size', width: '5.4rem', numeric: true },
  { id: 'name', title: 'Name' },
];

/** Pixels of a character of the labels. */
const CHARACTER = 6.7;
/** The color of frames around groups. */
const GROUP = { light: '#d8dde3', dark: '#8b949e' };

/** Whether the profile is of a file's size. */
export const hasTreeMap = (model: Model): boolean => sizeMetric(model) >= 0;

const sizeMetric = (model: Model): number => {
  const { metrics } = model.profile;
  for (let metric = 0; metric < metrics.count; metric++) if (model.text(metrics.name[metric]!) === 'file-size') return metric;
  return -1;
};

export function TreeMapPanel({ model, state, dispatch, dark }: PanelProps) {
  const tree = callTree(model, state), unit = model.unit(state.metric), whole = tree.total[0]!;
  const { node } = nodeAt(tree, state.inverted ? [] : state.zoom);
  const way = pathOf(tree, node);
  const inside = useMemo(() => childrenOf(tree, node), [tree, node]);
  const cursor = inside.findIndex(child => tree.fn[child] === state.fn);
  const hasDeeper = (of: number): boolean => tree.firstChild[of + 1]! > tree.firstChild[of]!;
  const choose = (of: number): void => dispatch({ fn: tree.fn[of]! }, 'treemap-fn');
  const zoom = (path: readonly number[]): void => dispatch({ zoom: path });
  const openNode = (of: number): void => zoom(pathOf(tree, hasDeeper(of) ? of : tree.parent[of]!));
  const found = search(model, state);
  const isMatch = (of: number): boolean => found.kind === 'found' && found.matched[tree.fn[of]!] === 1;
  const matches = useMemo(() => inside.flatMap((child, at) => (isMatch(child) ? [at] : [])), [inside, found]);
  useMatches(matches, at => choose(inside[at]!), matches.indexOf(cursor));
  return (
    <div class="treemap pane">
      <p class="status" role="status">{whole > 0 ? `${amount(tree.total[node]!, unit)}${node ? `, ${share(tree.total[node]!, whole)} of the file` : ' in the file'}. Enter or a double click shows what is inside.` : 'Nothing is selected.'}</p>
      {way.length > 0 && (
        <nav class="treemap-way" aria-label="Where this is">
          <button type="button" onClick={() => zoom([])}>all</button>
          {way.map((fn, at) => <span key={at}>› <button type="button" disabled={at === way.length - 1} onClick={() => zoom(way.slice(0, at + 1))}>{limited(model.name(fn), 80)}</button></span>)}
        </nav>
      )}
      <div class="treemap-body">
        <TreeMap model={model} dark={dark} node={node} unit={unit} chosen={state.fn} isMatch={found.kind === 'found' ? isMatch : undefined} tree={tree} onChoose={choose} onOpen={openNode} />
        <Rows label="Tree map" columns={COLUMNS} count={inside.length} cursor={cursor} reveal={`${node} ${state.fn}`} minWidth="18rem" empty="There is nothing inside."
          onCursor={at => choose(inside[at]!)} onOpen={at => openNode(inside[at]!)}
          row={at => {
            const child = inside[at]!;
            return { key: child, cells: [<Share value={tree.total[child]!} whole={whole} />, amount(tree.total[child]!, unit), <Name model={model} fn={tree.fn[child]!} dark={dark} />] };
          }} />
      </div>
    </div>
  );
}

interface MapProps {
  model: Model;
  dark: boolean;
  node: number;
  unit: number;
  chosen: number | undefined;
  isMatch: ((node: number) => boolean) | undefined;
  tree: ReturnType<typeof callTree>;
  onChoose: (node: number) => void;
  onOpen: (node: number) => void;
}

function TreeMap({ model, dark, node, unit, chosen, isMatch, tree, onChoose, onOpen }: MapProps) {
  const box = useRef<HTMLDivElement>(null);
  const [[width, height], setSize] = useState<readonly [number, number]>([0, 0]);
  useLayoutEffect(() => {
    const element = box.current!;
    const measure = (): void => setSize([element.clientWidth, element.clientHeight]);
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  const shown = useMemo(() => blocks(tree, node, width, height), [tree, node, width, height]);
  const whole = tree.total[0]!;
  const label = `Tree map of ${node ? model.name(tree.fn[node]!) : 'the file'}; the table beside it has the same rows`;
  const colour = ({ node, hasStrip }: Block): string => (hasStrip ? (dark ? GROUP.dark : GROUP.light) : kindColour(model.kind(tree.fn[node]!), dark));
  const title = ({ node }: Block): string => {
    const fn = tree.fn[node]!, value = tree.total[node]!;
    return `${limited(model.name(fn), 600)}\n${amount(value, unit)}, ${share(value, whole)}\n${model.crate(fn) || kindWord(model.kind(fn))}`;
  };
  return (
    <div class="treemap-map" ref={box}>
      <svg role="img" aria-label={limited(label, 300)}>
        {shown.map(block => (
          <g key={`${block.depth} ${block.node}`}>
            <rect class={`${tree.fn[block.node] === chosen ? 'chosen' : ''}${isMatch && !block.hasStrip && !isMatch(block.node) ? ' dim' : ''}`} x={block.x} y={block.y} width={block.width} height={block.height} fill={colour(block)}
              onClick={() => onChoose(block.node)} onDblClick={() => onOpen(block.node)}><title>{title(block)}</title></rect>
            {block.width > 44 && block.height > 14 && (block.depth === 1 || block.hasStrip || tree.firstChild[block.node] === tree.firstChild[block.node + 1])
              && <text class={block.hasStrip ? 'group' : ''} x={block.x + 4} y={block.y + STRIP - 4}>{fitted(model, tree.fn[block.node]!, block.width)}</text>}
          </g>
        ))}
      </svg>
    </div>
  );
}

/** The name of a function in so many pixels: its most specific part where all of it does not fit. */
function fitted(model: Model, fn: number, width: number): string {
  const room = Math.max(1, Math.floor((width - 8) / CHARACTER)), name = model.name(fn);
  return name.length <= room ? name : limited(model.short(fn), room);
}
