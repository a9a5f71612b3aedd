// The text that fits into a frame. Labels use a monospaced font, so columns are counted instead of measured.

import type { CallTree } from '../aggregate.ts';
import type { FoldedTree } from '../derive.ts';
import type { Model } from '../model.ts';

const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60]|[\ud83c-\ud83e\ud840-\ud8bf][\udc00-\udfff]/g;
/** The longest label of a frame. */
const LONGEST = 2000;

/** Columns of a text: East Asian letters and emoji take two. */
export function columns(text: string): number {
  const wide = text.match(WIDE)?.length ?? 0;
  return (/[\ud800-\udfff]/.test(text) ? [...text].length : text.length) + wide;
}

function cut(text: string, room: number): string {
  if (room < 3) return '';
  let kept = '', used = 0;
  for (const c of text) {
    used += columns(c);
    if (used >= room) break;
    kept += c;
  }
  return kept + '…';
}

/** The families of the folded frames that a node stands for, one bit each. */
export const familiesOf = (tree: CallTree, node: number): number => (tree as Partial<FoldedTree>).families?.[node] ?? 0;

/** The name of a frame that stands for several, and how often it repeats. */
export function foldNote(model: Model, tree: CallTree, node: number): { name: string | undefined; repeat: string } {
  const { hidden, families, times, frames, more } = tree as Partial<FoldedTree>;
  const rounds = times?.[node] ?? 0;
  const repeat = rounds < 2 ? '' : ` (${frames![node]! > 1 ? `last ${frames![node]} ` : ''}×${rounds}${more![node] ? '+' : ''})`;
  return { name: hidden?.[node] ? model.foldName(families![node]!, hidden[node]!) : undefined, repeat };
}

/** The full name of a frame, including what was folded. */
export function nodeName(model: Model, tree: CallTree, node: number): string {
  const { name, repeat } = foldNote(model, tree, node);
  return (name ?? model.name(tree.fn[node]!)) + repeat;
}

interface Known { texts: [string, number][]; last: string }

/** Caches the forms of each function's name. */
export class Labels {
  private readonly known = new Map<number, Known>();
  constructor(private readonly model: Model) {}

  /**
   * The longest form of the name that fits into `room` columns, including what was folded; empty when not
   * even its start fits.
   */
  of(tree: CallTree, node: number, room: number): string {
    const { name, repeat } = foldNote(this.model, tree, node);
    if (name) return columns(name + repeat) <= room ? name + repeat : cut(name, room);
    const left = room - columns(repeat);
    return left < 8 ? this.fitting(tree.fn[node]!, room) : this.fitting(tree.fn[node]!, left) + repeat;
  }

  /** The same for a function alone. */
  fitting(fn: number, room: number): string {
    if (room < 3) return '';
    const { texts, last } = this.forms(fn);
    for (const [text, size] of texts) if (size <= room) return text;
    return cut(last, room);
  }

  private forms(fn: number): Known {
    let known = this.known.get(fn);
    if (!known) {
      const name = this.model.name(fn);
      if (name.length > LONGEST) {
        known = { texts: [], last: name.slice(0, LONGEST) };
      } else {
        const short = this.model.short(fn);
        const last = /}[^:]*$/.test(short) ? short : short.slice(short.lastIndexOf('::') + 1).replace(/^:/, '') || short;
        known = { texts: [name, short, last].map(text => [text, columns(text)]), last };
      }
      this.known.set(fn, known);
    }
    return known;
  }
}
