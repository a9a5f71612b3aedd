// Source lines in colour: every letter stays, and the common tokens are told apart.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pieces } from './syntax.ts';

const shown = (line: string, file = 'a.rs'): string[] => pieces(line, file).filter(({ token }) => token).map(({ token, text }) => `${token}:${text}`);

test('tells comments, texts, numbers, keywords, types and calls apart', () => {
  assert.deepEqual(shown('    let x: Vec<u8> = parse("a // b", 0x1f); // c'),
    ['keyword:let', 'type:Vec', 'call:parse', 'string:"a // b"', 'number:0x1f', 'comment:// c']);
  assert.deepEqual(shown('impl<\'a> Foo<\'a> { c == \'x\' }'), ['keyword:impl', 'type:Foo', 'string:\'x\'']);
  assert.deepEqual(shown(' * the middle of a comment'), ['comment: * the middle of a comment']);
  assert.deepEqual(shown('x = 1  # not here', 'a.py'), ['number:1', 'keyword:not']);
  assert.deepEqual(shown('  # here', 'a.py'), ['comment:  # here']);
  assert.deepEqual(shown('println!("{}", x)'), ['call:println!', 'string:"{}"']);
});

test('every letter stays, whatever the line is', () => {
  const lines = ['', '"unfinished', 'r#"raw " text"# + 1', '\'\\u{1f600}\'', '/* a */ b /* c', '\\\\', '((((', `${'"\\'.repeat(2000)}`, `${'a'.repeat(5000)}(`];
  for (const line of lines) assert.equal(pieces(line, 'a.c').map(({ text }) => text).join(''), line);
});
