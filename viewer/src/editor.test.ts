// Editor URLs: encoded, absolute, and never one that runs code in the page.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressOf, digitsOf, PRESETS, wrongAddress } from './editor.ts';

test('a location becomes a URL', () => {
  const of = (address: string, place: string, folder = ''): string | undefined => addressOf({ address, folder }, place);
  assert.equal(of('vscode://file/{path}:{line}', '/home/me/a b/x#1.rs:12'), 'vscode://file/home/me/a%20b/x%231.rs:12');
  assert.equal(of('vscode://file{path}:{line}', '/x.rs:3'), 'vscode://file/x.rs:3');
  assert.equal(of('subl://open?url=file://{path}&line={line}', '/x.rs:3'), 'subl://open?url=file:///x.rs&line=3');
  assert.equal(of('jetbrains://open?file={path}&line={line}', '/x&y.rs'), 'jetbrains://open?file=/x%26y.rs&line=1');
  assert.equal(of('vscode://file/{path}:{line}', 'src/main.rs:7', '/home/me/app/'), 'vscode://file/home/me/app/src/main.rs:7');
  assert.equal(of('vscode://file/{path}:{line}', 'src/main.rs:7'), undefined, 'relative to nothing');
  assert.equal(of('vscode://file/{path}:{line}', '/rustc/0123/library/core/src/x.rs:7'), undefined, 'not on this machine');
  assert.equal(of('', '/x.rs:7'), undefined);
  for (const [, address] of PRESETS) assert.equal(wrongAddress(address), '', address);
});

test('URLs that would run code are refused', () => {
  for (const address of ['javascript:alert("{path}")', 'JavaScript:{path}', 'data:text/html,{path}', 'blob:{path}', 'file://{path}', '{path}', 'vscode://file', ' javascript:{path}']) {
    assert.notEqual(wrongAddress(address), '', address);
    assert.equal(addressOf({ address, folder: '' }, '/x.rs:1'), undefined);
  }
});

test('the choice is sent as digits that need no decoding', () => {
  assert.equal(digitsOf('{"a":"é&?"}'), '7b2261223a22c3a9263f227d');
});
