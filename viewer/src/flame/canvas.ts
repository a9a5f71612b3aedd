// The canvas of the flame graph: drawing, scrolling, zooming, finding the frame at a position. The canvas is
// as large as the window that scrolls over the rows, never as large as all rows.

import { boxAt, rowsNeeded, NARROW, type Boxes, type Layout, type View } from './layout.ts';
import { Colours, draw, FONT, ROW, type Appearance } from './draw.ts';
import { distanceFromRoot, placed } from './scroll.ts';

export interface Shown {
  layout: Layout;
  appearance: Appearance;
  zoomed: number;
  rootOnTop: boolean;
  /** Its row is not drawn: another graph shows it. */
  hidesRoot?: boolean | undefined;
}

const ZOOM_TIME = 180;
/** Room around the outermost row. */
const EDGE = 4;
/** The print width, and the largest height at which every browser can create a canvas, in canvas pixels. */
const PAPER = { width: 1100, height: 16_000 };

export class FlameCanvas {
  boxes: Boxes = { count: 0, x: [], width: [], row: [], node: [], run: [] };
  private shown: Shown | undefined;
  private view: View = { start: 0, span: 1 };
  private colours: Colours | undefined;
  private width = 0;
  private height = 0;
  private content = 0;
  /** Content outside the window. */
  private spare = 0;
  /** The distance of the window from the root when it was drawn last. */
  private fromRoot = 0;
  private topDepth = 0;
  private column = 7;
  private frame = 0;
  private animation = 0;
  private isPaper = false;
  private readonly context: CanvasRenderingContext2D;
  private readonly observer: ResizeObserver;

  constructor(private readonly scroller: HTMLElement, private readonly canvas: HTMLCanvasElement, private readonly spacer: HTMLElement,
    private readonly onDraw: () => void) {
    this.context = canvas.getContext('2d')!;
    this.observer = new ResizeObserver(() => { this.resize(); this.drawNow(); });
    this.observer.observe(scroller);
    this.resize();
    scroller.addEventListener('scroll', this.request, { passive: true });
  }

  close(): void {
    this.observer.disconnect();
    this.scroller.removeEventListener('scroll', this.request);
    cancelAnimationFrame(this.frame);
    cancelAnimationFrame(this.animation);
  }

  /** Print cannot scroll: all rows are drawn, up to the largest height of a canvas. */
  onPaper(isPaper: boolean): void {
    if (isPaper === this.isPaper) return;
    this.isPaper = isPaper;
    this.resize();
    this.drawNow();
  }

  show(shown: Shown): void {
    const before = this.shown;
    this.shown = shown;
    const { colour, dark, model, threads, inverted, changes } = shown.appearance, known = this.colours;
    if (!known || known.mode !== colour || known.dark !== dark || known.threads !== threads || known.inverted !== inverted || known.changes !== changes) {
      this.colours = new Colours(model, colour, dark, threads, inverted, changes);
    }
    const view = shown.layout.viewOf(shown.zoomed);
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    const moved = before && before.zoomed !== shown.zoomed;
    // The same change of the page may have resized the window.
    if (this.isPaper || this.scroller.clientHeight !== this.height || this.scroller.clientWidth !== this.width) this.resize();
    else this.fitContent(distanceFromRoot(this.scroller.scrollTop, this.spare, before?.rootOnTop ?? shown.rootOnTop));
    if (!before || before.rootOnTop !== shown.rootOnTop) this.toRoot();
    if (moved && !still) this.animate(view);
    else if (!before || moved || before.layout !== shown.layout) {
      cancelAnimationFrame(this.animation);
      this.view = view;
    }
    if (moved) this.reveal(shown.zoomed);
    // Drawn immediately, not with the next frame: after a new time selection no outdated drawing is visible.
    this.drawNow();
  }

  /** The node at a position in the window; -1 when there is none. */
  nodeAt(clientX: number, clientY: number): number {
    if (!this.shown) return -1;
    const { left, top } = this.canvas.getBoundingClientRect();
    const y = clientY - top + this.scroller.scrollTop;
    const depth = Math.floor((this.shown.rootOnTop ? y - EDGE : this.content - EDGE - y) / ROW);
    const box = boxAt(this.boxes, clientX - left, depth + this.hiddenRows - this.topDepth);
    return box < 0 ? -1 : this.boxes.node[box]!;
  }

  /** The position of a node, relative to the canvas; undefined when it is out of view. */
  rectOf(node: number): { x: number; y: number; width: number; height: number } | undefined {
    if (!this.shown || node < 0) return undefined;
    const { tree } = this.shown.layout;
    const y = this.yOfDepth(tree.depth[node]!);
    if (y < -ROW || y > this.height) return undefined;
    const scale = this.width / this.view.span;
    const left = (this.shown.layout.startOf(node) - this.view.start) * scale;
    const from = Math.max(0, left), to = Math.min(this.width, left + tree.total[node]! * scale);
    return to < 0 || from > this.width ? undefined : { x: from, y, width: Math.max(2, to - from), height: ROW - 1 };
  }

  /** Scrolls a node's row into view. */
  reveal(node: number): void {
    if (!this.shown) return;
    const y = this.yOfDepth(this.shown.layout.tree.depth[node]!);
    if (y < ROW || y > this.height - 2 * ROW) this.scroller.scrollTop += y - this.height / 2;
  }

  toRoot(): void {
    this.fromRoot = 0;
    this.scroller.scrollTop = this.shown?.rootOnTop ? 0 : this.spare;
  }

  /** Whether a node is wide enough to be visible. */
  isVisible(node: number): boolean {
    return !!this.shown && this.shown.layout.tree.total[node]! * this.width / this.view.span >= NARROW;
  }

  /** Makes everything `factor` times wider and keeps the value under `clientX` in place. */
  zoomAt(clientX: number, factor: number): void {
    const whole = this.shown?.layout.tree.total[0] ?? 1;
    const at = (clientX - this.canvas.getBoundingClientRect().left) / this.width;
    const span = Math.min(whole, Math.max(whole / 1e7, this.view.span / factor));
    this.move({ start: this.view.start + at * (this.view.span - span), span });
  }

  pan(pixels: number): void {
    this.move({ start: this.view.start + pixels * this.view.span / this.width, span: this.view.span });
  }

  get zoomedFreely(): boolean {
    if (!this.shown) return false;
    const { start, span } = this.shown.layout.viewOf(this.shown.zoomed);
    return Math.abs(start - this.view.start) > span / 1e6 || Math.abs(span - this.view.span) > span / 1e6;
  }

  /** Resets the view: the zoomed frame fills the width. */
  resetView(): void {
    if (this.shown) this.animate(this.shown.layout.viewOf(this.shown.zoomed));
  }

  private move({ start, span }: View): void {
    cancelAnimationFrame(this.animation);
    const whole = this.shown?.layout.tree.total[0] ?? 1;
    this.view = { start: Math.max(0, Math.min(whole - span, start)), span };
    this.request();
  }

  private animate(to: View): void {
    cancelAnimationFrame(this.animation);
    const from = this.view, begun = performance.now();
    const step = (now: number) => {
      const t = Math.min(1, Math.max(0, now - begun) / ZOOM_TIME), eased = 1 - (1 - t) ** 3;
      const span = from.span * (to.span / from.span) ** eased;
      const moved = from.span === to.span ? eased : (from.span - span) / (from.span - to.span);
      this.view = t < 1 ? { start: from.start + (to.start - from.start) * moved, span } : to;
      this.drawNow();
      if (t < 1) this.animation = requestAnimationFrame(step);
    };
    this.animation = requestAnimationFrame(step);
  }

  private readonly request = (): void => {
    if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.drawNow(); });
  };

  private resize(): void {
    this.width = this.isPaper ? PAPER.width : Math.max(1, this.scroller.clientWidth);
    this.height = this.isPaper ? Math.min(this.rowsHeight(), PAPER.height) : Math.max(1, this.scroller.clientHeight);
    const ratio = this.isPaper ? Math.min(2, PAPER.height / this.height) : devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.font = FONT;
    this.column = this.context.measureText('m'.repeat(100)).width / 100 || 7;
    // The browser has already limited the scroll position to the new height.
    this.fitContent(this.fromRoot);
  }

  /** Sets the height to the rows that the frames in view need, and the window to its distance from the root. */
  private fitContent(fromRoot: number): void {
    if (!this.shown) return;
    const { content, spare, top } = placed(this.rowsHeight(), this.height, fromRoot, this.shown.rootOnTop);
    this.content = content;
    this.spare = spare;
    const height = `${spare}px`;
    if (this.spacer.style.height !== height) this.spacer.style.height = height;
    if (!this.isPaper && Math.abs(this.scroller.scrollTop - top) >= 1) this.scroller.scrollTop = top;
  }

  private rowsHeight(): number {
    if (!this.shown) return 1;
    const { layout: { tree }, zoomed } = this.shown;
    return (rowsNeeded(tree, (tree.total[zoomed]! || 1) * NARROW / this.width) - this.hiddenRows) * ROW + 2 * EDGE;
  }

  private get hiddenRows(): number {
    return this.shown?.hidesRoot ? 1 : 0;
  }

  private yOfDepth(depth: number, scroll = this.scroller.scrollTop): number {
    const row = depth - this.hiddenRows;
    return (this.shown?.rootOnTop ? EDGE + row * ROW : this.content - EDGE - (row + 1) * ROW) - scroll;
  }

  private drawNow(): void {
    const { shown } = this;
    if (!shown || !this.colours) return;
    // Read only once: it forces the browser to lay out the page. Print starts at the root, whichever end that
    // is.
    const scroll = !this.isPaper ? this.scroller.scrollTop : shown.rootOnTop ? 0 : this.spare;
    // After a resize that is not handled yet, the position is the browser's, not the user's.
    if (!this.isPaper && this.scroller.clientHeight === this.height) this.fromRoot = distanceFromRoot(scroll, this.spare, shown.rootOnTop);
    const fromRoot = shown.rootOnTop ? scroll - EDGE : this.content - EDGE - scroll - this.height;
    this.topDepth = Math.max(0, Math.floor(fromRoot / ROW)) + this.hiddenRows;
    this.boxes = shown.layout.visible(this.view, this.width, this.topDepth, Math.ceil(this.height / ROW) + 1);
    draw(this.context, shown.layout.tree, this.boxes, this.colours, shown.appearance, this.width, this.height,
      row => this.yOfDepth(this.topDepth + row, scroll), this.column);
    this.onDraw();
  }
}
