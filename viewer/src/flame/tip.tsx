// The tooltip with details of a frame.

import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { CallTree } from '../aggregate.ts';
import { callSite, siteWords } from '../callsites.ts';
import { amount, share } from '../format.ts';
import type { Model } from '../model.ts';
import { kindWord } from '../palette.ts';
import type { State } from '../state.ts';
import { foldNote, nodeName } from './label.ts';
import { splitWords, timesOf, type TimeShares } from './times.ts';
import { timeColour } from '../timekinds.ts';

interface TipProps { model: Model; state: State; tree: CallTree; times: TimeShares | undefined; node: number; zoomed: number; x: number; y: number }

/** The longest name in a tooltip. */
const LONGEST = 1000;
export const cut = (text: string): string => text.length > LONGEST ? text.slice(0, LONGEST) + '…' : text;

/** A box next to a position, kept inside the window. */
export function TipBox({ x, y, children }: { x: number; y: number; children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const { width, height } = box.current!.getBoundingClientRect();
    const left = Math.max(4, Math.min(x + 14, innerWidth - width - 6));
    const top = y + 18 + height > innerHeight ? y - height - 10 : y + 18;
    box.current!.style.transform = `translate(${left}px, ${Math.max(4, top)}px)`;
  });
  return <div class="tip" ref={box}>{children}</div>;
}

export function Tip({ model, state, tree, times, node, zoomed, x, y }: TipProps) {
  const fn = tree.fn[node]!, unit = model.unit(state.metric), whole = tree.total[0]!;
  const inside = zoomed && tree.depth[node]! >= tree.depth[zoomed]! ? `, ${share(tree.total[node]!, tree.total[zoomed]!)} of the zoomed frame` : '';
  const around = tree.fn[tree.parent[node]!]!;
  const site = tree.depth[node]! < 2 ? undefined : state.inverted ? callSite(model, state, fn, around) : callSite(model, state, around, fn);
  const about = node === 0 ? [] : foldNote(model, tree, node).name ? ['start-up or runtime frames', 'press w for whole stacks'] : [kindWord(model.kind(fn)), model.crate(fn) && `crate ${cut(model.crate(fn))}`,
    model.moduleName(model.moduleOf(fn)), tree.inlined[node] ? 'inlined into its caller' : ''];
  return (
    <TipBox x={x} y={y}>
      <b><bdi>{cut(nodeName(model, tree, node))}</bdi></b>
      <div>total {amount(tree.total[node]!, unit)}, {share(tree.total[node]!, whole)}{inside}</div>
      {!state.inverted && <div>self {amount(tree.self[node]!, unit)}, {share(tree.self[node]!, whole)}</div>}
      {times && <ul class="tip-times">{timesOf(model, times, node).map(({ kind, word, value }) =>
        <li key={kind}><i style={{ background: timeColour(kind, false) }} />{word} {amount(value, unit)}, {share(value, tree.total[node]!)}</li>)}</ul>}
      <div class="quiet">{about.filter(Boolean).join(' · ')}</div>
      {model.place(fn) && <div class="quiet tip-place"><bdi>{cut(model.place(fn))}</bdi></div>}
      {site && <div class="quiet tip-place">{state.inverted ? 'calls it at' : 'called at'} <bdi>{cut(siteWords(site))}</bdi></div>}
    </TipBox>
  );
}

/** The same as one sentence, for screen readers. */
export function describe(model: Model, state: State, tree: CallTree, node: number, times?: TimeShares): string {
  const unit = model.unit(state.metric);
  return `${cut(nodeName(model, tree, node))}, total ${amount(tree.total[node]!, unit)}, ${share(tree.total[node]!, tree.total[0]!)}, level ${tree.depth[node]}` +
    (tree.inlined[node] ? ', inlined' : '') + (times ? `: ${splitWords(model, times, tree, node)}` : '');
}
