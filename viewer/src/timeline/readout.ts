// Describes what is under the pointer in the timeline.

import { lowerBound } from '../aggregate.ts';
import { amount, duration, share, UNIT_NANOSECONDS } from '../format.ts';
import type { Model } from '../model.ts';
import type { Range } from '../state.ts';
import { NONE } from '../payload.ts';
import { runAt, runsBetween } from '../runs.ts';
import { chargeOf, chargeWords } from '../places.ts';
import { reasonWord, stretchAt, waitsBetween, type Stretch } from '../waits.ts';
import { KIND_COUNT } from './activity.ts';
import { counterRows, type ActivityCache } from './draw.ts';
import type { TimeCache } from './states.ts';
import { HEIGHT, type Track, type Tracks } from './tracks.ts';

type SpanTrack = Track & { kind: 'spans' };

/**
 * The span at a time and height; the shortest when there are several. `slack`: how far next to it still
 * counts, in nanoseconds.
 */
export function spanAt(model: Model, tracks: Tracks, track: SpanTrack, y: number, time: number, slack: number): number | undefined {
  const { spans } = model.profile;
  const lane = Math.floor((y - track.y - 4) / HEIGHT.lane);
  let best: number | undefined, least = Infinity;
  for (const span of track.spans) {
    if (spans.start[span]! > time + slack) break;
    if (!track.isFolded && tracks.lanes[span] !== lane) continue;
    const end = Number.isNaN(spans.end[span]!) ? Infinity : spans.end[span]!;
    if (end + slack >= time && end - spans.start[span]! < least) { least = end - spans.start[span]!; best = span; }
  }
  return best;
}

/** Whether a position in a thread's track is in its lane of thread states. */
export const isInStates = (track: Track & { kind: 'thread' }, y: number): boolean => track.hasStates && y >= track.y + HEIGHT.thread - 1;

/**
 * What a thread does at a time: `worker · blocked: I/O (file) for 2.30 ms · fill buffer.rs:418`. Where one
 * pixel has many waits, their shares.
 */
function stateWords(times: TimeCache, thread: number, time: number): string {
  const { model, waits, range: [from, to] } = times, kinds = model.profile.timeKinds, pixel = (to - from) / times.bins;
  const name = model.threadName(thread).slice(0, 60);
  const many = waitsBetween(waits, thread, time - pixel / 2, time + pixel / 2);
  if (many > 1) {
    const bin = Math.max(0, Math.min(times.bins - 1, Math.floor((time - from) / pixel))), bins = times.of(thread);
    const shares = [...kinds.keys()].map(kind => ({ word: kinds[kind]!.word, value: bins[kind * times.bins + bin]! })).filter(({ value }) => value > 0).sort((a, b) => b.value - a.value);
    return `${name} · ${many} waits in ${duration(pixel)}: ${shares.map(({ word, value }) => `${word} ${share(value, 1)}`).join(', ')}`;
  }
  const stretch = stretchAt(waits, thread, time);
  if (!stretch) return `${name} does not exist at this time`;
  const word = kinds[stretch.kind]!.word, long = duration(stretch.end - stretch.begin);
  if (stretch.wait < 0) return `${name} · ${word} for ${long}`;
  const reason = reasonWord(model, waits, stretch.wait), row = waits.row[stretch.wait]!;
  const waker = waits.table.details?.waker[row] ?? NONE, stack = waits.table.stack[row]!;
  const place = chargeWords(model, chargeOf(model, stack));
  return `${name} · ${word}${kinds[stretch.kind]!.state === 'blocked' ? ` (${reason})` : ''} for ${long}${place && ` · ${place}`}${waker === NONE ? '' : ` · woken by ${model.threadName(waker).slice(0, 60)}`}`;
}

function parallelWords(times: TimeCache, time: number): string {
  const { model, range: [from, to], steps } = times, { bins } = times.parallel;
  const bin = Math.max(0, Math.min(steps - 1, Math.floor((time - from) / (to - from) * steps)));
  return times.busyKinds.map(kind => ({ word: model.profile.timeKinds[kind]!.word, value: bins[kind * steps + bin]! })).filter(({ value }) => value >= .005)
    .map(({ word, value }) => `${+value.toFixed(2)} ${word}`).join(', ') || 'no active threads';
}

function cpuWords(times: TimeCache, cpu: number, time: number): string {
  const { model, range: [from, to] } = times, runs = times.runs!, pixel = (to - from) / times.bins, number = runs.cpus[cpu];
  const here = runsBetween(runs, cpu, time - pixel / 2, time + pixel / 2);
  const run = runAt(runs, cpu, time, pixel / 2);
  if (run < 0) return `CPU ${number} · no recorded thread`;
  const name = model.threadName(runs.thread[run]!).slice(0, 60), moved = runs.migrations[runs.thread[run]!]!;
  if (here.runs > 1) return `CPU ${number} · ${here.runs} runs of ${here.threads} thread${here.threads === 1 ? '' : 's'} in ${duration(pixel)}${here.threads === 1 ? `: ${name}` : ''}`;
  const from_ = runs.from[run]!;
  return `CPU ${number} · ${name} for ${duration(runs.end[run]! - runs.begin[run]!)}${from_ === NONE ? '' : ` · moved from CPU ${from_}`} · ${moved} migration${moved === 1 ? '' : 's'} in total`;
}

/**
 * The stretch of a thread, or the run on a CPU, that a click selects; undefined where it is too narrow to
 * click.
 */
export function stretchUnder(times: TimeCache | undefined, track: Track | undefined, time: number, y: number): (Pick<Stretch, 'begin' | 'end'> & { thread: number }) | undefined {
  if (!times) return undefined;
  const least = 3 * (times.range[1] - times.range[0]) / times.bins;
  let found: { begin: number; end: number; thread: number } | undefined;
  if (track?.kind === 'thread' && isInStates(track, y)) {
    const stretch = stretchAt(times.waits, track.thread, time);
    // The row of a wait is at its end, which a range excludes.
    if (stretch) found = { begin: stretch.begin, end: stretch.end + (stretch.wait < 0 ? 0 : 1000), thread: track.thread };
  } else if (track?.kind === 'cpu') {
    const runs = times.runs!, run = runAt(runs, track.cpu, time, 0);
    if (run >= 0) found = { begin: runs.begin[run]!, end: runs.end[run]!, thread: runs.thread[run]! };
  }
  return found && found.end - found.begin >= least ? found : undefined;
}

export function readout(model: Model, tracks: Tracks, cache: ActivityCache, times: TimeCache | undefined, unit: number, [from, to]: Range, track: Track | undefined, time: number, y: number, slack: number): string {
  if (times && track?.kind === 'parallel') return parallelWords(times, time);
  if (times && track?.kind === 'cpu') return cpuWords(times, track.cpu, time);
  if (times && track?.kind === 'thread' && isInStates(track, y)) return stateWords(times, track.thread, time);
  if (track?.kind === 'counter') {
    const [first, last] = counterRows(model, track.counter), { time: times, value } = model.profile.counterValues;
    const at = lowerBound(times.subarray(first, last), time + 1) - 1;
    return at < 0 ? '' : `${model.counterName(track.counter).slice(0, 60)} ${amount(value[first + at]!, model.profile.counters.unit[track.counter]!)}`;
  }
  if (track?.kind === 'spans') {
    const span = spanAt(model, tracks, track, y, time, slack), { spans } = model.profile;
    if (span === undefined) return '';
    const detail = model.text(spans.detail[span]!).slice(0, 80);
    return `${model.text(spans.name[span]!).slice(0, 80)}${detail && ` · ${detail}`} · ${duration((Number.isNaN(spans.end[span]!) ? to : spans.end[span]!) - spans.start[span]!)}`;
  }
  if (track?.kind === 'thread' || track?.kind === 'group') {
    const bin = Math.min(cache.bins - 1, Math.floor((time - from) / (to - from) * cache.bins)), bins = track.kind === 'group' ? cache.sum(track.threads).bins : cache.of(track.thread);
    let sum = 0;
    for (let kind = 0; kind < KIND_COUNT; kind++) sum += bins[kind * cache.bins + bin]!;
    if (track.kind === 'group') return `${track.name.slice(0, 60)} × ${track.threads.length} ${unit === UNIT_NANOSECONDS ? `${+sum.toFixed(2)} running` : amount(sum, unit)}`;
    return `${model.threadName(track.thread).slice(0, 60)} ${unit === UNIT_NANOSECONDS ? share(sum, 1) : amount(sum, unit)}`;
  }
  return '';
}
