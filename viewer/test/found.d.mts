// Types of what tests in TypeScript use of found.mjs.

export function found(options?: { findings?: boolean; explained?: boolean }): Uint8Array;
