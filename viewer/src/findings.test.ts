// Findings: their texts and locations, the frames that show them, and the links to their lines.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { found } from '../test/found.mjs';
import { small } from '../test/make-payload.mjs';
import { findingFrames, flameTree } from './derive.ts';
import { findingsOf, outermostFrames, shapeWords, toFrames, toLine, wantedLine } from './findings.ts';
import { Model } from './model.ts';
import { decode, PayloadError } from './payload.ts';
import { escape, START, type State } from './state.ts';

const MS = 1e6;
const model = new Model(decode(found()));
const [formatting, hashing, waiting] = findingsOf(model);
/** Names of highlighted frames with their values in milliseconds. */
function marked(state: State): [string, number][] {
  const tree = flameTree(model, state), { marked: frames } = findingFrames(model, state);
  return frames ? [...tree.fn].flatMap((fn, node): [string, number][] => (frames[node] ? [[model.name(fn), tree.total[node]! / MS]] : [])) : [];
}

test('findings have their texts, line and evidence', () => {
  const { id, title, of, share, low, high, confidence, advice, verify, gain } = formatting!;
  assert.deepEqual([id, title, of, share, low, high, confidence, advice, verify], ['formatting', 'values are formatted', 'CPU time', .4, .31, .5, 'high', 'write into one buffer', 'whyslow verify found.whyslow']);
  assert.equal(gain, 'at most 1.67 times as fast without it');
  assert.deepEqual([model.name(formatting!.fn!), model.text(formatting!.file), formatting!.line, formatting!.source], ['app::show', '/src/main.rs', 22, 'out += &format!("{word}");']);
  assert.deepEqual(formatting!.evidence.map(({ text, share, fn }) => [text, share, model.name(fn!)]), [['in', .4, 'core::fmt::write']], 'the finding’s own line is not repeated');
  assert.equal(hashing!.source, '*seen.entry(word).or_default() += 1;');
  assert.deepEqual([waiting!.fn, waiting!.gain, waiting!.source, waiting!.evidence[0]!.share], [undefined, undefined, undefined, undefined]);
  assert.deepEqual([formatting, hashing, waiting].map(one => [one!.hasFrames, one!.hasCode]), [[true, false], [true, true], [false, false]], 'the profile has code of one function');
});

test('only frames whose samples all belong to a finding are highlighted, with their callees', () => {
  assert.deepEqual(marked({ ...START, finding: hashing!.row }), [['core::hash::sip::hash', 30], ['core::hash::sip::hash', 10]], 'count and main do other things as well');
  assert.deepEqual(marked({ ...START, finding: formatting!.row }), [['app::show', 40], ['core::fmt::write', 40]], 'show does nothing else');
  assert.deepEqual(marked(START), []);
  assert.deepEqual(marked({ ...START, finding: hashing!.row, inverted: true }), [], 'not among callers');
  assert.equal(marked({ ...START, finding: hashing!.row, brush: [0, 20 * MS] }).length, 2, 'they are of the whole recording');
});

test('n visits the outermost highlighted frames, heaviest first', () => {
  const state = { ...START, finding: formatting!.row }, tree = flameTree(model, state);
  assert.deepEqual(outermostFrames(tree.parent, tree.total, findingFrames(model, state).marked!).map(node => model.name(tree.fn[node]!)), ['app::show']);
  const hash = { ...START, finding: hashing!.row }, other = flameTree(model, hash);
  assert.deepEqual(outermostFrames(other.parent, other.total, findingFrames(model, hash).marked!).map(node => other.total[node]! / MS), [30, 10]);
});

test('a finding links to its frames in its metric, and Escape removes the highlight', () => {
  const state: State = { ...START, tab: 'findings', metric: 1, search: 'x', inverted: true, zoom: [1], ...toFrames(model, hashing!) };
  assert.deepEqual([state.tab, state.finding, state.metric, state.search, state.inverted, state.zoom, model.name(state.fn!)], ['flame', 1, 0, '', false, [], 'app::count']);
  assert.deepEqual(escape(state), { finding: undefined });
  assert.equal({ ...START, metric: 1, ...toFrames(model, waiting!) }.metric, 1, 'a finding without a metric keeps the current one');
});

test('a finding links to its line, which belongs to its function', () => {
  const state: State = { ...START, ...toLine(model, START, hashing!) };
  assert.deepEqual([state.tab, model.name(state.fn!)], ['source', 'app::count']);
  assert.deepEqual(wantedLine(state), { file: hashing!.file, line: 12 });
  assert.equal(wantedLine({ ...state, fn: formatting!.fn }), undefined, 'another function was selected since');
  for (const text of ['', 'x', '1', '1.2', `${state.fn}.x.y`, `${state.fn}.-1.0`]) assert.equal(wantedLine({ ...state, panel: { 'source-line': text } }), undefined, text);
  assert.equal(toLine(model, START, waiting!), undefined);
});

test('a profile without findings has a summary; one without explain has none', () => {
  const none = new Model(decode(found({ findings: false })));
  assert.deepEqual([findingsOf(none), none.profile.explained?.allowed], [[], 0]);
  assert.match(shapeWords(none), /^one hotspot/);
  assert.equal(decode(small()).explained, undefined);
  assert.equal(decode(small()).findings.count, 0);
});

test('no column can cause an out-of-bounds access', () => {
  const columns = ['findings.id', 'findings.verify', 'findings.file', 'findings.function', 'findings.metric', 'finding_evidence.finding', 'finding_evidence.text', 'finding_evidence.function',
    'finding_evidence.file', 'finding_stacks.finding', 'finding_stacks.stack'];
  for (const column of columns) {
    const bytes = found(), text = new TextDecoder('latin1').decode(bytes), view = new DataView(bytes.buffer, bytes.byteOffset);
    const offset = Number(/"offset":(\d+)/.exec(text.slice(text.indexOf(`"${column}"`)))![1]), start = Math.ceil((4 + view.getUint32(0, true)) / 8) * 8;
    view.setUint32(start + offset, 9999, true);
    assert.throws(() => decode(bytes), (problem: unknown) => problem instanceof PayloadError && problem.message.includes(column), column);
  }
});
