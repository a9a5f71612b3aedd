// What speeding up a line or a function would buy: ranked targets of a progress point, and the curve of the selected
// one.

import './panels.css';
import './heap.css';
import './causal.css';
import { useMemo } from 'preact/hooks';
import { roundValues, scale } from '../bench/scale.ts';
import { causalPoints, refusal, toFlame, toSource, type CausalPoint, type CausalRow, type CurvePoint } from '../causal.ts';
import { search } from '../derive.ts';
import { count, share } from '../format.ts';
import { useMatches } from '../matches.ts';
import type { Model } from '../model.ts';
import type { PanelProps } from '../panel.ts';
import type { State } from '../state.ts';
import { limited, Place, Share, Text } from './cells.tsx';
import { Rows, type Column } from './rows.tsx';

const COLUMNS: readonly Column[] = [
  { id: 'share', title: 'CPU', width: '5rem', numeric: true, help: 'Share of the CPU samples that hit it' },
  { id: 'name', title: 'If this were faster', width: '20%' },
  { id: 'place', title: 'Where', width: '18%' },
  { id: 'words', title: 'The program would be', help: 'Per visit of the progress point, with the 95 % confidence interval' },
];

const KINDS: Record<CausalPoint['kind'], string> = { throughput: 'time per visit', latency: 'latency', 'whole run': 'time of a run' };

export function CausalPanel({ model, state, dispatch }: PanelProps) {
  const points = useMemo(() => causalPoints(model), [model]);
  const chosen = Number(state.panel['causal-point'] ?? 0), point = points[chosen] ?? points[0];
  const rows = point?.rows ?? [];
  const selected = Number(state.panel['causal-row'] ?? -1);
  const cursor = rows.findIndex(({ row }) => row === selected);
  const shown = rows[cursor] ?? rows[0];
  const choose = (at: number): void => {
    const { row, fn } = rows[at]!;
    dispatch({ ...(fn === undefined ? {} : { fn }), panel: { ...state.panel, 'causal-row': String(row) } }, 'causal-row');
  };
  const open = (at: number): void => {
    const changes = toSource(model, state, rows[at]!) ?? toFlame(rows[at]!);
    if (changes) dispatch(changes);
  };
  const found = search(model, state);
  const matches = useMemo(() => rows.flatMap(({ fn }, at) => (found.kind === 'found' && fn !== undefined && found.matched[fn] === 1 ? [at] : [])), [rows, found]);
  useMatches(matches, choose, matches.indexOf(cursor));
  const refused = refusal(model);
  return (
    <div class="causal pane">
      <p class="status" role="status">{refused !== undefined ? `No estimates: ${limited(refused, 600)}` : point ? summary(model, point) : 'No progress point was recorded.'}</p>
      {points.length > 1 && (
        <div class="causal-points">
          <label>Progress point <select value={String(point!.point)} onChange={event => dispatch({ panel: { ...state.panel, 'causal-point': event.currentTarget.value } })}>
            {points.map(({ point, name, kind }) => <option key={point} value={String(point)}>{limited(name, 80)} ({kind})</option>)}
          </select></label>
        </div>
      )}
      <div class="heap-body">
        <Rows
          label="Targets"
          columns={COLUMNS}
          count={rows.length}
          cursor={cursor}
          reveal={`${point?.point} ${selected}`}
          onCursor={choose}
          onOpen={open}
          minWidth="640px"
          empty={refused === undefined ? 'No line or function was tried.' : 'Nothing can be said.'}
          row={at => {
            const { row, share: part, name, place, words, verdict } = rows[at]!;
            return {
              key: row,
              cells: [
                <Share value={part} whole={1} />, <Text text={name || place} />, <Place path={place} />,
                <Text className={`causal-verdict ${verdict}`} text={words} />,
              ],
            };
          }}
        />
        {point && shown && <About model={model} state={state} dispatch={dispatch} point={point} row={shown} />}
      </div>
    </div>
  );
}

function summary(model: Model, { name, kind, visits, baselines, dropped, rows }: CausalPoint): string {
  const placebo = rows.find(({ kind }) => kind === 'placebo');
  const checked = placebo === undefined ? 'There is no placebo.' : placebo.verdict === 'effect' ? 'The placebo, which never runs, seems to have an effect: do not trust this.' : placebo.verdict === 'none' ? 'The placebo, which never runs, has no effect, as it must.' : 'The placebo, which never runs, shows no effect so far.';
  const experiments = count(model.profile.causalFacts?.experiments ?? 0);
  return `${limited(name, 80)} (${KINDS[kind]}): ${count(visits)} visits in ${experiments} experiments, ${count(baselines)} of them baselines${dropped ? `; ${count(dropped)} outlying ${dropped === 1 ? 'one' : 'ones'} dropped` : ''}. ${checked}`;
}

/** The curve of a target, its numbers, and links to its source and its frames. */
function About({ model, state, dispatch, point, row }: { model: Model; state: State; dispatch: PanelProps['dispatch']; point: CausalPoint; row: CausalRow }) {
  const { name, place, words, verdict, curve, kind } = row, title = name || place;
  const source = toSource(model, state, row), flame = toFlame(row);
  const go = (changes: Partial<State>, into: string): void => {
    dispatch(changes);
    // The pressed button disappears with its panel: moves the focus into the next one.
    setTimeout(() => document.querySelector<HTMLElement>(into)?.focus());
  };
  return (
    <section class="heap-about causal-about" aria-label="Details of the selected target" tabIndex={0}>
      <h2 dir="ltr">{limited(title, 160)}</h2>
      {name && place && <p class="quiet" dir="ltr">{limited(place, 300)}</p>}
      <p class={`verdict causal-verdict ${verdict}`} style={{ whiteSpace: 'normal' }}>{limited(words, 400)}</p>
      <Curve curve={curve} label={`${title}: ${words}`} what={KINDS[point.kind]} />
      {kind !== 'placebo' && (
        <div class="causal-links">
          {source && <button type="button" onClick={() => go(source, '#panel [aria-label=Source] [tabindex="0"]')}>Show source</button>}
          {flame && <button type="button" onClick={() => go(flame, '.flame-scroll')}>Show in flame graph</button>}
        </div>
      )}
      {curve.length > 0 && <Numbers curve={curve} />}
      <p class="quiet">{count(row.experiments)} experiments{kind === 'placebo' ? '' : `; it has ${share(row.share, 1)} of the CPU samples`}.</p>
    </section>
  );
}

const WIDTH = 440, PLOT = { left: 52, right: 428, top: 10, bottom: 214, height: 252 };
const percent = (of: number): string => `${Math.round(100 * of)} %`.replace('-', '−');

/** Speed-up of the target to the right, what it saves upwards, with its band. */
function Curve({ curve, label, what }: { curve: readonly CurvePoint[]; label: string; what: string }) {
  const known = curve.filter(({ effect, low, high }) => [effect, low, high].every(Number.isFinite));
  const y = scale(known.flatMap(({ low, high, effect }) => [low, high, effect]), PLOT.bottom, PLOT.top, [0, .1]);
  if (!y) return <p class="quiet">No experiment of it counts yet.</p>;
  const x = (speedup: number): number => PLOT.left + speedup * (PLOT.right - PLOT.left);
  // Without a speed-up there is no effect.
  const all = known[0]!.speedup > 0 ? [{ speedup: 0, effect: 0, low: 0, high: 0 }, ...known] : known;
  const path = (of: 'effect' | 'low' | 'high') => all.map(one => `${x(one.speedup).toFixed(1)},${y.at(one[of]).toFixed(1)}`);
  return (
    <svg class="causal-plot" viewBox={`0 0 ${WIDTH} ${PLOT.height}`} role="img" aria-label={limited(label, 300)}>
      {roundValues(y.low, y.high, 5).map(value => (
        <g key={value}>
          <line class={value === 0 ? 'none' : 'grid'} x1={PLOT.left} x2={PLOT.right} y1={y.at(value)} y2={y.at(value)} />
          <text x={PLOT.left - 7} y={y.at(value) + 4} text-anchor="end">{percent(value)}</text>
        </g>
      ))}
      <polygon class="band" points={[...path('low'), ...path('high').reverse()].join(' ')} />
      <polyline class="curve" points={path('effect').join(' ')} />
      {known.map(({ speedup, effect, low, high }) => (
        <circle key={speedup} class="dot" cx={x(speedup)} cy={y.at(effect)} r="3.5"><title>{`${percent(speedup)} faster: ${percent(effect)} (${percent(low)} to ${percent(high)})`}</title></circle>
      ))}
      <line class="axis" x1={PLOT.left} x2={PLOT.right} y1={PLOT.bottom} y2={PLOT.bottom} />
      {[0, .25, .5, .75, 1].map(speedup => <text key={speedup} x={x(speedup)} y={PLOT.bottom + 16} text-anchor={speedup === 1 ? 'end' : 'middle'}>{percent(speedup)}</text>)}
      <text x={(PLOT.left + PLOT.right) / 2} y={PLOT.bottom + 34} text-anchor="middle">target faster by; upwards: {what} saved</text>
    </svg>
  );
}

function Numbers({ curve }: { curve: readonly CurvePoint[] }) {
  return (
    <table class="causal-table" aria-label="Effect of each speed-up">
      <thead><tr><th scope="col">Faster by</th><th scope="col">Saves</th><th scope="col">95 % interval</th><th scope="col">Experiments</th></tr></thead>
      <tbody>{curve.map(({ speedup, effect, low, high, experiments }) => (
        <tr key={speedup}><th scope="row">{percent(speedup)}</th><td>{points(effect)}</td><td>{points(low)} to {points(high)}</td><td>{count(experiments)}</td></tr>
      ))}</tbody>
    </table>
  );
}

const points = (of: number): string => `${(100 * of).toFixed(1)} %`.replace('-', '−');
