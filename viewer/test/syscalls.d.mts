// Types of what tests in TypeScript use of syscalls.mjs.

export function syscalls(): Uint8Array;
