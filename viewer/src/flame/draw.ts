// Draws the visible boxes of a flame graph onto a canvas.

import type { CallTree } from '../aggregate.ts';
import type { FoldedTree } from '../derive.ts';
import type { Model } from '../model.ts';
import { changeColour, frameColour, nthColour } from '../palette.ts';
import type { Colour } from '../state.ts';
import { familiesOf, type Labels } from './label.ts';
import type { Boxes } from './layout.ts';
import { timeColour } from '../timekinds.ts';
import type { ThreadShares } from './threads.ts';
import type { TimeShares } from './times.ts';

export const ROW = 18;
export const FONT = '11.5px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
const PAD = 4;

export interface Appearance {
  model: Model;
  labels: Labels;
  colour: Colour;
  dark: boolean;
  /** 1 for each function that is not dimmed; undefined when none is. */
  wanted: Uint8Array | undefined;
  /** 1 for each frame that is not dimmed; undefined when `wanted` alone decides. */
  marked?: Uint8Array | undefined;
  /** Only when frames are coloured by thread. */
  threads: ThreadShares | undefined;
  /**
   * Only when frames are coloured by kind of time; `timeWanted` is the kind that is not dimmed, -1 when none
   * is.
   */
  times: TimeShares | undefined;
  timeWanted: number;
  inverted: boolean;
  /** The change of each node, as rows of the palette; only when frames are coloured by change. */
  changes?: Uint8Array;
  /** Frames around the zoomed one are dimmed. */
  zoomed: number;
}

/**
 * Colours of functions in one colour scheme and theme, cached: thousands of boxes need them for each
 * drawing.
 */
export class Colours {
  private readonly known: (string | undefined)[] = [];
  constructor(private readonly model: Model, readonly mode: Colour, readonly dark: boolean, readonly threads: ThreadShares | undefined,
    readonly inverted: boolean, readonly changes: Uint8Array | undefined) {}
  /** The colour of a node with this function. */
  of(node: number, fn: number): string {
    const { threads, inverted, changes } = this;
    if (changes && node !== 0) return changeColour(changes[node]!, this.dark);
    if (threads && node !== 0) return nthColour(inverted ? threads.ofFunction[fn]! : threads.ofNode[node]!, this.dark);
    return this.known[fn] ??= frameColour(this.model, fn, this.mode, this.dark);
  }
}

/** `yOf(row)`: the top of a row on the canvas, in CSS pixels. */
export function draw(context: CanvasRenderingContext2D, tree: CallTree, boxes: Boxes, colours: Colours, appearance: Appearance, width: number, height: number,
  yOf: (row: number) => number, column: number): void {
  const { labels, wanted, marked, dark, zoomed, times } = appearance;
  context.clearRect(0, 0, width, height);
  const zoomedDepth = tree.depth[zoomed]!;
  const { hidden } = tree as Partial<FoldedTree>;
  const inlined: number[] = [], folded: number[] = [], texts: { text: string; x: number; y: number; faint: boolean }[] = [];
  let colour = '', alpha = 1;
  context.globalAlpha = 1;
  for (let i = 0; i < boxes.count; i++) {
    const node = boxes.node[i]!, fn = tree.fn[node]!, wide = boxes.width[i]!, x = boxes.x[i]!, y = yOf(boxes.row[i]!);
    const isWanted = marked ? marked[node] === 1 : wanted === undefined || appearance.model.isAmong(wanted, fn, familiesOf(tree, node));
    const faint = tree.depth[node]! < zoomedDepth || (node !== 0 && !isWanted);
    const opacity = (faint ? .28 : 1) * (boxes.run[i] ? .6 : 1);
    // A hairline between neighbours, if there is room for it.
    const filled = wide - (wide > 1.5 ? .6 : wide * .3);
    if (times) {
      fillTimes(context, times, appearance, node, tree.total[node]!, opacity, x, y, filled);
      [colour, alpha] = ['', -1];
    } else {
      const next = colours.of(node, fn);
      if (next !== colour) context.fillStyle = colour = next;
      if (opacity !== alpha) context.globalAlpha = alpha = opacity;
      context.fillRect(x, y, filled, ROW - 1);
    }
    if (tree.inlined[node] && wide > 2 && !boxes.run[i]) inlined.push(x, y, wide, faint ? 1 : 0);
    if (hidden?.[node] && wide > 6 && !boxes.run[i]) folded.push(x, y, wide);
    if (wide > 20 && !boxes.run[i]) {
      const text = labels.of(tree, node, Math.floor((wide - 2 * PAD) / column));
      if (text) texts.push({ text, x: x + PAD, y: y + ROW / 2, faint });
    }
  }
  // Inlined frames are paler, with a dashed edge; except where a paler colour means another change.
  context.globalAlpha = dark ? .34 : .42;
  context.fillStyle = '#fff';
  if (!appearance.changes) for (let i = 0; i < inlined.length; i += 4) if (!inlined[i + 3]) context.fillRect(inlined[i]!, inlined[i + 1]!, inlined[i + 2]! - .6, ROW - 1);
  context.globalAlpha = .75;
  context.strokeStyle = '#16181d';
  context.lineWidth = 1;
  context.setLineDash([3, 2]);
  context.beginPath();
  for (let i = 0; i < inlined.length; i += 4) {
    context.moveTo(inlined[i]!, inlined[i + 1]! + ROW - 1.5);
    context.lineTo(inlined[i]! + inlined[i + 2]! - .6, inlined[i + 1]! + ROW - 1.5);
  }
  context.stroke();
  context.setLineDash([]);

  // Folded frames look like several: lines along both edges.
  context.globalAlpha = .45;
  context.fillStyle = '#16181d';
  for (let i = 0; i < folded.length; i += 3) for (const line of [1, ROW - 3]) context.fillRect(folded[i]! + 1, folded[i + 1]! + line, folded[i + 2]! - 2.6, 1);

  context.globalAlpha = 1;
  context.font = FONT;
  context.textBaseline = 'middle';
  context.direction = 'ltr';
  for (const { text, x, y, faint } of texts) {
    context.fillStyle = faint ? (dark ? '#eceef1a6' : '#16181d80') : '#16181d';
    context.fillText(text, x, y);
  }
}

/** Fills a frame from left to right: its share of each kind of time. */
function fillTimes(context: CanvasRenderingContext2D, { kinds, ofNode }: TimeShares, { dark, timeWanted }: Appearance, node: number, total: number, opacity: number, x: number, y: number, width: number): void {
  let left = x;
  for (let kind = 0; kind < kinds; kind++) {
    const wide = ofNode[node * kinds + kind]! / total * width;
    if (!(wide > 0)) continue;
    context.globalAlpha = timeWanted < 0 || timeWanted === kind ? opacity : opacity * .28;
    context.fillStyle = timeColour(kind, dark);
    context.fillRect(left, y, wide, ROW - 1);
    left += wide;
  }
}
