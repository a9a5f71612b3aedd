// The findings of whyslow, largest possible gain first: what, how much, where, what to do, how to check.

import './panels.css';
import './findings.css';
import { useMemo, useRef, useState } from 'preact/hooks';
import { search } from '../derive.ts';
import { copy } from '../editor.ts';
import { findingsOf, shapeWords, toFrames, toLine, type Finding, type FindingPlace } from '../findings.ts';
import { count, share } from '../format.ts';
import { useMatches } from '../matches.ts';
import type { Model } from '../model.ts';
import { NONE } from '../payload.ts';
import type { PanelProps } from '../panel.ts';
import { shortPath } from '../paths.ts';
import type { State } from '../state.ts';
import { limited } from './cells.tsx';

export function FindingsPanel({ model, state, dispatch }: PanelProps) {
  const findings = useMemo(() => findingsOf(model), [model]);
  const list = useRef<HTMLOListElement>(null);
  const searched = search(model, state);
  const matches = useMemo(() => findings.flatMap(({ fn, row }) => (searched.kind === 'found' && fn !== undefined && searched.matched[fn] === 1 ? [row] : [])), [findings, searched]);
  useMatches(matches, row => list.current?.children[row]?.scrollIntoView({ block: 'nearest' }));
  const allowed = model.profile.explained?.allowed ?? 0;
  // The pressed button disappears with its panel: moves the focus into the next one.
  const go = (changes: Partial<State>, into: string): void => {
    dispatch(changes);
    setTimeout(() => document.querySelector<HTMLElement>(into)?.focus());
  };
  return (
    <div class="findings scrolls" tabIndex={0}>
      <p role="status">{findings.length ? `${count(findings.length)} ${findings.length === 1 ? 'finding' : 'findings'} in the whole recording, largest possible gain first.` : 'No known pattern stands out.'}
        {allowed > 0 && <span class="quiet"> {count(allowed)} allowed and not shown.</span>}</p>
      <ol ref={list} aria-label="Findings">
        {findings.map(finding => (
          <li key={finding.row} class={finding.row === state.finding ? 'finding chosen' : 'finding'}>
            <Card model={model} state={state} finding={finding} go={go} />
          </li>
        ))}
      </ol>
      <p class={findings.length ? 'quiet' : undefined}>{limited(shapeWords(model), 1000)}</p>
    </div>
  );
}

interface CardProps { model: Model; state: State; finding: Finding; go: (changes: Partial<State>, into: string) => void }

function Card({ model, state, finding, go }: CardProps) {
  const { row, title, id, gain, hasFrames, hasCode, source, evidence } = finding;
  const inGraph = (): void => go(toFrames(model, finding), '.flame-scroll');
  const line = toLine(model, state, finding);
  const [copied, setCopied] = useState(false);
  return (
    <article aria-labelledby={`finding-${row}`}>
      <h2 id={`finding-${row}`}>
        <span class="number">{row + 1}.</span>
        <span>{hasFrames ? <button type="button" title="Highlight its frames in the flame graph" onClick={inGraph}>{limited(title, 400)}</button> : limited(title, 400)} <span class="id">{limited(id, 60)}</span></span>
      </h2>
      <p class="finding-share">
        <Bar finding={finding} />
        <span><b>{share(finding.share, 1)}</b> of {limited(finding.of, 60)} <span class="quiet">({(100 * finding.low).toFixed(1)} to {(100 * finding.high).toFixed(1)})</span></span>
        {gain !== undefined && <span>{limited(gain, 400)}</span>}
        <span class="quiet">confidence: {limited(finding.confidence, 20)}</span>
      </p>
      {finding.fn !== undefined && <p><span class="quiet">At</span> <PlaceWords model={model} place={finding} />{source !== undefined && <code class="line" dir="ltr">{limited(source, 300)}</code>}</p>}
      {evidence.length > 0 && <ul class="finding-evidence" aria-label="Evidence">{evidence.map((one, at) => (
        <li key={at}>{one.share !== undefined && `${share(one.share, 1)} `}{limited(one.text, 400)} {one.fn !== undefined && <PlaceWords model={model} place={one} />}</li>
      ))}</ul>}
      <p><b>Do:</b> {limited(finding.advice, 2000)}</p>
      <p><b>Check:</b> <code dir="ltr">{limited(finding.verify, 1000)}</code>{' '}
        <button type="button" class="copy" aria-label={`Copy the command that checks finding ${row + 1}`} onClick={() => { copy(finding.verify); setCopied(true); }}>{copied ? 'Copied' : 'Copy'}</button></p>
      <div class="finding-links">
        {hasFrames && <button type="button" aria-pressed={row === state.finding} onClick={inGraph}>Show in flame graph</button>}
        {line && <button type="button" onClick={() => go(line, '#panel [aria-label=Source] [tabindex="0"]')}>Show source</button>}
        {line && hasCode && <button type="button" onClick={() => go(line, '#panel .code-listing [tabindex="0"]')}>Show instructions</button>}
      </div>
    </article>
  );
}

/** A bar for the share, with the confidence interval over its end. */
function Bar({ finding: { share: part, low, high } }: { finding: Finding }) {
  const percent = (value: number): string => `${(100 * Math.min(1, Math.max(0, value))).toFixed(2)}%`;
  return <span class="finding-bar" aria-hidden="true" style={{ '--share': percent(part), '--low': percent(low), '--high': percent(high) }}><i /><b /></span>;
}

/** `app::parse src/main.rs:12`. */
function PlaceWords({ model, place: { fn, file, line } }: { model: Model; place: FindingPlace }) {
  const path = file === NONE ? '' : model.text(file) + (line ? `:${line}` : '');
  return <><bdi>{limited(model.name(fn!), 200)}</bdi>{path && <>{' '}<span class="quiet" title={limited(path, 600)}><bdi>{limited(shortPath(path), 120)}</bdi></span></>}</>;
}
