// Selects the visible tracks of the timeline: a list of check boxes below a button.

import { useEffect, useRef } from 'preact/hooks';
import type { PanelProps } from '../panel.ts';
import { knowsWakers } from '../critical.ts';
import { runsOf } from '../runs.ts';
import { waitsOf } from '../waits.ts';
import { isPathDrawn, PATH_SETTING } from './path.ts';
import { areCpusFolded, parseChanged, toggled } from './tracks.ts';

/** The maximum number of listed tracks of one kind. */
const MOST = 40;

export function TrackChooser({ model, state, dispatch }: Pick<PanelProps, 'model' | 'state' | 'dispatch'>) {
  const box = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const onDown = (event: Event): void => { if (!box.current?.contains(event.target as Node)) box.current?.removeAttribute('open'); };
    addEventListener('pointerdown', onDown, true);
    return () => removeEventListener('pointerdown', onDown, true);
  }, []);
  const { counters, processes, spans, threads } = model.profile;
  const changed = parseChanged(state.panel['timeline-tracks']);
  const set = (text: string): void => {
    const { 'timeline-tracks': _, ...rest } = state.panel;
    dispatch({ panel: text ? { ...rest, 'timeline-tracks': text } : rest });
  };
  const hasWaits = waitsOf(model) !== undefined, cpus = runsOf(model)?.cpus.length ?? 0;
  const hasWakers = knowsWakers(model);
  const isOn = (name: string): boolean => (name === PATH_SETTING ? isPathDrawn(model, state) : name === 'cpus' ? !areCpusFolded(cpus, changed) : !changed.has(name));
  const choices: [string, string][] = [
    ...(hasWaits ? [['parallel', 'Concurrent threads'], ['states', 'Thread states']] as [string, string][] : []),
    ...(hasWakers ? [[PATH_SETTING, 'Critical path'] as [string, string]] : []),
    ...(cpus ? [['cpus', `Lanes for ${cpus} CPU${cpus === 1 ? '' : 's'}`] as [string, string]] : []),
    ...Array.from({ length: Math.min(MOST, counters.count) }, (_, counter): [string, string] => [`c${counter}`, model.counterName(counter)]),
    ...(spans.count ? [['spans', 'Spans'] as [string, string]] : []),
    ...Array.from({ length: Math.min(MOST, processes.count) }, (_, process): [string, string] =>
      [`p${process}`, `Threads of ${model.processName(process)} ${model.profile.processes.pid[process]}`]),
    ...(threads.count > 1 ? [['idle', 'Threads without samples'], ['others', 'Unselected threads'], ['groups', 'Many threads of one name as one row']] as [string, string][] : []),
  ];
  const close = (event: KeyboardEvent): void => {
    if (event.key !== 'Escape' || !box.current?.open) return;
    box.current.open = false;
    box.current.querySelector('summary')?.focus();
    event.stopPropagation();
  };
  return (
    <details class="track-chooser" ref={box} onKeyDown={close}>
      <summary>Tracks{changed.size > 0 && <span class="hidden"> (some are hidden or collapsed)</span>}{changed.size > 0 && ' •'}</summary>
      <fieldset>
        <legend>Shown in the timeline</legend>
        {choices.map(([name, title]) => (
          <label key={name}><input type="checkbox" checked={isOn(name)} onChange={() => (name === PATH_SETTING ? dispatch({ panel: { ...state.panel, [PATH_SETTING]: isOn(name) ? 'off' : 'on' } }) : set(toggled(changed, name)))} /> <span dir="ltr">{title.slice(0, 120)}</span></label>
        ))}
        <button type="button" disabled={!changed.size} onClick={() => set('')}>Reset</button>
      </fieldset>
    </details>
  );
}
