// Types of what tests in TypeScript use of measured.mjs.

export function measured(options?: { commands?: number; damage?: boolean }): Uint8Array;
