// Stacked areas: activity curves and thread state lanes.

export interface Place {
  left: number;
  width: number;
  /** The lower edge, and the height in pixels of the value `top`. */
  base: number;
  room: number;
  top: number;
}

/** Draws `bins[kind * count + bin]` for each kind, the first one lowest. */
export function drawStacked(context: CanvasRenderingContext2D, bins: Float64Array, count: number, kinds: readonly { kind: number; fill: string | CanvasPattern }[],
  { left, width, base, room, top }: Place): void {
  const level = new Float64Array(count);
  const step = width / count;
  for (const { kind, fill } of kinds) {
    const at = kind * count;
    let any = false;
    for (let bin = 0; bin < count && !any; bin++) any = bins[at + bin]! > 0;
    if (!any) continue;
    // One shape per kind: along the tops from left to right, back along the area below.
    context.fillStyle = fill;
    context.beginPath();
    for (let bin = 0; bin < count;) {
      if (!(bins[at + bin]! > 0)) { bin++; continue; }
      const first = bin;
      for (; bin < count && bins[at + bin]! > 0; bin++) {
        const high = base - Math.min(1, (level[bin]! + bins[at + bin]!) / top) * room;
        if (bin === first) context.moveTo(left + bin * step, high);
        else context.lineTo(left + bin * step, high);
        context.lineTo(left + (bin + 1) * step, high);
      }
      for (let back = bin - 1; back >= first; back--) {
        const low = base - Math.min(1, level[back]! / top) * room;
        context.lineTo(left + (back + 1) * step, low);
        context.lineTo(left + back * step, low);
      }
      context.closePath();
    }
    context.fill();
    for (let bin = 0; bin < count; bin++) level[bin]! += bins[at + bin]!;
  }
}
