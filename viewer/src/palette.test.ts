// Colours of frames.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NONE, Payload } from '../test/make-payload.mjs';
import { Model } from './model.ts';
import { frameColour, functionColour } from './palette.ts';
import { whyNoCode, whyNoLines } from './panels/why.ts';
import { decode } from './payload.ts';

const KINDS = ['unknown', 'yours', 'dependency', 'std', 'allocator', 'kernel', 'runtime'];
const p = new Payload();
const left = p.module('[recursion left out]', 9);
for (let at = 0; at < 70; at++) p.fn(`f${at}`, 'c', KINDS[at % 7], 'f.rs', at + 1);
p.stack(NONE, p.location(left, 0, []));
p.metric('cpu-time', 1);
const model = new Model(decode(p.container()));

/** The relative luminance of WCAG. */
function luminance(colour: string): number {
  const [r, g, b] = [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16) / 255).map(value => (value <= .04045 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4));
  return .2126 * r! + .7152 * g! + .0722 * b!;
}

test('functions of one kind have shades of its colour, and text is readable on all of them', () => {
  for (const dark of [false, true]) {
    for (let kind = 0; kind < 7; kind++) {
      const shades = new Set<string>();
      for (let fn = kind; fn < 70; fn += 7) {
        const colour = frameColour(model, fn, 'kind', dark);
        shades.add(colour);
        assert.ok((luminance(colour) + .05) / (luminance('#16181d') + .05) >= 4.5, colour);
        assert.ok(luminance(colour) >= luminance(functionColour(model, fn, 'kind', dark)));
      }
      assert.ok(shades.size > 1, KINDS[kind]);
    }
  }
  assert.equal(frameColour(model, 0, 'crate', false), functionColour(model, 0, 'crate', false));
  assert.equal(frameColour(model, model.root, 'kind', false), functionColour(model, model.root, 'kind', false));
});

test('recursion that is left out is not called code without symbols', () => {
  const gap = model.profile.functions.count + left;
  assert.equal(model.name(gap), '[recursion left out]');
  assert.match(whyNoLines(model, gap, true).reason, /Recursive calls were left out/);
  assert.match(whyNoLines(model, model.unknown, true).reason, /no symbols/);
  assert.equal(model.isLeftOut(0), false);
  assert.match(whyNoCode(model, gap).reason, /no machine code/);
});
