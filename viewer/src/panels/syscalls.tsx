// System calls by line: number, time, bytes, files and errors.

import { useMemo, useState } from 'preact/hooks';
import { search } from '../derive.ts';
import { bytes, count, duration, share } from '../format.ts';
import { useMatches } from '../matches.ts';
import { NONE } from '../payload.ts';
import type { PanelProps } from '../panel.ts';
import { chargeWords } from '../places.ts';
import { syscallRows, type SyscallRow } from '../syscalls.ts';
import { Share, Text } from './cells.tsx';
import { Rows, type Column } from './rows.tsx';
import { selected } from './tables.tsx';

const COLUMNS: readonly Column[] = [
  { id: 'share', title: 'Share', width: '4.6rem', numeric: true, help: 'Of the time of all system calls' },
  { id: 'total', title: 'Total', width: '4.8rem', numeric: true, help: 'From entry to return, including waits' },
  { id: 'count', title: 'Calls', width: '4.6rem', numeric: true },
  { id: 'bytes', title: 'Bytes', width: '4.8rem', numeric: true, help: 'Read or written' },
  { id: 'p50', title: 'p50', width: '4.6rem', numeric: true, help: 'Half of the calls take at most this long' },
  { id: 'p99', title: 'p99', width: '4.6rem', numeric: true, help: '99 % of the calls take at most this long' },
  { id: 'max', title: 'Max', width: '4.6rem', numeric: true, help: 'The longest call' },
  { id: 'call', title: 'Call', width: '8rem' },
  { id: 'at', title: 'At', width: '17rem', help: 'The line of your code that led to the call' },
  { id: 'about', title: 'Files and errors' },
];

export function SyscallsPanel({ model, state, dispatch }: PanelProps) {
  const rows = useMemo(() => syscallRows(model, state), [model, selected(state)]);
  const [cursor, setCursor] = useState(-1);
  const all = rows.reduce((sum, { total }) => sum + total, 0), calls = rows.reduce((sum, row) => sum + row.count, 0);
  const waiting = rows.reduce((sum, { total, onlyWaits }) => sum + (onlyWaits ? total : 0), 0);
  const found = search(model, state);
  const matches = useMemo(() => rows.flatMap(({ fn }, at) => (found.kind === 'found' && fn !== NONE && found.matched[fn] === 1 ? [at] : [])), [rows, found]);
  useMatches(matches, setCursor, matches.indexOf(cursor));
  const metric = Array.from({ length: model.profile.metrics.count }, (_, at) => model.metricName(at)).indexOf('syscall-time');
  const show = (at: number): void => dispatch({ tab: 'flame', ...(metric < 0 ? {} : { metric }), ...(rows[at]!.fn === NONE ? {} : { fn: rows[at]!.fn }) });
  return (
    <div class="pane">
      <div class="status quiet" role="status">{rows.length
        ? `${count(calls)} system call${calls === 1 ? '' : 's'} took ${duration(all)}, including waits${waiting ? `; ${duration(waiting)} of that in calls that only wait` : ''}. Enter shows the stacks.`
        : NOTHING}</div>
      <Rows label="System calls" columns={COLUMNS} count={rows.length} cursor={cursor} reveal={cursor} onCursor={setCursor} onOpen={show} minWidth="74rem" empty={NOTHING}
        row={at => {
          const row = rows[at]!;
          return {
            key: at, className: row.onlyWaits ? 'quiet' : '',
            cells: [
              <Share value={row.total} whole={all} />, duration(row.total), count(row.count), row.bytes ? bytes(row.bytes) : '', duration(row.p50), duration(row.p99), duration(row.max),
              <Text text={row.call} />, <Text text={chargeWords(model, row.charge)} />, <Text text={about(row)} className="quiet" />,
            ],
          };
        }} />
    </div>
  );
}

const NOTHING = 'No system call returned in the selected time.';
/** Files, and errors, listed per row. */
const MOST = 3;

/** `EAGAIN 12 · pipe 80.0 %, /dev/null 20.0 %`. */
function about({ errors, files, total }: SyscallRow): string {
  const listed = (words: string[]): string => [...words.slice(0, MOST), ...(words.length > MOST ? [`${words.length - MOST} more`] : [])].join(', ');
  const parts = [errors.map(([name, calls]) => `${name} ${count(calls)}`), files.map(([name, of]) => (files.length > 1 ? `${name} ${share(of, total)}` : name))];
  return parts.map(listed).filter(Boolean).join(' · ');
}
