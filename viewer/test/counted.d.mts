// Types of what tests in TypeScript use of counted.mjs.

export function counted(options?: { misses?: boolean; instructions?: boolean }): Uint8Array;
