// CPU time as a share of the time that passed: one more metric, each sample divided by how many threads ran at its moment.

import { NONE, type Profile } from './payload.ts';

/** What the metric is called. */
export const ELAPSED_TIME = 'elapsed-time';
/** What a metric is the cost of, when that is time that passed: a code of `Subject`. */
const OF_WALL = 4;

/** The row of CPU time of which it is known how many threads ran beside each sample; -1 for none. */
export const cpuMetric = ({ samples }: Pick<Profile, 'samples'>): number => samples.findIndex(({ running }) => running !== undefined);

/** The profile with the metric, and its row; nothing where it is not known how many threads ran. */
export function withElapsed(profile: Profile): { profile: Profile; elapsed: number | undefined } {
  const cpu = cpuMetric(profile);
  if (cpu < 0) return { profile, elapsed: undefined };
  const { count, name, unit, of, sampled } = profile.metrics, { time, thread, stack, value, running } = profile.samples[cpu]!;
  return {
    profile: {
      ...profile,
      metrics: {
        count: count + 1, name: Uint32Array.from([...name, NONE]), unit: Uint8Array.from([...unit, unit[cpu]!]), of: Uint8Array.from([...of, OF_WALL]),
        sampled: Uint8Array.from([...sampled, sampled[cpu]!]),
      },
      samples: [...profile.samples, { time, thread, stack, value: value.map((value, row) => Math.floor(value / Math.max(1, running![row]!))) }],
    },
    elapsed: count,
  };
}
