// Types of what tests in TypeScript use of heap.mjs.

export function heap(options?: { cpu?: boolean; processes?: boolean; snapshot?: { pid: number; time_ns: number } }): Uint8Array;
