// Switches that change what all panels show.

import { colourOf, coloursFor } from './colour.ts';
import type { PanelProps } from './panel.ts';
import type { Colour } from './state.ts';

const COLOUR_WORDS: Record<Colour, string> = { kind: 'kind of code', crate: 'crate', module: 'module', thread: 'thread', function: 'function', time: 'kind of time' };

export function Toolbar({ model, state, dispatch }: PanelProps) {
  return (
    <div class="toolbar" role="toolbar" aria-label="View">
      <Switch on={state.inverted} set={inverted => dispatch({ inverted })} title="Callers instead of callees (i)">Callers</Switch>
      <Switch on={state.inline} set={inline => dispatch({ inline })} title="Show inlined frames (l)">Inlined</Switch>
      <Switch on={state.generics} set={generics => dispatch({ generics })} title="Merge instances of generic functions (g)">Merge generics</Switch>
      <Switch on={state.collapse} set={collapse => dispatch({ collapse })} title="Enter a function only once per stack (o)">Collapse recursion</Switch>
      <Switch on={state.own} set={own => dispatch({ own })} title="Only your own functions; what others take counts to the nearest of yours around them (y)">Only your code</Switch>
      <Switch on={state.whole} set={whole => dispatch({ whole })} title="Show also the frames that only start or carry other code: start-up, executors, panic catching; and every call of recursion (w)">Whole stacks</Switch>
      {state.tab === 'flame' && <>
        <Switch on={state.byName} set={byName => dispatch({ byName })} title="Frames from left to right by name; else heaviest first (b)">By name</Switch>
        <Switch on={state.icicle} set={icicle => dispatch({ icicle })} title="Root on top (k)">Icicle</Switch>
        <label>Colour <select value={colourOf(model, state)} onChange={event => dispatch({ colour: event.currentTarget.value as Colour })} title="Colour by (c)">
          {coloursFor(model, state.metric).map(colour => <option key={colour} value={colour}>{COLOUR_WORDS[colour]}</option>)}
        </select></label>
      </>}
    </div>
  );
}

function Switch({ on, set, title, children }: { on: boolean; set: (on: boolean) => void; title: string; children: string }) {
  return <button type="button" class="switch" aria-pressed={on} title={title} onClick={() => set(!on)}>{children}</button>;
}
