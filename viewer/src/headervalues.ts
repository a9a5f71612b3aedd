// Reads values from a header, whatever it contains.

import { isRecord } from './container.ts';
import { clean } from './names.ts';

/** Longer texts are cut. */
const LONGEST = 20_000;

/** Untrusted text, safe to show; empty where there is none. */
export const textOf = (value: unknown): string => (typeof value === 'string' ? clean(value.slice(0, LONGEST)) : '');
export const textsOf = (value: unknown): string[] => (Array.isArray(value) ? value.map(textOf) : []);
/** The objects of a list. */
export const recordsOf = (value: unknown): Record<string, unknown>[] => (Array.isArray(value) ? value.filter(isRecord) : []);
