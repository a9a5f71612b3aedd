// Commands compared: the verdicts, the comparisons, the pairs, and all runs.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { firstStep, givenAddress, useAddress } from '../address.ts';
import { amount, count } from '../format.ts';
import type { Dispatch } from '../panel.ts';
import { limited } from '../panels/cells.tsx';
import { Remarks } from '../remarks.tsx';
import { SaveButton } from '../savebutton.tsx';
import { begin, change as changed, fromHash, type History } from '../state.ts';
import { useDark } from '../theme.ts';
import { commandColour, RunsPlot, StripPlot } from './plots.tsx';
import type { Metric, Results } from './results.ts';
import { change } from './scale.ts';
import './bench.css';

const NAME_LENGTH = 160;

export function BenchApp({ results }: { results: Results }) {
  const fromAddress = () => fromHash(givenAddress());
  const [history, setHistory] = useState<History>(() => begin(fromAddress(), firstStep()));
  const state = history.present, dark = useDark(state.theme);
  const latest = useRef(state);
  latest.current = state;
  const dispatch = useCallback<Dispatch>((changes, merging) => setHistory(history => changed(history, changes, merging)), []);
  useAddress(history, fromAddress, setHistory);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== 'd' || event.ctrlKey || event.metaKey || event.altKey || (event.target as HTMLElement).tagName === 'SELECT') return;
      dispatch({ theme: document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark' });
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
  const { answers, commands, metrics, remarks, file } = results;
  const names = commands.map(({ name }) => limited(name, NAME_LENGTH));
  const title = names.length === 2 ? `${names[0]} or ${names[1]}` : names.length === 1 ? names[0]! : file;
  useEffect(() => { document.title = `${title.slice(0, 80)} · whyslow`; }, [title]);
  const metric = metrics.find(({ name }) => name === state.panel['bench-metric']) ?? metrics[0];
  const setMetric = (name: string) => dispatch({ panel: { ...state.panel, 'bench-metric': name } });
  return (
    <div class="app">
      <header class="header">
        <h1 title={title}><span class="brand">whyslow</span> <bdi>{title}</bdi></h1>
        <div class="facts">{rounds(results)}{results.began > 0 && ` · ${new Date(results.began * 1000).toISOString().slice(0, 16).replace('T', ' ')} UTC`}</div>
        <div class="buttons">
          <button type="button" class="icon" onClick={() => dispatch({ theme: dark ? 'light' : 'dark' })} aria-label={dark ? 'Light theme' : 'Dark theme'}
            title={dark ? 'Light theme (d)' : 'Dark theme (d)'}>{dark ? '☀' : '☾'}</button>
          <SaveButton file={file} state={state} />
        </div>
      </header>
      <main class="bench" id="panel" tabIndex={0} aria-label="Results">
        <section aria-label="Answer">
          {answers.map(({ verdict, sentence, basis }) => <p key={sentence} class={`bench-answer ${verdict}`}><strong>{sentence}</strong> <span class="quiet">{basis}</span></p>)}
          {!answers.length && <p>Only one command: there is nothing to compare it with.</p>}
          {results.more.map(sentence => <p key={sentence}>{sentence}</p>)}
          <Remarks remarks={remarks} />
          <p class="quiet">{[results.cpu, results.machine].filter(Boolean).join('; ')}</p>
        </section>
        {metric && <>
          <div class="bench-metric">
            <label>Metric <select value={metric.name} onChange={event => setMetric(event.currentTarget.value)}>
              {metrics.map(({ name, decides }) => <option key={name} value={name}>{name}{decides ? ' (decides)' : ''}</option>)}
            </select></label>
          </div>
          <Commands metric={metric} names={names} dark={dark} />
          <Pairs metric={metric} names={names} margin={results.margin} />
          <section aria-labelledby="bench-runs">
            <h2 id="bench-runs">All runs, by round</h2>
            <RunsPlot metric={metric} names={names} dark={dark} />
            <details><summary>Show as a table</summary><RunTable metric={metric} names={names} /></details>
          </section>
        </>}
        <Comparisons results={results} names={names} setMetric={setMetric} />
      </main>
    </div>
  );
}

function rounds({ metrics, commands }: Results): string {
  const most = Math.max(0, ...(metrics[0]?.runs ?? []).map(of => of.length));
  return commands.length === 1 ? `${count(most)} runs` : `${count(most)} rounds of ${count(commands.length)} commands`;
}

interface OfMetric { metric: Metric; names: readonly string[] }

/** The statistics of each command. */
function Commands({ metric, names, dark }: OfMetric & { dark: boolean }) {
  return (
    <div class="bench-wide" tabIndex={0} role="region" aria-label="Statistics per command">
      <table class="bench-table">
        <thead><tr><th scope="col">Command</th>{['Median', 'Mean', '± 1 σ', 'Min', 'Max'].map(head => <th key={head} scope="col" class="numeric">{head}</th>)}</tr></thead>
        <tbody>{names.map((name, command) => {
          const of = metric.summaries[command];
          return (
            <tr key={command}>
              <th scope="row"><i style={{ background: commandColour(command, dark) }} /><bdi>{name}</bdi></th>
              {of ? [of.median, of.mean, of.deviation, of.least, of.most].map((value, at) => <td key={at} class="numeric">{amount(value, metric.unit)}</td>) : <td colSpan={5} class="quiet">not measured</td>}
            </tr>
          );
        })}</tbody>
      </table>
    </div>
  );
}

/** The pairs of each comparison, for the selected metric. */
function Pairs({ metric, names, margin }: OfMetric & { margin: number }) {
  if (!metric.comparisons.length) return null;
  return (
    <section aria-labelledby="bench-pairs">
      <h2 id="bench-pairs">Pairs</h2>
      <p class="quiet">Each dot is one pair of runs, the first round at the top; left is less. Line and band: estimate and confidence interval. Grey: the margin of {(margin * 100).toFixed(1)} %.</p>
      {metric.comparisons.map(comparison => {
        const name = names[comparison.candidate]!;
        return (
          <figure key={comparison.candidate} class="bench-strip">
            <figcaption><bdi>{name}</bdi> vs <bdi>{names[comparison.baseline]}</bdi>: <strong>{comparison.verdict}</strong>{comparison.ratio !== undefined && ` ${change(comparison.ratio)}`}{comparison.low !== undefined && comparison.high !== undefined && ` (${change(comparison.low)} to ${change(comparison.high)})`}</figcaption>
            <StripPlot comparison={comparison} name={name} margin={margin} />
          </figure>
        );
      })}
    </section>
  );
}

/** All comparisons, for all metrics that both commands have. */
function Comparisons({ results: { metrics }, names, setMetric }: { results: Results; names: readonly string[]; setMetric: (name: string) => void }) {
  const rows = metrics.flatMap(metric => metric.comparisons.map(comparison => ({ metric, comparison })))
    .filter(({ metric: { decides }, comparison: { ratio } }) => decides || ratio !== undefined);
  if (!rows.length) return null;
  return (
    <section aria-labelledby="bench-all">
      <h2 id="bench-all">All comparisons</h2>
      <div class="bench-wide" tabIndex={0} role="region" aria-label="Comparisons by metric">
        <table class="bench-table">
          <thead><tr><th scope="col">Metric</th><th scope="col">Command</th><th scope="col" class="numeric">Baseline</th><th scope="col" class="numeric">Candidate</th><th scope="col" class="numeric">Ratio</th><th scope="col" class="numeric">Pairs</th><th scope="col">Verdict</th></tr></thead>
          <tbody>{rows.map(({ metric, comparison: { baseline, candidate, words, pairs, verdict } }) => (
            <tr key={`${metric.name} ${candidate}`} class={metric.decides ? 'decides' : undefined}>
              <td><button type="button" class="link" title="Show the pairs and runs of this metric" onClick={() => setMetric(metric.name)}>{metric.name}</button></td><td><bdi>{names[candidate]}</bdi></td>
              {[baseline, candidate].map(command => <td key={command} class="numeric">{median(metric, command)}</td>)}
              <td class="numeric">{words}</td><td class="numeric">{pairs || ''}</td><td>{verdict}</td>
            </tr>
          ))}</tbody>
        </table>
      </div>
    </section>
  );
}

const median = ({ summaries, unit }: Metric, command: number): string => {
  const of = summaries[command];
  return of ? amount(of.median, unit) : '';
};

function RunTable({ metric, names }: OfMetric) {
  const most = Math.max(0, ...metric.runs.map(of => of.length));
  return (
    <div class="bench-wide" tabIndex={0} role="region" aria-label="All runs">
      <table class="bench-table">
        <thead><tr><th scope="col">Round</th>{names.map((name, command) => <th key={command} scope="col" class="numeric"><bdi>{name}</bdi></th>)}</tr></thead>
        <tbody>{Array.from({ length: most }, (_, round) => (
          <tr key={round}><th scope="row">{round + 1}</th>{metric.runs.map((of, command) => <td key={command} class="numeric">{of[round] === undefined ? '' : amount(of[round], metric.unit)}</td>)}</tr>
        ))}</tbody>
      </table>
    </div>
  );
}
