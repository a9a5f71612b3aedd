// The container: written values are read back; missing columns are tolerated, damage and truncation are
// reported.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { container, hostile, HOSTILE, realistic, small } from '../test/make-payload.mjs';
import { base64 } from './load.ts';
import { Model } from './model.ts';
import { decode, NONE, PayloadError } from './payload.ts';

test('a small profile is read back', () => {
  const profile = decode(small());
  assert.equal(profile.threads.count, 2);
  assert.equal(profile.metrics.count, 1);
  assert.equal(profile.samples[0]!.time.length, 100);
  assert.equal(profile.samples[0]!.time[0], 100_000);
  assert.equal(profile.samples[0]!.time[99], 10_000_000);
  assert.equal(profile.stacks.parent[0], NONE);
  const model = new Model(profile);
  assert.deepEqual(Array.from({ length: 3 }, (_, fn) => model.name(fn)), ['core::iter::Map<I,F>::next', 'app::main', 'app::parse']);
  assert.equal(model.threadName(1), 'worker');
  assert.equal(model.name(model.truncated), '[truncated stack]');
  assert.equal(model.name(model.root), 'all');
  assert.equal(model.name(profile.functions.count + 1), '[libz.so.1]');
  assert.equal(model.place(1), 'src/main.rs:10');
});

test('reads a container at an odd address', () => {
  const bytes = small(), shifted = new Uint8Array(bytes.length + 3);
  shifted.set(bytes, 3);
  assert.deepEqual(decode(shifted.subarray(3)).samples, decode(bytes).samples);
});

test('columns that an older writer did not have are unknown, not an error', () => {
  const columns = {
    'strings.bytes': { type: 'u8', values: new TextEncoder().encode('mainx') },
    'strings.ends': { type: 'u32', values: Uint32Array.of(4, 5) },
    'threads.tid': { type: 'u32', values: Uint32Array.of(7) },
    'functions.name': { type: 'u32', values: Uint32Array.of(0) },
    'locations.frames': { type: 'u32', values: Uint32Array.of(0, 0, 1) },
    'frames.function': { type: 'u32', values: Uint32Array.of(0) },
    'stacks.location': { type: 'u32', values: Uint32Array.of(1) },
    'metrics.name': { type: 'u32', values: Uint32Array.of(1) },
    'samples.0.stack': { type: 'u32', values: Uint32Array.of(0, 0) },
  };
  const profile = decode(container({}, columns));
  const model = new Model(profile);
  assert.equal(profile.samples[0]!.value[1], 1);
  assert.equal(model.name(0), 'main');
  assert.equal(model.place(0), '');
  assert.equal(model.threadName(0), 'thread 7');
  assert.equal(profile.spans.count, 0);
});

test('an empty profile is valid', () => {
  const model = new Model(decode(container({}, {})));
  assert.equal(model.functionCount, 4);
});

test('damage gives a clear message', () => {
  const good = small();
  const broken: [string, Uint8Array][] = [
    ['no header', new Uint8Array(2)],
    ['header is incomplete', new Uint8Array([255, 255, 255, 127, 0, 0])],
    ['header cannot be read', new Uint8Array([1, 0, 0, 0, 120, 0, 0, 0])],
    ['does not describe a profile', new Uint8Array([2, 0, 0, 0, 91, 93, 0, 0])],
    ['whyslow-view/9', container({ schema: 'whyslow-view/9' }, {})],
    ['truncated', good.slice(0, good.length - 64)],
    ['stacks.parent', container({}, { 'stacks.location': { type: 'u32', values: Uint32Array.of(0) }, 'stacks.parent': { type: 'u32', values: Uint32Array.of(0) }, 'locations.frames': { type: 'u32', values: Uint32Array.of(0, 0) } })],
    ['stacks.location', container({}, { 'stacks.location': { type: 'u32', values: Uint32Array.of(5) } })],
    ['is f64, not u32', container({}, { 'stacks.location': { type: 'f64', values: Float64Array.of(5) } })],
    ['strings.ends', container({}, { 'strings.ends': { type: 'u32', values: Uint32Array.of(5) } })],
  ];
  for (const [words, bytes] of broken) {
    assert.throws(() => decode(bytes), (error: unknown) => error instanceof PayloadError && error.message.includes(words), words);
  }
});

test('truncation anywhere gives a clear error or a profile', () => {
  const bytes = realistic({ samples: 500 });
  for (let length = 0; length < bytes.length; length += 997) {
    try {
      decode(bytes.subarray(0, length));
    } catch (error) {
      assert.ok(error instanceof PayloadError, String(error));
    }
  }
});

test('any changed byte gives a clear error or a profile', () => {
  const good = small();
  for (let at = 0; at < good.length; at += 7) {
    const bytes = good.slice();
    bytes[at]! ^= 0x80;
    try {
      new Model(decode(bytes));
    } catch (error) {
      assert.ok(error instanceof PayloadError, `byte ${at}: ${String(error)}`);
    }
  }
});

test('names cannot reorder or break the text around them', () => {
  const model = new Model(decode(hostile()));
  const names = Array.from({ length: model.profile.functions.count }, (_, fn) => model.name(fn));
  assert.ok(names.includes('<script>alert(1)</script>'));
  assert.ok(names.includes('\\u{202e}gnp.exe\\u{202c}'));
  assert.ok(names.includes('a\\u{0}b\\u{1b}[31mred\\u{d}\\u{a}\\u{9}'));
  assert.ok(names.includes('[unnamed]'));
  assert.equal(names.find(name => name.length === 100_000), HOSTILE[4]);
  for (let fn = 0; fn < model.functionCount; fn++) model.short(fn);
});

test('base64 is decoded in pieces of any size', () => {
  for (const size of [0, 1, 2, 3, 65535, 65536, 200_001]) {
    const bytes = new Uint8Array(size).map((_, at) => at * 31 >>> 3);
    assert.deepEqual(base64(Buffer.from(bytes).toString('base64')), bytes);
  }
  assert.throws(() => base64('!!!!'), PayloadError);
});
