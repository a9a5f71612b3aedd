// Toggles that change what all panels show.

import { colourOf, coloursFor } from './colour.ts';
import type { PanelProps } from './panel.ts';
import type { Colour } from './state.ts';

const COLOUR_WORDS: Record<Colour, string> = { kind: 'kind of code', crate: 'crate', module: 'module', thread: 'thread', function: 'function', time: 'thread state' };

export function Toolbar({ model, state, dispatch }: PanelProps) {
  return (
    <div class="toolbar" role="toolbar" aria-label="View">
      <Switch on={state.inverted} set={inverted => dispatch({ inverted })} title="Show callers instead of callees (i)">Invert</Switch>
      <Switch on={state.inline} set={inline => dispatch({ inline })} title="Show inlined frames (l)">Inlined</Switch>
      <Switch on={state.generics} set={generics => dispatch({ generics })} title="Merge instances of generic functions (g)">Merge generics</Switch>
      <Switch on={state.collapse} set={collapse => dispatch({ collapse })} title="Show each function only once per stack (o)">Collapse recursion</Switch>
      <Switch on={state.own} set={own => dispatch({ own })} title="Show only your functions; other code counts towards your nearest function that called it (y)">Only your code</Switch>
      <Switch on={state.whole} set={whole => dispatch({ whole })} title="Also show start-up and runtime frames, and every recursive call (w)">Whole stacks</Switch>
      {state.tab === 'flame' && <>
        <Switch on={state.byName} set={byName => dispatch({ byName })} title="Sort frames by name instead of heaviest first (b)">By name</Switch>
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
