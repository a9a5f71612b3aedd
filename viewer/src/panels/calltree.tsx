// The call tree: from the outermost callers to their callees, or inverted, with the heaviest path expanded.

import './panels.css';
import { useMemo, useState } from 'preact/hooks';
import { foldedTree, search, whole } from '../derive.ts';
import { useMatches } from '../matches.ts';
import { inverted, topDown } from '../outline.ts';
import type { PanelProps } from '../panel.ts';
import { transformed } from '../state.ts';
import { matchesInverted, matchesTopDown } from '../treematches.ts';
import { Nothing } from './nothing.tsx';
import { useRowMenu } from './rowmenu.tsx';
import { TreeTable } from './tree.tsx';

export function CallTreePanel(props: PanelProps) {
  const { model, state, dispatch, dark } = props;
  const menu = useRowMenu(props);
  const tree = foldedTree(model, state);
  const outline = useMemo(() => (state.inverted ? inverted(tree) : topDown(tree)), [tree, state.inverted]);
  const [again, setAgain] = useState(0);
  const found = search(model, state);
  const matched = found.kind === 'found' ? found.matched : undefined;
  const matches = useMemo(
    () => (!matched ? [] : state.inverted ? matchesInverted(outline, ({ fn, families }) => model.isAmong(matched, fn, families))
      : matchesTopDown(tree, node => model.isAmong(matched, tree.fn[node]!, tree.families[node]!))),
    [outline, matched],
  );
  const [goTo, setGoTo] = useState<readonly number[]>();
  useMatches(matches, path => {
    setGoTo([...path]); // a copy, so that the same match can be visited again
    dispatch({ fn: path.at(-1) });
  });
  const about = JSON.stringify([state.inverted, state.inline, state.generics, state.collapse, state.own, state.whole, state.transforms, again]);
  return (
    <div class="calltree pane">
      <div class="tools">
        <div class="segments" role="group" aria-label="Direction">
          <button type="button" aria-pressed={!state.inverted} onClick={() => dispatch({ inverted: false })}>Top-down</button>
          <button type="button" aria-pressed={state.inverted} onClick={() => dispatch({ inverted: true })}>Inverted</button>
        </div>
        <button type="button" onClick={() => setAgain(again + 1)}>Heaviest path</button>
        <span class="quiet hint">
          {state.inverted ? 'Functions by self time, then their callers.' : 'From the outermost callers to their callees.'} ← → expand and collapse, * expands everything below
        </span>
      </div>
      <TreeTable
        label={state.inverted ? 'Call tree, inverted' : 'Call tree'}
        model={model}
        dark={dark}
        outline={outline}
        whole={whole(model, state)}
        unit={model.unit(state.metric)}
        columns={state.inverted ? ['total', 'place'] : ['total', 'self', 'place']}
        about={about}
        matched={matched}
        goTo={goTo}
        selected={state.fn}
        hasPaths={!state.inverted}
        onMenu={menu.open}
        onCursor={fn => dispatch({ fn })}
        onPick={fn => dispatch({ fn })}
        onTransform={transform => dispatch(transformed(state, transform))}
        empty={<Nothing model={model} state={state} dispatch={dispatch} />}
      />
      {menu.menu}
    </div>
  );
}
