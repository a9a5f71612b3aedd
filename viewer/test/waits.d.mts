// Types of what tests in TypeScript use of waits.mjs.

export const EVIL: string;
export function waits(options?: { cpus?: number }): Uint8Array;
export function manyWaits(options?: { count?: number; threads?: number; seed?: number }): Uint8Array;
export function locks(options?: { instants?: readonly number[] }): Uint8Array;
