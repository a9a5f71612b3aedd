// Types of what tests in TypeScript use of parallel.mjs.

export function parallel(options?: { waits?: boolean; found?: boolean; sealed?: boolean; end?: number }): Uint8Array;
