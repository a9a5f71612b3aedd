// Types of what tests in TypeScript use of heap.mjs.

export function heap(options?: { cpu?: boolean; processes?: boolean }): Uint8Array;
