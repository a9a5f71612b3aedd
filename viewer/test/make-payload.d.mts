// Types of what tests in TypeScript use of make-payload.mjs.

export const NONE: number;
export function random(seed: number): () => number;
export class Payload {
  context: Record<string, unknown>;
  quality: Record<string, unknown>;
  heap: Record<string, unknown> | undefined;
  explained: Record<string, unknown> | undefined;
  parallelism: Record<string, unknown> | undefined;
  row(table: string, values: Record<string, number>): number;
  text(text: string | undefined): number;
  process(pid: number, name: string, parent?: number): number;
  thread(process: number, tid: number, name: string, start?: number, end?: number): number;
  module(path: string, kind?: number): number;
  fn(name: string, crate?: string, kind?: string, file?: string, line?: number, module?: number): number;
  location(module: number, address: number, frames: [number, string | undefined, number][]): number;
  stack(parent: number, location: number): number;
  charge(stack: number, fn: number, file: string | undefined, line: number): number;
  inTask(stack: number, executor: string, functions: number[], blockingCall?: number): number;
  inPlace(stack: number, place: number): number;
  metric(name: string, unit: number): number;
  sample(metric: number, time: number, thread: number, stack: number, value: number, reason?: string, details?: Record<string, number>): void;
  container(): Uint8Array;
}
export function container(header: { schema?: string; context?: object; quality?: object; heap?: object; parallelism?: object; carriers?: object[]; time_kinds?: object[]; reasons?: object[] }, columns: Record<string, { type: string; values: ArrayLike<number> & ArrayBufferView }>): Uint8Array;
export const HOSTILE: string[];
export function small(): Uint8Array;
export function executor(): Uint8Array;
export function realistic(options?: { samples?: number; seed?: number }): Uint8Array;
export function large(options?: { samples?: number; nodes?: number; threads?: number; seed?: number; seconds?: number }): Uint8Array;
export function deep(options?: { levels?: number }): Uint8Array;
export function hostile(): Uint8Array;
export function threads(options?: { count?: number }): Uint8Array;
export const SHAPES: Record<string, () => Uint8Array>;
