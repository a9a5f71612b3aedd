// Types of what tests in TypeScript use of known.mjs.

export function known(options?: { spans?: boolean; warnings?: boolean }): Uint8Array;
