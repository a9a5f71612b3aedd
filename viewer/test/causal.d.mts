// Types of what tests in TypeScript use of causal.mjs.

export function causal(options?: { refused?: string | undefined; samples?: boolean }): Uint8Array;
