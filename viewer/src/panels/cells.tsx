// What the tables of several panels have in common: names, amounts with their share, and texts that may be too long.

import type { ComponentChildren, JSX } from 'preact';
import { amount, share } from '../format.ts';
import type { Model } from '../model.ts';
import { shortPath } from '../paths.ts';
import { kindColour, kindWord } from '../palette.ts';

/** Names can be 100 KB long: a cell has no room for more than this, and a tooltip no use for it. */
const CELL_LENGTH = 240;
const TITLE_LENGTH = 1200;

export function limited(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}

/** What a cell says as plain text, for the clipboard: whole names and paths, not what there is room for. */
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

/** A text that is cut to its cell, with more of it as a tooltip. */
export function Text({ text, className }: { text: string; className?: string }): JSX.Element {
  return <span class={className} dir="ltr" title={limited(text, TITLE_LENGTH)}>{limited(text, CELL_LENGTH)}</span>;
}

/** Where something is written: the file and line stay in sight when there is no room for the folders. The whole path is the tooltip. `more`: how many other places there are. */
export function Place({ path, more = 0 }: { path: string; more?: number }): JSX.Element {
  const short = limited(shortPath(path), CELL_LENGTH);
  const file = short.lastIndexOf('/');
  return (
    <span class="place quiet" dir="ltr" title={limited(path, TITLE_LENGTH) + (more ? `\nand ${more} more lines` : '')}>
      <span class="folders">{short.slice(0, Math.max(0, file))}</span>
      <span class="file">{short.slice(Math.max(0, file))}{more > 0 && ` +${more}`}</span>
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
  /** Frames that the row stands for because they only carry other code, and their families. */
  hidden?: number;
  families?: number;
}

/** A function: the colour of its kind, its name, and what was done to it. */
export function Name({ model, fn, dark, inlined, times = 0, frames = 1, hidden = 0, families = 0 }: NameProps): JSX.Element {
  const name = hidden > 0 ? model.foldName(families, hidden) : model.name(fn);
  const place = model.place(fn);
  const title = hidden > 0 ? 'Frames that only start or carry other code; “Whole stacks” shows them' : [limited(name, TITLE_LENGTH), limited(place, TITLE_LENGTH), kindWord(model.kind(fn))].filter(Boolean).join('\n');
  return (
    <span class={hidden > 0 ? 'name folded' : 'name'} title={title}>
      <i class="kind" style={{ background: kindColour(model.kind(fn), dark) }} />
      <span class="text" dir="ltr">{limited(name, CELL_LENGTH)}</span>
      {inlined && ' '}
      {inlined && <span class="tag" title="Its code was inlined into the caller">inlined</span>}
      {times > 1 && ' '}
      {times > 1 && <span class="tag" title={repeated(model, fn, times, frames)}>{frames > 1 ? `${frames} functions ` : ''}×{times}</span>}
    </span>
  );
}

function repeated(model: Model, fn: number, times: number, frames: number): string {
  if (frames > 1) return `The last ${frames} functions call each other, up to ${times} rounds deep`;
  // Code without names may be many functions.
  const isNamed = model.member(fn) < model.profile.functions.count;
  return isNamed ? `Calls itself, up to ${times} calls deep` : `Up to ${times} frames of this code follow each other`;
}

/** A value in the metric's unit; nothing for zero, so that what matters stands out. */
export function Amount({ value, unit }: { value: number; unit: number }): JSX.Element | null {
  return value === 0 ? null : <>{amount(value, unit)}</>;
}

/** A share with a bar as long as it. */
export function Share({ value, whole }: { value: number; whole: number }): JSX.Element | null {
  if (value === 0) return null;
  const percent = whole > 0 ? Math.min(100, Math.max(0, 100 * value / whole)) : 0;
  return <span class="share" style={{ '--share': `${percent.toFixed(2)}%` }}>{share(value, whole)}</span>;
}
