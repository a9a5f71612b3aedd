// Types of what tests in TypeScript use of compared.mjs.

export function compared(options?: { carried?: boolean; runs?: number; damage?: string; lines?: boolean }): Uint8Array;
