// What is under the pointer in the timeline, in words.

import { lowerBound } from '../aggregate.ts';
import { amount, duration, share, UNIT_NANOSECONDS } from '../format.ts';
import type { Model } from '../model.ts';
import type { Range } from '../state.ts';
import { KIND_COUNT } from './activity.ts';
import { counterRows, type ActivityCache } from './draw.ts';
import { HEIGHT, type Track, type Tracks } from './tracks.ts';

type SpanTrack = Track & { kind: 'spans' };

/** The span at a time and height; the shortest when several are there. `slack`: how far beside it still counts, in nanoseconds. */
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

export function readout(model: Model, tracks: Tracks, cache: ActivityCache, unit: number, [from, to]: Range, track: Track | undefined, time: number, y: number, slack: number): string {
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
  if (track?.kind === 'thread') {
    const bin = Math.min(cache.bins - 1, Math.floor((time - from) / (to - from) * cache.bins)), bins = cache.of(track.thread);
    let sum = 0;
    for (let kind = 0; kind < KIND_COUNT; kind++) sum += bins[kind * cache.bins + bin]!;
    return `${model.threadName(track.thread).slice(0, 60)} ${unit === UNIT_NANOSECONDS ? share(sum, 1) : amount(sum, unit)}`;
  }
  return '';
}
