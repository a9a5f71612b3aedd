// Regular expressions: the same answers as JavaScript's own, in bounded time.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Pattern, PatternError } from './regex.ts';

const NAMES = [
  '', 'a', 'aa', 'main', 'app::main', 'core::iter::Map<I,F>::next', '<alloc::vec::Vec<T> as Drop>::drop', 'std::vector<int>::push_back(int const&)', '[libz.so.1.3]',
  '__memcpy_avx_unaligned_erms', 'operator()', 'a.b{c}', 'A_b-9 x', 'naïve::Ünïcode', 'x\ty', 'foo$bar', 'run::{{closure}}', 'x{2}', 'tokio::runtime::task::raw::poll', 'aXbXc', '\\u{1b}',
];

const PATTERNS = [
  'a', 'main', '^main$', '^$', '$', '', 'a|b', 'a||b', '(a|b)c?', 'ma?in', 'm.*n', 'a{2}', 'a{2,}', 'a{0,1}x', 'x{', 'x{2', 'x\\{2\\}', '[abc]', '[^abc]', '[a-f]+$', '[A-F]', '[^A-Z]', '[]a]', '[^]',
  '[a\\-z]', '[\\w-]', '[-a]', '[a-]', '\\bmain\\b', '\\Bain', '\\bvec', '\\d+', '\\D+$', '\\w+::\\w+', '\\W{2}', '\\s', '\\S+$', 'Vec<.+>', '::next$', '^core::.*(next|fold)$', '(?:app|std)::', '(?<n>app)',
  'm.+?n', '(a+)+$', '\\.', '\\(\\)', '\\x61', '\\u0061', 'ü', 'Ü', 'É|ï', '[à-ü]', '\\t', '\\$', 'lib\\w+\\.so', '^(a|aa)*$', '(^|::)main', 'a.?b', '(x|y)?a', '{{closure}}', '\\[', '>>*', '(a*)*b?', '()', '(|a)+', '^|b$', '\\/',
];

test('patterns match the same names as in JavaScript', () => {
  for (const text of PATTERNS) {
    const own = new RegExp(text, 'i'), pattern = new Pattern(text);
    for (const name of NAMES) assert.equal(pattern.test(name), own.test(name), `/${text}/ on ${JSON.stringify(name)}`);
  }
});

test('random patterns match the same names as in JavaScript', () => {
  let seed = 12345;
  const next = (below: number): number => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) % 0x10000 % below;
  const atom = (depth: number): string => {
    const all = ['a', 'b', 'c', '.', '[ab]', '[^a]', '\\w', '\\b', '^', '$', 'B', '\\W'];
    return depth > 0 && next(3) === 0 ? `(?:${sequence(depth - 1)})` : all[next(all.length)]!;
  };
  const sequence = (depth: number): string => Array.from({ length: 1 + next(4) }, () => {
    const one = atom(depth);
    const isEdge = ['^', '$', '\\b'].includes(one);
    return one + (isEdge ? '' : ['', '', '*', '+', '?', '{2}', '{1,3}', '*?'][next(8)]!) + (next(6) === 0 ? '|' : '');
  }).join('');
  for (let round = 0; round < 400; round++) {
    const text = sequence(2), own = new RegExp(text, 'i'), pattern = new Pattern(text);
    for (let name = 0; name < 20; name++) {
      const letters = Array.from({ length: next(8) }, () => 'abcB :'[next(6)]).join('');
      assert.equal(pattern.test(letters), own.test(letters), `/${text}/ on ${JSON.stringify(letters)}`);
    }
  }
});

test('nested repeats finish', () => {
  const name = `${'a'.repeat(50_000)}!`;
  for (const text of ['(a+)+$', '^(a*)*$', '(a|aa)+$', '^(a|a)*$', '(.*)*x$', '(.*a){20}x', '.*.*.*.*.*x', '(([a-z])+.)+[A-Z]([a-z])+$', '(x+x+)+y', '^(([a-z])+)+$']) {
    assert.equal(new Pattern(text).test(name), false, text);
  }
});

test('patterns that are too expensive give an error', () => {
  const names = Array.from({ length: 2000 }, (_, at) => `${at.toString(2).repeat(40)}ab`);
  for (const [text, why] of [
    ['(a{100}){100}', /Pattern too large/], ['(((){900}){900}){900}', /Pattern too large/], ['a{0,999999}', /Pattern too large/], ['x'.repeat(2000), /Pattern too long/], ['('.repeat(500), /nested|unclosed/],
    ['(?=a)b', /Look-around/], ['(?<!a)b', /Look-around/], ['(a)\\1', /Backreferences/], ['[b-a]', /character range/], ['(a', /unclosed/], ['a)', /\)/], ['*a', /repeat/], ['a**', /repeat/], ['[a', /unclosed/], ['\\', /trailing/], ['a{3,2}', /repeat range/],
  ] as const) assert.throws(() => new Pattern(text), (error: unknown) => error instanceof PatternError && why.test(error.message), text.slice(0, 40));
  // Each of these letters may start the final part: there are as many states as subsets.
  assert.throws(() => { const pattern = new Pattern('0[01]{1200}ab'); names.forEach(name => pattern.test(name.repeat(4))); }, /takes too long/);
});
