// The system call tables of a payload: calls with the same stack, file and result, and the distribution of
// their times.

import { damaged, NONE, within, type Columns } from './container.ts';

export interface SyscallTables {
  /** In order of `time`: when the last of the calls returned. Times are in nanoseconds. */
  syscalls: {
    count: number; time: Float64Array; thread: Uint32Array; stack: Uint32Array; call: Uint32Array; onlyWaits: Uint8Array;
    /** The file or other target, and the error that they returned; or NONE. */
    file: Uint32Array; error: Uint32Array;
    calls: Float64Array; total: Float64Array; max: Float64Array; bytes: Float64Array;
  };
  /** How many calls of a row are in a bar; sorted by row. */
  syscallBars: { count: number; row: Uint32Array; bar: Uint32Array; calls: Float64Array };
}

export function readSyscalls(columns: Columns): SyscallTables {
  const count = columns.length('syscalls.call'), bars = columns.length('syscall_bars.bar');
  const u32 = (name: string, missing = NONE): Uint32Array => columns.u32(`syscalls.${name}`, count, missing);
  const f64 = (name: string): Float64Array => columns.f64(`syscalls.${name}`, count, 0);
  return {
    syscalls: {
      count, time: f64('time'), thread: u32('thread', 0), stack: u32('stack'), call: u32('call'), onlyWaits: columns.u8('syscalls.only_waits', count),
      file: u32('file'), error: u32('error'), calls: f64('count'), total: f64('total'), max: f64('max'), bytes: f64('bytes'),
    },
    syscallBars: { count: bars, row: columns.u32('syscall_bars.syscalls', bars, NONE), bar: columns.u32('syscall_bars.bar', bars, 0), calls: columns.f64('syscall_bars.calls', bars, 0) },
  };
}

/** The last bar of a histogram: the one of the largest 64-bit number. */
const LAST_BAR = 495;

export function checkSyscalls({ syscalls, syscallBars }: SyscallTables, { texts, threads, stacks }: { texts: number; threads: number; stacks: number }): void {
  within('syscalls.thread', syscalls.thread, Math.max(1, threads), false);
  within('syscalls.stack', syscalls.stack, stacks, true);
  within('syscalls.call', syscalls.call, texts, true);
  within('syscalls.file', syscalls.file, texts, true);
  within('syscalls.error', syscalls.error, texts, true);
  within('syscall_bars.syscalls', syscallBars.row, syscalls.count, false);
  syscallBars.bar.forEach((bar, row) => { if (bar > LAST_BAR) throw damaged('syscall_bars.bar', row); });
}
