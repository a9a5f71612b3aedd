// Reads a container (see PAYLOAD.md): a header and the columns of numbers that it describes.

export const NONE = 0xffffffff;

/** The payload cannot be shown. The message is for the user. */
export class PayloadError extends Error {}

interface Column { type: string; offset: number; length: number }

export interface Container { header: Record<string, unknown>; columns: Columns }

const SIZES: Record<string, number> = { u8: 1, u32: 4, f64: 8 };

/** Reads a decompressed container. */
export function readContainer(bytes: Uint8Array): Container {
  if (bytes.length < 4) throw new PayloadError('The profile in this page is truncated: it has no header.');
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  if (length > bytes.length - 4) throw new PayloadError('The profile in this page is truncated: its header is incomplete.');
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  } catch {
    throw new PayloadError('The profile in this page is damaged: its header cannot be read.');
  }
  if (!isRecord(header) || typeof header.schema !== 'string' || !isRecord(header.columns)) {
    throw new PayloadError('The profile in this page is damaged: its header does not describe a profile.');
  }
  if (header.schema !== 'whyslow-view/1') {
    throw new PayloadError(`This viewer reads whyslow-view/1, but the profile is ${header.schema}. Open it with the whyslow version that wrote it.`);
  }
  const columns: Record<string, Column> = {};
  for (const [name, column] of Object.entries(header.columns)) {
    if (!isRecord(column) || typeof column.type !== 'string' || !isCount(column.offset) || !isCount(column.length)) {
      throw new PayloadError(`The profile in this page is damaged: its header describes column ${name} incorrectly.`);
    }
    columns[name] = { type: column.type, offset: column.offset, length: column.length };
  }
  const start = Math.ceil((4 + length) / 8) * 8;
  return { header, columns: new Columns(columns, bytes.subarray(Math.min(start, bytes.length))) };
}

export const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);
export const isCount = (value: unknown): value is number => typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;

export class Columns {
  constructor(private readonly columns: Record<string, Column>, private readonly data: Uint8Array) {}

  has(name: string): boolean {
    return this.columns[name] !== undefined;
  }

  length(name: string): number {
    return this.columns[name]?.length ?? 0;
  }

  u8(name: string, count: number): Uint8Array {
    return this.bytes(name, 'u8', count) ?? new Uint8Array(count);
  }

  u32(name: string, count: number, missing: number): Uint32Array {
    const bytes = this.bytes(name, 'u32', count);
    return bytes ? new Uint32Array(bytes.buffer, bytes.byteOffset, count) : new Uint32Array(count).fill(missing);
  }

  f64(name: string, count: number, missing: number): Float64Array {
    const bytes = this.bytes(name, 'f64', count);
    return bytes ? new Float64Array(bytes.buffer, bytes.byteOffset, count) : new Float64Array(count).fill(missing);
  }

  /** The bytes of a column, at an address that typed arrays accept; undefined when the column is missing. */
  private bytes(name: string, type: string, count: number): Uint8Array | undefined {
    const column = this.columns[name];
    if (!column) return undefined;
    const size = SIZES[type]!;
    const end = column.offset + column.length * size;
    if (column.type !== type) throw new PayloadError(`The profile in this page is damaged: column ${name} is ${column.type}, not ${type}.`);
    if (column.length !== count) {
      throw new PayloadError(`The profile in this page is damaged: column ${name} has ${column.length} rows instead of ${count}.`);
    }
    if (end > this.data.length) throw new PayloadError(`The profile in this page is truncated: column ${name} is incomplete.`);
    const bytes = this.data.subarray(column.offset, end);
    return bytes.byteOffset % size ? bytes.slice() : bytes;
  }
}

export const damaged = (name: string, row: number) =>
  new PayloadError(`The profile in this page is damaged: row ${row} of column ${name} is out of range.`);

/** Checks that every row refers to one of `bound` things, or to none where `optional`. */
export function within(name: string, column: Uint32Array, bound: number, optional: boolean): void {
  for (let i = 0; i < column.length; i++) {
    const value = column[i]!;
    if (value >= bound && !(optional && value === NONE)) throw damaged(name, i);
  }
}

export function ascending(name: string, column: Uint32Array, bound: number): void {
  let before = 0;
  for (let i = 0; i < column.length; i++) {
    const value = column[i]!;
    if (value < before || value > bound) throw damaged(name, i);
    before = value;
  }
}
