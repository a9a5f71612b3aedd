// The critical path of the selected time: the lines that delay its end, and the threads it passes through.

import './panels.css';
import './heap.css';
import './locks.css';
import { useMemo } from 'preact/hooks';
import { CPU_REASON, criticalPath, RAN, type PathPart } from '../critical.ts';
import { duration, share } from '../format.ts';
import type { Model } from '../model.ts';
import type { Dispatch, PanelProps } from '../panel.ts';
import { chargeWords } from '../places.ts';
import { timeRange } from '../state.ts';
import { isPathDrawn, PATH_SETTING } from '../timeline/path.ts';
import { limited, Share, Text } from './cells.tsx';
import { Rows, type Column } from './rows.tsx';

/** The maximum number of listed parts. */
const MOST = 60;

const COLUMNS: readonly Column[] = [
  { id: 'share', title: 'Share', width: '4.4rem', numeric: true, help: 'Of the critical path' },
  { id: 'time', title: 'Time', width: '4.8rem', numeric: true },
  { id: 'did', title: 'State', width: '7rem', help: 'Whether the thread ran, or what it waited for' },
  { id: 'thread', title: 'Thread', width: '9rem' },
  { id: 'place', title: 'Where' },
];

function word(model: Model, did: number): string {
  const reason = model.profile.reasons[did]?.word ?? 'waited';
  return did === RAN ? 'ran' : reason === CPU_REASON ? 'queued' : reason;
}

export function CriticalPanel({ model, state, dispatch }: PanelProps) {
  const key = JSON.stringify([timeRange(state), state.threads]);
  const path = useMemo(() => criticalPath(model, state), [model, key]);
  const isDrawn = isPathDrawn(model, state);
  const rows = path?.rows ?? [];
  const cursor = Number(state.panel['critical-row'] ?? -1);
  const choose = (at: number): void => dispatch({ panel: { ...state.panel, 'critical-row': String(at) } }, 'critical-row');
  const summary = path?.total
    ? `Critical path of ${limited(model.threadName(path.thread), 60)}: ${duration(path.ran)} running (${share(path.ran, path.total)}), ${duration(path.total - path.ran)} waiting. Only work on this path delays the end.`
    : 'No critical path in the selected time.';
  return (
    <div class="locks pane">
      <div class="tools">
        <button type="button" class="switch" aria-pressed={isDrawn} onClick={() => dispatch({ panel: { ...state.panel, [PATH_SETTING]: isDrawn ? 'off' : 'on' } })}
          title="Filled where the thread runs, hollow where it waits; a line where the path goes on in another thread">Draw on the timeline</button>
        <span class="quiet hint" role="status" title={summary}>{summary}</span>
      </div>
      <div class="heap-body">
        <Rows
          label="Critical path"
          columns={COLUMNS}
          count={rows.length}
          cursor={cursor < rows.length ? cursor : -1}
          onCursor={choose}
          minWidth="700px"
          empty="No critical path in the selected time."
          row={at => {
            const { did, thread, charge, total } = rows[at]!;
            const where = chargeWords(model, charge) || (did === RAN ? '(no samples)' : '(queued for a CPU)');
            return {
              key: `${did} ${thread} ${charge}`,
              cells: [<Share value={total} whole={path!.total} />, duration(total), <Text text={word(model, did)} />, <Text text={model.threadName(thread)} />, <Text text={where} />],
            };
          }}
        />
        <PathInTime model={model} parts={path?.parts ?? []} dispatch={dispatch} />
      </div>
    </div>
  );
}

/** The threads that the path passes through. A click selects the time of a part. */
function PathInTime({ model, parts, dispatch }: { model: Model; parts: readonly PathPart[]; dispatch: Dispatch }) {
  const shown = [...parts].sort((a, b) => (b.end - b.start) - (a.end - a.start)).slice(0, MOST).sort((a, b) => a.start - b.start);
  return (
    <section class="heap-about locks-about" aria-label="Path in time order" tabIndex={0}>
      <h2>Path in time order</h2>
      <p class="quiet">Followed backwards from the end: where another thread woke a waiting one, the path continues in the waker.{parts.length > MOST && ` The longest ${MOST} of ${parts.length} parts:`}</p>
      <table class="lock-table">
        <thead><tr><th scope="col">Start</th><th scope="col">Thread</th><th scope="col">Duration</th><th scope="col">Running</th></tr></thead>
        <tbody>{shown.map(({ thread, start, end, ran }) => (
          <tr key={start}>
            <th scope="row"><button title="Select this time" onClick={() => dispatch({ brush: [start, end] })}>{duration(start)}</button></th>
            <td><bdi>{limited(model.threadName(thread), 60)}</bdi></td><td>{duration(end - start)}</td><td class="quiet">{duration(ran)}</td>
          </tr>
        ))}</tbody>
      </table>
    </section>
  );
}
