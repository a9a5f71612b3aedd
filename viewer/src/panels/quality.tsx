// The quality of the profile, and a banner when something is wrong.

import './panels.css';
import type { JSX } from 'preact';
import { count, share } from '../format.ts';
import type { PanelProps } from '../panel.ts';
import { limited } from './cells.tsx';
import { readQuality, type QualityReport, type Warning } from './report.ts';

const GRADE_WORDS: Record<string, string> = {
  good: 'You can trust the numbers.',
  fair: 'You can trust the large numbers, the small ones less so.',
  poor: 'The numbers can mislead. Read the problems below first.',
};
const MARKS: Record<Warning['severity'], string> = { serious: '●', warning: '▲', note: '○' };

export function QualityPanel({ model }: PanelProps) {
  const report = readQuality(model.profile.quality);
  const { context } = model.profile;
  return (
    <div class="quality scrolls" tabIndex={0}>
      <div class={`grade ${report.grade}`}>
        <strong>{report.grade}</strong>
        <span>{GRADE_WORDS[report.grade] ?? 'The profile has no quality grade.'}</span>
      </div>
      <section aria-labelledby="quality-warnings">
        <h2 id="quality-warnings">{report.warnings.length ? 'Problems and fixes' : 'No problems'}</h2>
        <ul class="warnings">
          {report.warnings.map((warning, at) => (
            <li key={at} class={warning.severity}>
              <span class="mark" aria-hidden="true">{MARKS[warning.severity]}</span>
              <div>
                <p><span class="severity">{warning.severity}</span> {limited(warning.message, 2000)}</p>
                {warning.fix && <p class="fix"><span class="quiet">Do:</span> {limited(warning.fix, 2000)}</p>}
              </div>
            </li>
          ))}
        </ul>
      </section>
      <section aria-labelledby="quality-facts">
        <h2 id="quality-facts">Recording</h2>
        <table class="facts-table">
          <tbody>
            {facts(report).map(([name, value, isBad]) => (
              <tr key={name} class={isBad ? 'bad' : undefined}><th scope="row">{name}</th><td>{value}</td></tr>
            ))}
            <tr><th scope="row">Recorded by</th><td>{limited(String(context.recorder || 'unknown'), 200)}</td></tr>
            <tr><th scope="row">Recorded at</th><td>{when(Number(context.started_unix_ns))}</td></tr>
            <tr><th scope="row">File</th><td>{limited(String(context.file || 'unknown'), 400)}</td></tr>
          </tbody>
        </table>
      </section>
    </div>
  );
}

type Fact = [name: string, value: string, isBad: boolean];

function facts(report: QualityReport): Fact[] {
  const rows: Fact[] = [];
  const add = (name: string, value: string | undefined, isBad = false): void => {
    if (value !== undefined) rows.push([name, value, isBad]);
  };
  const times = (value: number | undefined): string | undefined => (value === undefined ? undefined : count(value));
  const part = (value: number | undefined): string | undefined => (value === undefined ? undefined : share(value, 1));
  add('Samples', times(report.samples));
  add('Samples expected from the CPU time', times(report.expected));
  add('Lost samples', times(report.lost), (report.lost ?? 0) > 0);
  add('Other lost records', times(report.lostRecords), (report.lostRecords ?? 0) > 0);
  add('Times the kernel throttled sampling', times(report.throttled), (report.throttled ?? 0) > 0);
  add('Samples with truncated stacks', part(report.truncated), (report.truncated ?? 0) > 0.01);
  add('Samples without a function', part(report.unresolved), (report.unresolved ?? 0) > 0.05);
  add('Samples without any symbol', part(report.nameless), (report.nameless ?? 0) > 0.01);
  add('Sampled by', report.source);
  add('Requested rate', report.frequency ? `${count(report.frequency)} samples per second of CPU time` : undefined);
  add('Kernel', report.kernel, report.kernel === 'hidden');
  add('CPU time missing because the kernel is hidden', part(report.missingKernel), (report.missingKernel ?? 0) > 0);
  add('Complete', report.incomplete ? 'no: the recorder was stopped before the end' : 'yes', report.incomplete);
  return rows;
}

/** A timestamp as text. */
export const when = (ns: number): string => (ns > 0 ? new Date(ns / 1e6).toISOString().replace('T', ' ').replace(/\.\d+Z$/, ' UTC') : 'unknown');

/** One line below the header whenever the quality is not good. */
export function QualityBanner({ model, state, dispatch }: PanelProps): JSX.Element | null {
  const report = readQuality(model.profile.quality);
  const isWrong = report.grade === 'poor' || report.grade === 'fair' || report.warnings.some(warning => warning.severity !== 'note');
  if (!isWrong) return null;
  const worst = report.warnings[0];
  const more = report.warnings.length - 1;
  const severity = report.grade === 'poor' || worst?.severity === 'serious' ? 'serious' : 'warning';
  return (
    <div class={`quality-banner ${severity}`} role="status">
      <span class="mark" aria-hidden="true">{MARKS[severity]}</span>
      <b>Quality: {report.grade}</b>
      <span class="grow">{limited(worst?.message ?? GRADE_WORDS[report.grade] ?? '', 300)}</span>
      {state.tab !== 'quality' && (
        <button type="button" onClick={() => dispatch({ tab: 'quality' })}>{more > 0 ? `What to do · ${more} more` : 'What to do'}</button>
      )}
    </div>
  );
}
