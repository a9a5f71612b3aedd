// A comparison with numbers that can be checked by hand: `parse` takes less, `gone` and `fresh` are on one
// side only, `same` is undecided.

import { container, NONE } from './make-payload.mjs';

const VERDICTS = ['undecided', 'less', 'more', 'same', 'moved'];
const COLOURS = ['half or less, removed', 'less', 'within noise', 'more', 'twice or more, new'];
/** Path, its self value before and after, and the verdicts for self and total. */
const PATHS = [
  ['main', 0, 0, 'undecided', 'less'], ['main;load', 500, 500, 'undecided', 'less'], ['main;load;parse', 3000, 1200, 'less', 'less'], ['main;hash', 2000, 2400, 'more', 'more'],
  ['main;gone', 900, 0, 'less', 'less'], ['main;fresh', 0, 700, 'more', 'more'], ['main;same', 2500, 2510, 'undecided', 'undecided'],
];
const START = ['_start', '__libc_start_main', 'std::rt::lang_start'];

/**
 * `carried`: everything is called by start-up code; `runs`: ratios with intervals; `damage`: a reference out
 * of range; `lines`: rows are lines, counted exactly.
 */
export function compared({ carried = false, runs = 1, damage = '', lines = false } = {}) {
  const around = carried ? START : [];
  const names = [...around, ...PATHS.map(([path]) => path.split(';').at(-1))];
  const nodes = [{ parent: 0, fn: NONE, own: [0, 0], verdicts: ['undecided', 'less'] }];
  const place = new Map([['', 0]]);
  let root = 0;
  around.forEach((_, fn) => { root = nodes.push({ parent: root, fn, own: [0, 0], verdicts: ['undecided', 'less'] }) - 1; });
  place.set('', root);
  PATHS.forEach(([path, before, after, own, total], at) => {
    place.set(path, nodes.length);
    nodes.push({ parent: place.get(path.split(';').slice(0, -1).join(';')), fn: around.length + at, own: [before, after], verdicts: [own, total] });
  });
  const added = values => {
    const total = [...values];
    for (let node = total.length - 1; node > 0; node--) total[nodes[node].parent] += total[node];
    return total;
  };
  const both = nodes.map(({ own: [before, after] }) => Math.max(before, after));
  const [before, after] = [0, 1].map(side => nodes.map(({ own }) => own[side]));
  const ownChanges = nodes.map(({ verdicts: [own] }, node) => ({ before: before[node], after: after[node], verdict: own }));
  const totalChanges = nodes.map(({ verdicts: [, total] }, node) => ({ before: added(before)[node], after: added(after)[node], verdict: total }));
  const columns = {}, add = (name, type, values) => { columns[name] = { type, values: { u8: Uint8Array, u32: Uint32Array, f64: Float64Array }[type].from(values) }; };
  const changes = (table, rows) => {
    add(`${table}.before`, 'f64', rows.map(({ before }) => before));
    add(`${table}.after`, 'f64', rows.map(({ after }) => after));
    add(`${table}.margin`, 'f64', rows.map(({ before, after }) => (lines ? NaN : 2 * Math.sqrt(before + after))));
    const ratio = (by, { before, after }) => (runs > 1 && before && after ? after / before * by : NaN);
    for (const [name, by] of [['ratio', 1], ['low', .9], ['high', 1.1]]) add(`${table}.${name}`, 'f64', rows.map(row => ratio(by, row)));
    add(`${table}.q`, 'f64', rows.map(({ verdict }) => (runs > 1 ? (verdict === 'undecided' ? .4 : .012) : NaN)));
    add(`${table}.verdict`, 'u8', rows.map(({ verdict }) => VERDICTS.indexOf(verdict)));
  };
  const texts = [...names, 'src/app.rs'];
  let end = 0;
  add('strings.bytes', 'u8', Buffer.from(texts.join('')));
  add('strings.ends', 'u32', texts.map(text => end += text.length));
  const functions = names.map((_, fn) => fn);
  for (const name of ['name', 'short']) add(`functions.${name}`, 'u32', functions);
  for (const name of ['generic', 'crate', 'module']) add(`functions.${name}`, 'u32', functions.map(() => NONE));
  add('functions.file', 'u32', functions.map(fn => (fn < around.length ? NONE : names.length)));
  add('functions.line', 'u32', functions.map(fn => 10 + fn));
  add('functions.kind', 'u8', functions.map(fn => (fn < around.length ? 6 : 1)));
  add('functions.carrier', 'u8', functions.map(fn => (fn < around.length ? 1 : 0)));
  add('paths.parent', 'u32', nodes.map(({ parent }, node) => (damage === 'parent' && node ? 99 : parent)));
  add('paths.function', 'u32', nodes.map(({ fn }, node) => (damage === 'function' && node ? 99 : fn)));
  add('paths.inlined', 'u8', nodes.map(() => 0));
  add('paths.self', 'f64', both);
  // At least as wide as everything below, so that both sides have room.
  add('paths.total', 'f64', added(both));
  const colour = ({ before, after, verdict }) => (verdict === 'undecided' ? 2 : verdict === 'less' ? (2 * after <= before ? 0 : 1) : 2 * before <= after ? 4 : 3);
  add('paths.colour', 'u8', totalChanges.map(colour));
  changes('paths_own', ownChanges);
  changes('paths_total', totalChanges);
  // Rows as whyslow sorts them: decided rows first.
  const order = PATHS.map((_, at) => nodes.length - PATHS.length + at).sort((a, b) => Math.abs(after[b] - before[b]) - Math.abs(after[a] - before[a]));
  add('rows.function', 'u32', order.map(node => (damage === 'rows' ? 99 : nodes[node].fn)));
  add('rows.seen', 'u8', order.map(node => (nodes[node].own[1] ? (nodes[node].own[0] ? 0 : 2) : nodes[node].own[0] ? 1 : 0)));
  add('rows.file', 'u32', order.map(() => names.length));
  add('rows.line', 'u32', order.map(node => 10 + node));
  changes('rows_own', order.map(node => ownChanges[node]));
  if (!lines) changes('rows_total', order.map(node => totalChanges[node]));
  const diff = {
    answer: 'Faster: cpu time 8.90 µs → 7.31 µs.', worth: '± is the sampling error (95 %).', metric: lines ? 'bytes-allocated' : 'cpu-time', unit: 0, runs, counted: false,
    rows_are: lines ? 'lines' : 'functions', before: { files: ['old.whyslow'], command: ['./app', 'old'] }, after: { files: ['new.whyslow'], command: ['./app', 'new'] },
    remarks: [{ id: 'other-arguments', about: 'diff', severity: 'warning', message: 'the arguments differ: none before, `-v` after', fix: null }],
    totals: [{ what: 'cpu-time', unit: 0, before: 8900, after: 7310, margin: 250, ratio: null, verdict: 1 }], verdicts: VERDICTS, colours: COLOURS,
  };
  return container({ carriers: [{ word: 'start-up', role: 'start-up' }], diff }, columns);
}
