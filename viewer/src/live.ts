// Live heap bytes at a time: an extra metric, computed from bytes allocated and bytes freed up to then.

import { UNIT_BYTES } from './format.ts';
import { NONE, type Profile, type SampleTable } from './payload.ts';

/** The code of `Subject` for memory. */
export const OF_HEAP = 2;
/** The names of the counters in a heap recording: see PAYLOAD.md. */
export const LIVE_COUNTER = 'heap-live';
export const RESIDENT_COUNTER = 'resident-set';

export interface Live {
  profile: Profile;
  /** The row of the metric; undefined when the profile has no heap timeline. */
  live: number | undefined;
  /** The row of allocated bytes, which replaces it where single samples are shown. */
  allocated: number | undefined;
}

/** The profile with the live bytes metric: allocations add, frees subtract. */
export function withLive(profile: Profile, nameOf: (metric: number) => string): Live {
  const rows = Array.from({ length: profile.metrics.count }, (_, metric) => metric);
  const find = (name: string): number | undefined => rows.find(metric => nameOf(metric) === name);
  const allocated = find('bytes-allocated'), freed = find('bytes-freed');
  if (allocated === undefined || freed === undefined) return { profile, live: undefined, allocated };
  const { count, name, unit, of, sampled } = profile.metrics;
  return {
    profile: {
      ...profile,
      metrics: {
        count: count + 1, name: Uint32Array.from([...name, NONE]), unit: Uint8Array.from([...unit, UNIT_BYTES]), of: Uint8Array.from([...of, OF_HEAP]),
        sampled: Uint8Array.from([...sampled, 0]),
      },
      samples: [...profile.samples, difference(profile.samples[allocated]!, profile.samples[freed]!)],
    },
    live: count,
    allocated,
  };
}

/** Merges both tables by time; the values of the second one become negative. */
export function difference(more: SampleTable, less: SampleTable): SampleTable {
  const count = more.time.length + less.time.length;
  const out: SampleTable = {
    time: new Float64Array(count), thread: new Uint32Array(count), stack: new Uint32Array(count), value: new Float64Array(count),
  };
  for (let at = 0, a = 0, b = 0; at < count; at++) {
    const isMore = b >= less.time.length || (a < more.time.length && more.time[a]! <= less.time[b]!);
    const from = isMore ? more : less, row = isMore ? a++ : b++;
    out.time[at] = from.time[row]!;
    out.thread[at] = from.thread[row]!;
    out.stack[at] = from.stack[row]!;
    out.value[at] = isMore ? from.value[row]! : -from.value[row]!;
  }
  return out;
}
