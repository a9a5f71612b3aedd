// The selected function between its callers and its callees. A click goes to that function.

import './panels.css';
import { useMemo, useRef } from 'preact/hooks';
import type { Transform } from '../transforms.ts';
import { callSite } from '../callsites.ts';
import { functionTable, treeAroundFunction, whole } from '../derive.ts';
import { amount, share } from '../format.ts';
import { calleesOf, callersOf } from '../outline.ts';
import { kindWord } from '../palette.ts';
import type { PanelProps } from '../panel.ts';
import { transformed, type State } from '../state.ts';
import { Name, Text } from './cells.tsx';
import { useRowMenu } from './rowmenu.tsx';
import { SandwichFlame } from './sandwichflame.tsx';
import { TreeTable } from './tree.tsx';

/** Whether callers and callees are flame graphs. */
export const isFlameShown = (state: State): boolean => state.panel['sandwich-view'] === 'flame';

export function SandwichPanel(props: PanelProps) {
  const { model, state, dispatch, dark } = props;
  const tree = treeAroundFunction(model, state);
  const fn = state.fn;
  const callers = useMemo(() => (fn === undefined ? undefined : callersOf(tree, fn)), [tree, fn]);
  const callees = useMemo(() => (fn === undefined ? undefined : calleesOf(tree, fn)), [tree, fn]);
  // The previous functions, for the Back button.
  const walked = useRef<number[]>([]);
  const menu = useRowMenu(props);
  if (fn === undefined || !callers || !callees) {
    return <div class="sandwich none"><p class="empty">Select a function to see its callers and callees.</p></div>;
  }
  const walk = (to: number): void => {
    if (to === fn) return;
    walked.current = [...walked.current, fn].slice(-50);
    dispatch({ fn: to });
  };
  const back = (): void => {
    const to = walked.current.at(-1);
    walked.current = walked.current.slice(0, -1);
    if (to !== undefined) dispatch({ fn: to });
  };
  const isFlame = isFlameShown(state);
  const show = (view: string): void => {
    const { 'sandwich-view': _, ...rest } = state.panel;
    dispatch({ panel: view ? { ...rest, 'sandwich-view': view } : rest });
  };
  const unit = model.unit(state.metric);
  const all = whole(model, state);
  const values = functionTable(model, state);
  const shared = { model, dark, unit, whole: all, matched: undefined, selected: undefined, onPick: walk, walks: true, onTransform: (transform: Transform) => dispatch(transformed(state, transform)), onMenu: menu.open };
  const about = JSON.stringify([fn, state.inline, state.generics, state.collapse, state.own, state.whole, state.transforms]);
  return (
    <div class={`sandwich pane${isFlame ? ' flames' : ''}`}>
      <div class="tools">
        <button type="button" onClick={back} disabled={walked.current.length === 0} title="Back to the previous function" aria-label="Back">←</button>
        <strong class="grow"><Name model={model} fn={fn} dark={dark} /></strong>
        <span class="figures">
          self <b>{amount(values.self[fn]!, unit)}</b> {share(values.self[fn]!, all)}
          <i /> total <b>{amount(values.total[fn]!, unit)}</b> {share(values.total[fn]!, all)}
        </span>
        <span class="quiet where"><Text text={[kindWord(model.kind(fn)), model.crate(fn), model.place(fn)].filter(Boolean).join(' · ')} /></span>
        <div class="segments" role="group" aria-label="Callers and callees as">
          <button type="button" aria-pressed={!isFlame} onClick={() => show('')}>Tables</button>
          <button type="button" aria-pressed={isFlame} onClick={() => show('flame')}>Flame graphs</button>
        </div>
        <button type="button" onClick={() => dispatch(transformed(state, { kind: 'focus', fn }))} title="Only stacks with this function">Focus</button>
        <button type="button" onClick={() => dispatch(transformed(state, { kind: 'hide', fn }))} title="Only stacks without this function">Hide</button>
        <button type="button" onClick={() => dispatch(transformed(state, { kind: 'merge', fn }))} title="Count it as part of its callers">Merge</button>
        <button type="button" onClick={() => dispatch({ tab: 'source' })} title="Show source and machine code">Source</button>
      </div>
      {isFlame ? <SandwichFlame {...props} fn={fn} /> : <div class="halves">
        <section aria-label="Callers">
          <h3>Called by</h3>
          <TreeTable {...shared} label="Callers" columns={['total', 'site']} site={(caller, callee = fn) => callSite(model, state, caller, callee)} outline={callers} about={`callers ${about}`}
            empty={callers.whole > 0 ? 'No callers: its stacks start here.' : 'No selected sample contains this function.'} />
        </section>
        <section aria-label="Callees">
          <h3>Calls</h3>
          <TreeTable {...shared} label="Callees" columns={['total', 'self', 'site']} site={(callee, caller = fn) => callSite(model, state, caller, callee)} outline={callees} about={`callees ${about}`}
            empty={callees.whole > 0 ? 'No callees: all of its time is self time.' : 'No selected sample contains this function.'} />
        </section>
      </div>}
      {menu.menu}
    </div>
  );
}
