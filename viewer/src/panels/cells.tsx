// Table cells for several panels: names, amounts with their share, and long texts.

import type { ComponentChildren, JSX } from 'preact';
import { amount, share } from '../format.ts';
import type { Model } from '../model.ts';
import { shortPath } from '../paths.ts';
import { kindColour, kindWord } from '../palette.ts';

/** Names can be 100 KB long: limits for the text of a cell and of a tooltip. */
const CELL_LENGTH = 240;
const TITLE_LENGTH = 1200;

export function limited(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}

/** The plain text of a cell, for the clipboard: full names and paths, not the shortened ones. */
export function copyText(child: ComponentChildren): string {
  if (child === null || child === undefined || typeof child === 'boolean') return '';
  if (Array.isArray(child)) return child.map(copyText).join('');
  if (typeof child !== 'object') return String(child);
  const { type, props } = child as { type: unknown; props: Partial<NameProps> & { path?: string; text?: string; children?: ComponentChildren; 'aria-hidden'?: unknown } };
  if (type === Name) return props.model!.name(props.fn!);
  if (type === Place) return props.path!;
  if (type === Text) return props.text!;
  // Cells are plain functions of their properties.
  if (typeof type === 'function') return copyText((type as (props: unknown) => ComponentChildren)(props));
  return props['aria-hidden'] ? '' : copyText(props.children);
}

/** A text cut to its cell, with a longer version as its tooltip. */
export function Text({ text, className }: { text: string; className?: string }): JSX.Element {
  return <span class={className} dir="ltr" title={limited(text, TITLE_LENGTH)}>{limited(text, CELL_LENGTH)}</span>;
}

/**
 * A source location. The file and line remain visible when there is no room for the folders. The full path
 * is the tooltip. `more`: the number of other locations.
 */
export function Place({ path, more = 0 }: { path: string; more?: number }): JSX.Element {
  const short = limited(shortPath(path), CELL_LENGTH);
  const file = short.lastIndexOf('/') + 1;
  return (
    <span class="place quiet" dir="ltr" title={limited(path, TITLE_LENGTH) + (more ? `\nand ${more} more lines` : '')}>
      <span class="folders">{short.slice(0, file)}</span>
      <span class="file">{short.slice(file)}{more > 0 && ` +${more}`}</span>
    </span>
  );
}

interface NameProps {
  model: Model;
  fn: number;
  dark: boolean;
  inlined?: boolean;
  /** Rounds of recursion in this row, and frames in a round. */
  times?: number;
  frames?: number;
  /** Whether more rounds are left out of the profile. */
  more?: boolean;
  /** Frames that the row stands for because they only carry other code, and their families. */
  hidden?: number;
  families?: number;
}

/** A function: the colour of its kind, its name, and tags for inlining and recursion. */
export function Name({ model, fn, dark, inlined, times = 0, frames = 1, more = false, hidden = 0, families = 0 }: NameProps): JSX.Element {
  const name = hidden > 0 ? model.foldName(families, hidden) : model.name(fn);
  const place = model.place(fn);
  const title = hidden > 0 ? 'Start-up or runtime frames. “Whole stacks” shows them' : [limited(name, TITLE_LENGTH), limited(place, TITLE_LENGTH), kindWord(model.kind(fn))].filter(Boolean).join('\n');
  return (
    <span class={hidden > 0 ? 'name folded' : 'name'} title={title}>
      <i class="kind" style={{ background: kindColour(model.kind(fn), dark) }} />
      <span class="text" dir="ltr">{limited(name, CELL_LENGTH)}</span>
      {inlined && ' '}
      {inlined && <span class="tag" title="Inlined into the caller">inlined</span>}
      {times > 1 && ' '}
      {times > 1 && <span class="tag" title={repeated(times, frames, more)}>{frames > 1 ? `${frames} functions ` : ''}×{times}{more && '+'}</span>}
    </span>
  );
}

function repeated(times: number, frames: number, more: boolean): string {
  const deep = more ? `${times} or more` : `up to ${times}`;
  return frames > 1 ? `The last ${frames} functions call each other, ${deep} rounds deep` : `Calls itself, ${deep} calls deep`;
}

/** A value in the metric's unit; empty for zero, so that the other values stand out. */
export function Amount({ value, unit }: { value: number; unit: number }): JSX.Element | null {
  return value === 0 ? null : <>{amount(value, unit)}</>;
}

/** A share with a bar of that length. */
export function Share({ value, whole }: { value: number; whole: number }): JSX.Element | null {
  if (value === 0) return null;
  const percent = whole > 0 ? Math.min(100, Math.max(0, 100 * value / whole)) : 0;
  return <span class="share" style={{ '--share': `${percent.toFixed(2)}%` }}>{share(value, whole)}</span>;
}
