// Behaviour of a flame graph: zoom, search, details of a frame, keyboard. Redraws the paths in the file.
(() => {
'use strict';
const svg = document.currentScript.ownerSVGElement;
const $ = id => svg.querySelector('#' + id);
const data = JSON.parse($('data').textContent);
const alone = document.documentElement === svg; // not inside a larger page
const { row: ROW, margin: MARGIN, header: HEADER } = data;
let ROWS = data.rows;
const KINDS = ['your code', 'dependency', 'std', 'allocator', 'kernel', 'runtime', 'unknown', ''];
const TIMES = data.timeKinds || [], FIRST_TIME = KINDS.length; // kinds of time, whose classes follow those of kinds of code
const PAD = 4;
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60]|[\ud83c-\ud83e\ud840-\ud8bf][\udc00-\udfff]/g;

function make(parent, tag, attributes = {}, text = '') {
  const html = /^(div|input|button|b)$/.test(tag);
  const element = document.createElementNS(html ? 'http://www.w3.org/1999/xhtml' : svg.namespaceURI, tag);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  element.textContent = text;
  return parent.appendChild(element);
}
const columns = text => [...text].length + (text.match(WIDE) || []).length;

// The frames as columns, depth first: the frames above frame i are i + 1 up to end[i].
const functions = data.functions.map(([name, kind, crate = '', short = name, folded = 0]) => {
  const last = /}[^:]*$|\boperator [^(]*::/.test(short) ? short : short.split('::').pop();
  return { name, kind, crate, short, last, folded, columns: columns(name), shortColumns: columns(short), lastColumns: columns(last) };
});
let count, start, total, self, depth, parent, end, code, times, round, byDepth, split;
const fn = i => functions[code[i] >> 1];
function load(text, splits) {
  const lines = text.split(';');
  // The value of each kind of time in a frame.
  split = splits !== undefined && splits.split(';').map(line => {
    const parts = line.split(',');
    return TIMES.map((_, kind) => parseInt(parts[kind] || '0', 36) || 0);
  });
  count = lines.length;
  [start, total, self] = [0, 0, 0].map(() => new Float64Array(count));
  [depth, parent, end, code, times, round] = [0, 0, 0, 0, 0, 0].map(() => new Int32Array(count));
  byDepth = [];
  const path = []; // the frame before and what is around it
  const filled = new Float64Array(count); // how much of a frame its children take
  const number = text => parseInt(text, 36) || 0;
  lines.forEach((line, i) => {
    const [up, which, value, own, again, frames] = line.split(',');
    for (let n = number(up); n > 0; n--) end[path.pop()] = i;
    const around = parent[i] = path.length ? path[path.length - 1] : 0;
    [code[i], total[i], self[i]] = [number(which), number(value), own === undefined ? -1 : number(own)];
    [depth[i], times[i], round[i]] = [path.length, number(again), number(frames)];
    if (i) { start[i] = start[around] + filled[around]; filled[around] += total[i]; }
    (byDepth[depth[i]] ||= []).push(i);
    path.push(i);
  });
  for (const i of path) end[i] = count;
  for (let i = 0; i < count; i++) if (self[i] < 0) self[i] = total[i] - filled[i];
}
load(data.frames, data.times);
// The change of each frame: before, after, class, verdict and the ends of the ratio's interval.
const change = data.changes && data.changes.split(';').map(line => line.split(',').map(text => parseInt(text, 36) || 0));
const larger = total.slice(); // widths that have room for both sides
let side = 0; // 0 shows both sides, 1 before, 2 after
// Gives frames the widths of one side, or of the larger one.
function weigh() {
  const filled = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    total[i] = side ? change[i][side - 1] : larger[i];
    if (i) { start[i] = start[parent[i]] + filled[parent[i]]; filled[parent[i]] += total[i]; }
  }
  for (let i = 0; i < count; i++) self[i] = Math.max(0, total[i] - filled[i]);
}
// How often the frames of folded recursion repeat.
const repeat = i => times[i] < 2 ? '' : round[i] > 1 ? ` (last ${round[i]} ×${times[i]})` : ` (×${times[i]})`;

// The view: the zoomed frame, the values from edge to edge, the depth of the first row, the marked frame.
let zoomed = 0, view = { start: 0, span: Math.max(total[0], 1) }, base = 0, marked = -1;
let matched = null, kindWanted = -1, width, column;
let held = 0, offset = 0; // how far a window without scroll bars can be moved, and is

// Elements that only the script needs; the file itself has the rest.
const frames = $('frames'), labels = $('labels'), header = $('header'), note = $('note'), subtitle = $('subtitle');
const lit = [...$('lit').children];
const dimGroup = make(frames, 'g', { id: 'dim' });
frames.prepend(dimGroup);
const dim = lit.map((_, class_) => make(dimGroup, 'path', { class: 'k' + class_ }));
const mark = make(frames, 'rect', { id: 'mark', rx: 2, height: ROW + 1, visibility: 'hidden' });
const target = make(frames, 'rect', { fill: 'transparent', height: ROWS * ROW });
const found = make(header, 'text', { id: 'found', y: 47, 'text-anchor': 'end', role: 'status' });
const BAR = change ? 590 : 400;
const bar = make(make(header, 'foreignObject', { y: 8, width: BAR, height: 28 }), 'div', { class: 'bar' });
const input = make(bar, 'input', { type: 'search', placeholder: 'Search (press /)', 'aria-label': 'Search functions' });
const regex = make(bar, 'button', { title: 'Regular expression', 'aria-pressed': 'false' }, '.*');
const whole = data.whole && make(bar, 'button', { title: 'Also show start-up and runtime frames, and every recursive call (w)', 'aria-pressed': 'false' }, 'Whole');
const sides = change ? ['Both', 'Before', 'After'].map((word, at) => make(bar, 'button', { 'aria-pressed': at === 0,
  title: ['Each frame as wide as the larger of before and after', 'Only before the change', 'Only after the change'][at] }, word)) : [];
const reset = make(bar, 'button', { title: 'Show everything (Escape)' }, 'Reset');
const crumbs = make(make(header, 'foreignObject', { x: MARGIN, y: 74, height: 22 }), 'div',
  { class: 'crumbs', role: 'navigation', 'aria-label': 'Zoomed frame' });
const tipBox = make(svg, 'foreignObject', { id: 'tip', width: 1, height: 1, visibility: 'hidden' });
const tip = make(tipBox, 'div', { class: 'tip', role: 'status' });
svg.setAttribute('role', 'group');
for (const [key, value] of Object.entries({ tabindex: 0, role: 'application', 'aria-roledescription': 'flame graph',
  'aria-label': 'Frames. Arrow keys move, Enter zooms, Escape shows everything, slash searches.' })) {
  frames.setAttribute(key, value);
}

const top = i => (data.inverted ? depth[i] - base : ROWS - 1 - depth[i] + base) * ROW;
const edges = i => [start[i], start[i] + total[i]].map(value =>
  Math.min(width, Math.max(0, (value - view.start) * width / view.span)));
const isAround = i => i < zoomed && zoomed < end[i];

function label(i, room) {
  const f = fn(i), after = repeat(i), fit = Math.floor((room - 2 * PAD) / column), text = name(f, fit - after.length);
  return after && text ? text + after : name(f, fit);
}

function name(f, fit) {
  if (f.columns <= fit) return f.name;
  if (f.shortColumns <= fit) return f.short;
  if (f.lastColumns <= fit) return f.last;
  let text = '', used = 0;
  if (fit > 2) for (const c of f.last) {
    used += columns(c);
    if (used >= fit) return text + '…';
    text += c;
  }
  return '';
}

// Paths are lines as thick as a row, one path per kind: thousands of frames are a handful of elements.
function draw() {
  const strong = lit.map(() => ''), weak = lit.map(() => '');
  let pale = '', dashed = '', several = '', used = 0;
  for (let i = 0; i < count;) {
    // In tenths of a pixel: rounded edges leave no holes where many frames are narrower than that.
    const [left, right] = edges(i).map(edge => Math.round(edge * 10)), room = right - left, row = depth[i] - base;
    if (!room || row >= ROWS) { i = end[i]; continue; }
    if (row >= 0) {
      const f = fn(i), middle = top(i) + ROW / 2, faint = isAround(i) || matched && !matched[code[i] >> 1];
      const line = `M${left / 10} ${middle}h${(room - (room > 15 ? 6 : Math.floor(room * .3))) / 10}`;
      if (split) {
        const filled = Math.max(1, room - (room > 15 ? 6 : Math.floor(room * .3)));
        let sum = 0, from = left;
        split[i].forEach((part, kind) => {
          const to = left + Math.round(filled * (sum += part) / total[i]);
          if (to > from) (faint || kindWanted >= 0 && kindWanted !== FIRST_TIME + kind ? weak : strong)[FIRST_TIME + kind] += `M${from / 10} ${middle}h${(to - from) / 10}`;
          from = Math.max(from, to);
        });
      } else if (change) {
        const class_ = data.firstChange + change[i][2];
        (faint || kindWanted >= 0 && kindWanted !== class_ ? weak : strong)[class_] += line;
      } else (faint ? weak : strong)[f.kind] += line;
      if (code[i] & 1) { dashed += line; if (!faint) pale += line; }
      if (f.folded) several += line;
      const text = room > 200 && label(i, room / 10);
      if (text) {
        const element = labels.children[used++] || make(labels, 'text');
        if (element.textContent !== text) element.textContent = text;
        element.setAttribute('x', left / 10);
        element.setAttribute('y', middle);
        element.setAttribute('class', faint ? 'dim' : '');
      }
    }
    i++;
  }
  while (labels.children.length > used) labels.lastChild.remove();
  lit.forEach((path, class_) => path.setAttribute('d', strong[class_]));
  dim.forEach((path, class_) => path.setAttribute('d', weak[class_]));
  $('inlined').setAttribute('d', pale);
  $('inlined-edge').setAttribute('d', dashed);
  for (const id of ['folded', 'folded-edge']) $(id).setAttribute('d', several);
  placeMark();
}

function placeMark() {
  const row = marked < 0 ? -1 : depth[marked] - base;
  mark.setAttribute('visibility', row >= 0 && row < ROWS ? 'visible' : 'hidden');
  if (row < 0) return;
  const [left, right] = edges(marked);
  mark.setAttribute('x', left - .5);
  mark.setAttribute('y', top(marked) - .5);
  mark.setAttribute('width', Math.max(2, right - left));
}

function zoom(i) {
  zoomed = i;
  if (byDepth.length > ROWS) base = Math.max(0, depth[i] - 8);
  const from = view, to = { start: start[i], span: Math.max(total[i], 1) };
  const length = matchMedia('(prefers-reduced-motion: reduce)').matches ? 0 : 180, begun = performance.now();
  const step = now => {
    if (zoomed !== i) return; // another zoom has begun
    const t = length ? Math.min(1, Math.max(0, now - begun) / length) : 1, eased = 1 - (1 - t) ** 3;
    const span = from.span * (to.span / from.span) ** eased;
    const moved = from.span === to.span ? eased : (from.span - span) / (from.span - to.span);
    view = t < 1 ? { start: from.start + (to.start - from.start) * moved, span } : to;
    draw();
    if (t < 1) requestAnimationFrame(step);
  };
  step(begun);
  showCrumbs();
  showFound();
}

function showCrumbs() {
  const path = [];
  for (let i = zoomed; i > 0; i = parent[i]) path.unshift(i);
  path.unshift(0);
  crumbs.textContent = '';
  note.setAttribute('visibility', zoomed ? 'hidden' : 'visible');
  if (!zoomed) return;
  if (path.length > 6) path.splice(1, path.length - 5, -1);
  path.forEach((i, at) => {
    if (at) make(crumbs, 'b', {}, '›');
    if (i < 0) make(crumbs, 'b', {}, '…');
    else make(crumbs, 'button', { title: fn(i).name }, fn(i).short).onclick = () => zoom(i);
  });
}

const share = (value, whole) => {
  const percent = whole ? 100 * value / whole : 0;
  return (percent && percent < .01 ? '<0.01' : percent.toFixed(percent < 10 ? 2 : 1)) + ' %';
};

function amount(value) {
  const steps = { ns: [1e3, 'ns', 'µs', 'ms', 's'], bytes: [1024, 'B', 'KiB', 'MiB', 'GiB', 'TiB'] }[data.unit];
  if (!steps) return value.toLocaleString('en');
  let at = 1;
  while (value >= steps[0] && at < steps.length - 1) { value /= steps[0]; at++; }
  return (at > 1 ? value.toPrecision(value < 1000 ? 3 : 4) : value) + ' ' + steps[at];
}

function show(i, x, y) {
  marked = i;
  placeMark();
  tipBox.setAttribute('visibility', i < 0 ? 'hidden' : 'visible');
  if (i < 0) return;
  const f = fn(i), whole = total[0];
  tip.textContent = '';
  make(tip, 'b', {}, f.name + repeat(i));
  const inZoomed = zoomed && !isAround(i) ? `, ${share(total[i], total[zoomed])} of the zoomed frame` : '';
  if (!change) make(tip, 'div', {}, `total ${amount(total[i])}, ${share(total[i], whole)}${inZoomed}`);
  if (!data.callers && !change) make(tip, 'div', {}, `self ${amount(self[i])}, ${share(self[i], whole)}`);
  if (change) describe(change[i]);
  if (split) TIMES.forEach((word, kind) => { if (split[i][kind]) make(tip, 'div', {}, `${word} ${amount(split[i][kind])}, ${share(split[i][kind], total[i])}`); });
  const about = f.folded ? ['start-up or runtime frames', 'press w for whole stacks'] : [KINDS[f.kind], f.crate && 'crate ' + f.crate, code[i] & 1 && 'inlined into its caller'];
  make(tip, 'div', { class: 'about' }, about.filter(Boolean).join(' · '));
  // Next to the pointer, inside the window.
  const room = width + 2 * MARGIN, wide = Math.min(520, room);
  tipBox.setAttribute('width', wide);
  tipBox.setAttribute('height', 600);
  const { width: w, height: h } = tip.getBoundingClientRect();
  const first = scrolled(), last = alone ? first + innerHeight : HEADER + ROWS * ROW;
  tipBox.setAttribute('x', Math.max(0, Math.min(x + 14, room - w - 4)));
  tipBox.setAttribute('y', Math.max(first, y + 18 + h > last ? y - h - 12 : y + 18));
}

// Before, after, the change and its verdict.
function describe([before, after, , verdict, low, high]) {
  const difference = after - before, sign = difference < 0 ? '-' : '+';
  const relative = before && after ? ` (×${(after / before).toFixed(2)}${high ? `, 95 %: ${(low / 1000).toFixed(2)} to ${(high / 1000).toFixed(2)}` : ''})` : after ? ' (new)' : ' (removed)';
  make(tip, 'div', {}, `before ${amount(before)}, after ${amount(after)}`);
  make(tip, 'div', {}, `change ${difference ? sign : ''}${amount(Math.abs(difference))}${relative}: ${data.verdicts[verdict]}`);
}

function frameAt(event) {
  // Not with getScreenCTM: Firefox ignores the scroll position of the window.
  const box = target.getBoundingClientRect();
  const x = (event.clientX - box.left) * width / box.width, y = (event.clientY - box.top) * ROWS * ROW / box.height;
  const row = Math.floor(y / ROW), list = byDepth[base + (data.inverted ? row : ROWS - 1 - row)] || [];
  const value = view.start + x / width * view.span;
  let low = 0, high = list.length;
  while (low < high) {
    const middle = low + high >> 1;
    if (start[list[middle]] <= value) low = middle + 1; else high = middle;
  }
  const i = low ? list[low - 1] : -1;
  return { i: i >= 0 && value < start[i] + total[i] ? i : -1, x: x + MARGIN, y: y + HEADER };
}

function search() {
  let test = null, problem = '';
  const text = input.value, small = text.toLowerCase();
  if (kindWanted >= 0) test = split || change ? null : f => f.kind === kindWanted;
  else if (text && regex.getAttribute('aria-pressed') === 'true') {
    // Not RegExp, which never ends on patterns such as (.*)*x$
    try {
      const pattern = new whyslowRegex.Pattern(text), hits = functions.map(f => pattern.test(f.name));
      test = (_, at) => hits[at];
    } catch (error) { problem = error.message; }
  } else if (text) test = f => f.name.toLowerCase().includes(small);
  matched = test && functions.map(test);
  legend.forEach((item, at) => item.setAttribute('aria-pressed', kinds[at] === kindWanted));
  input.setAttribute('aria-invalid', !!problem);
  showFound(problem);
  draw();
}

function showFound(problem = '') {
  found.textContent = problem || matched && countFound();
  const crowded = found.textContent && found.getBBox().x < subtitle.getBBox().width + 2 * MARGIN;
  subtitle.setAttribute('visibility', crowded ? 'hidden' : 'visible');
}

// A matched frame inside a matched frame is part of it and counts once.
function countFound() {
  let sum = 0, names = new Set();
  for (let i = zoomed; i < end[zoomed];) {
    const hit = matched[code[i] >> 1];
    if (hit) sum += total[i];
    i = hit ? end[i] : i + 1;
  }
  for (let i = zoomed; i < end[zoomed]; i++) if (matched[code[i] >> 1]) names.add(code[i] >> 1);
  return `Matched ${share(sum, total[0])} in ${names.size} function${names.size === 1 ? '' : 's'}` +
    (zoomed ? `, ${share(sum, total[zoomed])} of the zoomed frame` : '');
}

// Switches between the folded and the unfolded picture.
function toggle() {
  const on = whole.getAttribute('aria-pressed') === 'false';
  whole.setAttribute('aria-pressed', on);
  load(on ? data.whole : data.frames, on ? data.wholeTimes : data.times);
  ROWS = on ? data.wholeRows : data.rows;
  note.textContent = on ? data.wholeNote : foldedNote;
  [zoomed, base, marked] = [0, 0, -1];
  view = { start: 0, span: Math.max(total[0], 1) };
  show(-1);
  showCrumbs();
  target.setAttribute('height', ROWS * ROW);
  if (!alone) {
    const high = HEADER + ROWS * ROW + MARGIN;
    svg.setAttribute('viewBox', `0 0 ${svg.viewBox.baseVal.width} ${high}`);
    svg.setAttribute('height', high);
  }
  resize();
  search();
  if (alone && !data.inverted) scroll(HEADER + ROWS * ROW);
}
const foldedNote = note.textContent;
if (whole) whole.onclick = toggle;

sides.forEach((button, at) => button.onclick = () => {
  side = at;
  sides.forEach((other, row) => other.setAttribute('aria-pressed', row === at));
  weigh();
  [zoomed, marked] = [total[zoomed] ? zoomed : 0, -1];
  view = { start: start[zoomed], span: Math.max(total[zoomed], 1) };
  show(-1);
  showCrumbs();
  search();
});

function clearSearch() { input.value = ''; kindWanted = -1; search(); }
function openSearch() { input.focus(); input.select(); }

// Legend entries highlight their kind.
const legend = [...$('legend').querySelectorAll('.kind')];
const kinds = legend.map(item => +/k(\d+)/.exec(item.firstChild.getAttribute('class'))[1]);
legend.forEach((item, at) => {
  for (const [key, value] of [['tabindex', 0], ['role', 'button']]) item.setAttribute(key, value);
  item.onclick = () => {
    input.value = '';
    kindWanted = kindWanted === kinds[at] ? -1 : kinds[at];
    search();
  };
  item.onkeydown = event => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); item.onclick(); } };
});

target.onmousemove = event => { const { i, x, y } = frameAt(event); show(i, x, y); };
target.onmouseleave = () => show(-1);
target.onclick = event => { const { i } = frameAt(event); if (i >= 0) zoom(i); };
frames.onblur = () => show(-1);
input.oninput = () => { kindWanted = -1; search(); };
regex.onclick = () => { regex.setAttribute('aria-pressed', regex.getAttribute('aria-pressed') === 'false'); search(); };
reset.onclick = () => { clearSearch(); zoom(0); };

function move(i) {
  const row = depth[i] - base;
  if (row < 0 || row >= ROWS) { base = Math.max(0, depth[i] - (ROWS >> 1)); draw(); }
  const y = top(i) + HEADER;
  if (alone && (y < scrolled() + HEADER || y + ROW > scrolled() + innerHeight)) scroll(y - innerHeight / 2);
  show(i, edges(i)[0] + MARGIN, y + ROW / 2);
}

// The nearest visible frame to the left (-1) or right (1).
function beside(i, side) {
  const list = byDepth[depth[i]];
  for (let at = list.indexOf(i) + side; list[at] !== undefined; at += side) {
    const [left, right] = edges(list[at]);
    if (right - left > .15) return list[at];
  }
  return i;
}

frames.onkeydown = event => {
  const i = marked < 0 ? zoomed : marked;
  const [away, back] = data.inverted ? ['ArrowDown', 'ArrowUp'] : ['ArrowUp', 'ArrowDown'];
  const act = {
    [away]: () => move(marked >= 0 && end[i] > i + 1 ? i + 1 : i),
    [back]: () => move(parent[i]),
    ArrowLeft: () => move(beside(i, -1)),
    ArrowRight: () => move(beside(i, 1)),
    Home: () => move(0),
    Enter: () => { zoom(i); move(i); },
    ' ': () => { zoom(i); move(i); },
    Backspace: () => { zoom(parent[zoomed]); move(zoomed); },
  }[event.key];
  if (act) { event.preventDefault(); act(); }
};

svg.addEventListener('keydown', event => {
  if (event.key === 'Escape') {
    if (event.target === input) { clearSearch(); frames.focus(); }
    else if (zoomed) zoom(0);
    else clearSearch();
    show(-1);
  }
});
if (alone) addEventListener('keydown', event => {
  const find = (event.ctrlKey || event.metaKey) && event.key === 'f';
  if (find || event.key === '/' && event.target !== input) { event.preventDefault(); openSearch(); }
  else if (whole && event.key === 'w' && event.target !== input && !event.ctrlKey && !event.metaKey && !event.altKey) toggle();
});

// The position of the window in the picture. A window that cannot scroll is moved over it.
function scrolled() { return held ? offset : alone ? scrollY : 0; }
function scroll(y) {
  if (!held) return scrollTo(0, y);
  offset = Math.min(held, Math.max(0, y));
  svg.setAttribute('viewBox', `0 ${offset} ${width + 2 * MARGIN} ${innerHeight}`);
  placeHeader();
}
// The header remains visible.
function placeHeader() { header.setAttribute('transform', `translate(0 ${scrolled()})`); }

function resize() {
  const wide = alone ? Math.max(480, Math.floor(visualViewport.width)) : svg.viewBox.baseVal.width;
  width = wide - 2 * MARGIN;
  if (alone) {
    const high = Math.max(HEADER + ROWS * ROW + MARGIN, Math.floor(visualViewport.height));
    svg.setAttribute('width', wide);
    svg.setAttribute('height', high); // details of a frame may need more room than a small picture has
    svg.setAttribute('viewBox', `0 0 ${wide} ${high}`);
    // An <object> with its own size would shrink the picture to that.
    held = svg.getBoundingClientRect().height < high - 1 ? high - innerHeight : 0;
    if (held) scroll(offset);
  }
  const probe = make(labels, 'text', {}, 'm'.repeat(100));
  column = probe.getComputedTextLength() / 100 || 7;
  probe.remove();
  target.setAttribute('width', width);
  header.firstElementChild.setAttribute('width', wide);
  found.setAttribute('x', wide - MARGIN);
  bar.parentNode.setAttribute('x', Math.max(MARGIN, wide - BAR - MARGIN));
  bar.parentNode.setAttribute('width', Math.min(BAR, width));
  crumbs.parentNode.setAttribute('width', width);
  const shrunk = Math.min(1, width / $('legend').getBBox().width);
  $('legend').setAttribute('transform', `translate(${MARGIN * (1 - shrunk)} ${66 * (1 - shrunk)}) scale(${shrunk})`);
  draw();
}

resize();
if (alone) {
  addEventListener('resize', resize);
  addEventListener('scroll', placeHeader);
  addEventListener('wheel', event => {
    if (!held || event.ctrlKey) return;
    const before = offset;
    scroll(offset + event.deltaY * (event.deltaMode ? ROW : 1));
    if (offset !== before) event.preventDefault();
  }, { passive: false });
  if (!data.inverted) scroll(HEADER + ROWS * ROW);
}
})();
