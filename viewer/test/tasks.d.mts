// Types of what tests in TypeScript use of tasks.mjs.

export function tasks(options?: { waits?: boolean }): Uint8Array;
