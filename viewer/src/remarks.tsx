// Remarks from whyslow: why results may not be comparable, what disturbed the runs.

import { recordsOf, textOf } from './headervalues.ts';

export interface Remark { severity: string; message: string; fix: string }

export const readRemarks = (value: unknown): Remark[] =>
  recordsOf(value).map(({ severity, message, fix }) => ({ severity: textOf(severity), message: textOf(message), fix: textOf(fix) }));

export function Remarks({ remarks }: { remarks: readonly Remark[] }) {
  return <>{remarks.map(({ severity, message, fix }) => (
    <p key={message} class={`remark ${severity}`}><span class="severity">{severity}</span>{message}{fix && <span class="quiet"> {fix}</span>}</p>
  ))}</>;
}
