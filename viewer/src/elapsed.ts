// CPU time as a share of wall time: an extra metric, each sample divided by the number of threads that ran at
// its time.

import { NONE, type Profile } from './payload.ts';

/** The name of the metric. */
export const ELAPSED_TIME = 'elapsed-time';
/** The code of `Subject` for wall time. */
const OF_WALL = 4;

/** The row of CPU time that has the number of running threads for each sample; -1 for none. */
export const cpuMetric = ({ samples }: Pick<Profile, 'samples'>): number => samples.findIndex(({ running }) => running !== undefined);

/** The profile with the extra metric, and its row; undefined without the number of running threads. */
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
