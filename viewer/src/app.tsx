// The application: one state with its history and address, and the layout around the panels.
//
// Panels get `{ model, state, dispatch, dark }`: see panels/README.md.

import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { firstStep, givenAddress, useAddress } from './address.ts';
import { nextColour } from './colour.ts';
import { EditorDialog } from './editordialog.tsx';
import { FlamePanel } from './flame/panel.tsx';
import { Header } from './header.tsx';
import { Help } from './help.tsx';
import type { Model } from './model.ts';
import type { Dispatch, PanelProps } from './panel.ts';
import { CausalPanel } from './panels/causal.tsx';
import { CallTreePanel } from './panels/calltree.tsx';
import { FindingsPanel } from './panels/findings.tsx';
import { FunctionsPanel } from './panels/functions.tsx';
import { HeapPanel } from './panels/heap.tsx';
import { CriticalPanel } from './panels/critical.tsx';
import { LocksPanel } from './panels/locks.tsx';
import { ParallelismPanel } from './panels/parallelism.tsx';
import { QualityBanner, QualityPanel } from './panels/quality.tsx';
import { SourcePanel } from './panels/source.tsx';
import { SpansPanel } from './panels/spans.tsx';
import { StackChartPanel } from './panels/stackchart.tsx';
import { SyscallsPanel } from './panels/syscalls.tsx';
import { ModulesPanel, WaitsPanel } from './panels/tables.tsx';
import { TasksPanel } from './panels/tasks.tsx';
import { ThreadsPanel } from './panels/threads.tsx';
import { hasTreeMap, TreeMapPanel } from './panels/treemap.tsx';
import { globalKey } from './shortcuts.ts';
import { begin, change, fit, fromHash, redo, TABS, undo, type History, type State, type Tab } from './state.ts';
import { Timeline } from './timeline/timeline.tsx';
import { knowsWakers } from './critical.ts';
import { hasParallelism } from './parallelism.ts';
import { Toolbar } from './toolbar.tsx';
import { useDark } from './theme.ts';
import { waitMetric } from './waits.ts';

const PANELS: Record<Tab, { title: string; Panel: (props: PanelProps) => preact.ComponentChild }> = {
  flame: { title: 'Flame', Panel: FlamePanel },
  functions: { title: 'Functions', Panel: FunctionsPanel },
  tree: { title: 'Call tree', Panel: CallTreePanel },
  source: { title: 'Source', Panel: SourcePanel },
  chart: { title: 'Stack chart', Panel: StackChartPanel },
  spans: { title: 'Spans', Panel: SpansPanel },
  quality: { title: 'Quality', Panel: QualityPanel },
  findings: { title: 'Findings', Panel: FindingsPanel },
  causal: { title: 'Causal', Panel: CausalPanel },
  map: { title: 'Tree map', Panel: TreeMapPanel },
  heap: { title: 'Heap', Panel: HeapPanel },
  locks: { title: 'Locks', Panel: LocksPanel },
  critical: { title: 'Critical path', Panel: CriticalPanel },
  parallelism: { title: 'Parallelism', Panel: ParallelismPanel },
  tasks: { title: 'Tasks', Panel: TasksPanel },
  waits: { title: 'Waits', Panel: WaitsPanel },
  syscalls: { title: 'System calls', Panel: SyscallsPanel },
  threads: { title: 'Threads', Panel: ThreadsPanel },
  modules: { title: 'Modules', Panel: ModulesPanel },
};

/** Panels that not every profile has data for. */
const WITHIN: Partial<Record<Tab, (model: Model) => boolean>> = {
  findings: model => model.profile.explained !== undefined,
  causal: model => model.profile.causalFacts !== undefined,
  map: hasTreeMap,
  heap: model => model.profile.heap.count > 0,
  locks: model => model.profile.locks.count > 0,
  critical: knowsWakers,
  parallelism: hasParallelism,
  tasks: model => model.profile.tasks.count > 0,
  waits: model => waitMetric(model) >= 0,
  syscalls: model => model.profile.syscalls.count > 0,
  threads: model => model.profile.threads.count > 1,
  modules: model => model.profile.modules.count > 1,
};

const tabsOf = (model: Model): readonly Tab[] => TABS.filter(tab => WITHIN[tab]?.(model) ?? true);

export function App({ model }: { model: Model }) {
  const [history, setHistory] = useState<History>(() => begin(fromAddress(model), firstStep()));
  const [help, setHelp] = useState(false);
  const [editor, setEditor] = useState(false);
  const chooseEditor = useCallback(() => setEditor(true), []);
  const state = history.present;
  const dark = useDark(state.theme);
  const latest = useRef(state);
  latest.current = state;

  const dispatch = useCallback<Dispatch>((changes, merging) => setHistory(history => change(history, changes, merging)), []);
  const goBack = useCallback(() => setHistory(undo), []);
  const goForward = useCallback(() => setHistory(redo), []);

  useAddress(history, () => fromAddress(model), setHistory);
  // A key that opens a panel also moves the focus into it.
  const wantsFocus = useRef(false);
  useLayoutEffect(() => {
    if (wantsFocus.current) focusPanel();
    wantsFocus.current = false;
  });
  const toPanel = useCallback((tab: Tab) => {
    wantsFocus.current = latest.current.tab !== tab;
    if (wantsFocus.current) dispatch({ tab });
    else focusPanel();
  }, []);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => globalKey(event, latest.current, { tabs: tabsOf(model), colour: state => nextColour(model, state), toPanel, dispatch, undo: goBack, redo: goForward, help: () => setHelp(shown => !shown) });
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);

  const props = useMemo<PanelProps>(() => ({ model, state, dispatch, dark, chooseEditor }), [model, state, dark]);
  const { Panel } = PANELS[state.tab];
  return (
    <div class="app">
      <Header {...props} undo={history.past.length ? goBack : undefined} redo={history.future.length ? goForward : undefined} help={() => setHelp(true)} />
      <QualityBanner {...props} />
      <Timeline {...props} />
      <main>
        <div class="bar">
          <Tabs tabs={tabsOf(model)} state={state} dispatch={dispatch} />
          <Toolbar {...props} />
        </div>
        <div class="panel" role="tabpanel" id="panel" tabIndex={-1} aria-labelledby={`tab-${state.tab}`}>
          <Panel {...props} />
        </div>
      </main>
      {help && <Help close={() => setHelp(false)} />}
      {editor && <EditorDialog close={() => setEditor(false)} />}
    </div>
  );
}

/** Focuses the part of the panel that its keys work on: the canvas or the table. */
function focusPanel(): void {
  const panel = document.getElementById('panel');
  (panel?.querySelector<HTMLElement>('[tabindex="0"]') ?? panel)?.focus();
}

function Tabs({ tabs, state, dispatch }: { tabs: readonly Tab[]; state: State; dispatch: Dispatch }) {
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const tab = tabs[(tabs.indexOf(state.tab) + step + tabs.length) % tabs.length]!;
    dispatch({ tab });
    document.getElementById(`tab-${tab}`)?.focus();
    event.preventDefault();
  };
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' }), [state.tab]);
  return (
    <div class="tabs" role="tablist" ref={list} aria-label="Panels" onKeyDown={onKeyDown}>
      {tabs.map(tab => (
        <button key={tab} id={`tab-${tab}`} role="tab" type="button" aria-selected={tab === state.tab} aria-controls="panel"
          tabIndex={tab === state.tab ? 0 : -1} onClick={() => dispatch({ tab })}>{PANELS[tab].title}</button>
      ))}
    </div>
  );
}

const fromAddress = (model: Model): State => fit(fromHash(givenAddress()), {
  metrics: model.profile.metrics.count, threads: model.profile.threads.count, functions: model.functionCount,
  spans: model.profile.spans.count, findings: model.profile.findings.count, duration: model.duration, tabs: tabsOf(model),
});
