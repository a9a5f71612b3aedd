// Short paths keep the informative end.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shortPath } from './paths.ts';

test('folders of registries and toolchains are left out', () => {
  assert.equal(shortPath('/home/me/.cargo/registry/src/registry-0123456789abcdef/ignore-0.4.23/src/walk.rs:12'), 'ignore-0.4.23/src/walk.rs:12');
  assert.equal(shortPath('/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/std/src/panic.rs:3'), 'library/std/src/panic.rs:3');
  assert.equal(shortPath('src/main.rs:1'), 'src/main.rs:1');
  assert.equal(shortPath(''), '');
});

test('keeps the end of a long path', () => {
  const short = shortPath(`/home/${'folder/'.repeat(30)}src/main.rs:7`);
  assert.match(short, /^…\/.*src\/main\.rs:7$/);
  assert.ok(short.length < 60);
});
