// Regular expressions in bounded time: whether a name has a match, without the backtracking that makes
// JavaScript's own take forever on nested repeats. A pattern may come from an address, so it is untrusted.
//
// The pattern becomes a non-deterministic automaton. Sets of its places become states, built on first use.
// Each letter of a name is then one step. Letter case does not count. Look-around and backreferences are not
// possible this way.

/** Why the pattern cannot be used: shown to the user. */
export class PatternError extends Error {}

/** Ranges of letters, both ends inclusive, sorted and disjoint. */
type Letters = readonly (readonly [number, number])[];

/** `^`, `$`, `\b`, `\B`. */
type Edge = 'start' | 'end' | 'word' | 'inside';

type Node =
  | { kind: 'letters'; letters: Letters }
  | { kind: 'edge'; edge: Edge }
  | { kind: 'all'; parts: Node[] }
  | { kind: 'any'; parts: Node[] }
  | { kind: 'repeat'; of: Node; least: number; most: number };

/** A place of the automaton. */
type Place =
  | { kind: 'letters'; letters: Letters; to: number }
  | { kind: 'edge'; edge: Edge; to: number }
  | { kind: 'split'; to: number[] }
  | { kind: 'match' };

const LONGEST_PATTERN = 1000;
const MOST_PLACES = 4000;
const DEEPEST = 100;
/** The maximum number of cached states; beyond that, the cache is cleared and states are built again. */
const MOST_STATES = 2000;
/**
 * The maximum number of places visited to build states, for all names together: a fraction of a second.
 * Patterns that people write need a few thousand.
 */
const MOST_WORK = 2_000_000;
const LAST = 0xffff;
const TOO_LARGE = 'Pattern too large: use fewer repeats';

const DIGITS: Letters = [[48, 57]];
const WORD: Letters = [[48, 57], [95, 95], [97, 122]]; // names are compared in lower case
const SPACE: Letters = [[9, 13], [32, 32], [160, 160], [0x1680, 0x1680], [0x2000, 0x200a], [0x2028, 0x2029], [0x202f, 0x202f], [0x205f, 0x205f], [0x3000, 0x3000], [0xfeff, 0xfeff]];
const LINE_ENDS: Letters = [[10, 10], [13, 13], [0x2028, 0x2029]];

function union(letters: readonly (readonly [number, number])[]): Letters {
  const out: [number, number][] = [];
  for (const [from, to] of [...letters].sort((a, b) => a[0] - b[0])) {
    const last = out.at(-1);
    if (last && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else out.push([from, to]);
  }
  return out;
}

function without(letters: Letters): Letters {
  const out: [number, number][] = [];
  let from = 0;
  for (const [a, b] of letters) {
    if (a > from) out.push([from, a - 1]);
    from = b + 1;
  }
  if (from <= LAST) out.push([from, LAST]);
  return out;
}

/** The letters of a range in lower case: names are lowered for comparison. */
function small(from: number, to: number): Letters {
  const out: (readonly [number, number])[] = [[from, to]];
  const [a, b] = [Math.max(from, 65), Math.min(to, 90)];
  if (a <= b) out.push([a + 32, b + 32]);
  // Ranges of other scripts are short. A range over half of all letters does not target any letter in
  // particular.
  if (to >= 128 && to - from < 2048) {
    for (let code = Math.max(from, 128); code <= to; code++) {
      const lower = String.fromCharCode(code).toLowerCase().charCodeAt(0);
      if (lower !== code) out.push([lower, lower]);
    }
  }
  return out;
}

class Parser {
  private at = 0;
  private depth = 0;

  constructor(private readonly text: string) {}

  parse(): Node {
    const node = this.alternatives();
    if (this.at < this.text.length) throw new PatternError('Invalid regular expression: unmatched )');
    return node;
  }

  private get next(): string { return this.text[this.at] ?? ''; }

  private takes(text: string): boolean {
    if (!this.text.startsWith(text, this.at)) return false;
    this.at += text.length;
    return true;
  }

  private alternatives(): Node {
    if (++this.depth > DEEPEST) throw new PatternError('Pattern nested too deeply');
    const parts = [this.sequence()];
    while (this.takes('|')) parts.push(this.sequence());
    this.depth--;
    return parts.length === 1 ? parts[0]! : { kind: 'any', parts };
  }

  private sequence(): Node {
    const parts: Node[] = [];
    while (this.at < this.text.length && this.next !== '|' && this.next !== ')') parts.push(this.repeated());
    return { kind: 'all', parts };
  }

  private repeated(): Node {
    let node = this.one();
    for (let times = 0; ; times++) {
      const bounds = this.bounds();
      if (!bounds) return node;
      if (times) throw new PatternError('Invalid regular expression: nothing to repeat');
      this.takes('?'); // as few as possible: the same names match
      node = { kind: 'repeat', of: node, least: bounds[0], most: bounds[1] };
    }
  }

  private bounds(): [number, number] | undefined {
    if (this.takes('*')) return [0, Infinity];
    if (this.takes('+')) return [1, Infinity];
    if (this.takes('?')) return [0, 1];
    const braces = /^\{(\d{1,6})(,?)(\d{0,6})\}/.exec(this.text.slice(this.at, this.at + 16));
    if (!braces || (!braces[2] && braces[3])) return undefined;
    this.at += braces[0].length;
    const least = Number(braces[1]), most = braces[3] ? Number(braces[3]) : braces[2] ? Infinity : least;
    if (least > most) throw new PatternError('Invalid regular expression: repeat range out of order');
    return [least, most];
  }

  private one(): Node {
    if (this.takes('(')) {
      if (/^\?<?[=!]/.test(this.text.slice(this.at, this.at + 3))) throw new PatternError('Look-around is not supported');
      const named = /^\?(:|<[\w$]+>)/.exec(this.text.slice(this.at));
      if (named) this.at += named[0].length;
      else if (this.next === '?') throw new PatternError('Invalid regular expression: unknown kind of group');
      const inside = this.alternatives();
      if (!this.takes(')')) throw new PatternError('Invalid regular expression: unclosed (');
      return inside;
    }
    if (this.takes('[')) return { kind: 'letters', letters: this.choice() };
    if (this.takes('.')) return { kind: 'letters', letters: without(LINE_ENDS) };
    if (this.takes('^')) return { kind: 'edge', edge: 'start' };
    if (this.takes('$')) return { kind: 'edge', edge: 'end' };
    if (/[*+?]/.test(this.next)) throw new PatternError('Invalid regular expression: nothing to repeat');
    if (this.takes('\\')) {
      if (this.takes('b')) return { kind: 'edge', edge: 'word' };
      if (this.takes('B')) return { kind: 'edge', edge: 'inside' };
      if (/[1-9]/.test(this.next) || /^k</.test(this.text.slice(this.at))) throw new PatternError('Backreferences are not supported');
      return { kind: 'letters', letters: this.escape() };
    }
    const code = this.text.charCodeAt(this.at++);
    return { kind: 'letters', letters: union(small(code, code)) };
  }

  /** The letters after a backslash, outside and inside brackets. */
  private escape(): Letters {
    const letter = this.next;
    if (!letter) throw new PatternError('Invalid regular expression: trailing \\');
    this.at++;
    const group = { d: DIGITS, w: WORD, s: SPACE }[letter.toLowerCase()];
    if (group) return letter === letter.toLowerCase() ? group : without(group);
    const control = { t: 9, n: 10, v: 11, f: 12, r: 13, 0: 0 }[letter];
    if (control !== undefined) return [[control, control]];
    const hex = letter === 'x' ? /^[\da-f]{2}/i : letter === 'u' ? /^(?:[\da-f]{4}|\{0*[\da-f]{1,4}\})/i : undefined;
    const digits = hex?.exec(this.text.slice(this.at, this.at + 16))?.[0];
    if (digits) this.at += digits.length;
    const code = digits ? parseInt(digits.replace(/[{}]/g, ''), 16) : letter.charCodeAt(0);
    return union(small(code, code));
  }

  private choice(): Letters {
    const isNot = this.takes('^');
    const found: (readonly [number, number])[] = [];
    while (!this.takes(']')) {
      if (this.at >= this.text.length) throw new PatternError('Invalid regular expression: unclosed [');
      const from = this.member();
      if (from.code !== undefined && this.next === '-' && this.at + 1 < this.text.length && this.text[this.at + 1] !== ']') {
        this.at++;
        const to = this.member();
        if (to.code === undefined) found.push(...from.letters, [45, 45], ...to.letters);
        else if (to.code < from.code) throw new PatternError('Invalid regular expression: character range out of order');
        else found.push(...small(from.code, to.code));
      } else {
        found.push(...from.letters);
      }
    }
    const letters = union(found);
    return isNot ? without(letters) : letters;
  }

  /** One letter of a character class, with its code, or a group such as `\d`. */
  private member(): { letters: Letters; code: number | undefined } {
    const start = this.at;
    if (!this.takes('\\')) {
      const code = this.text.charCodeAt(this.at++);
      return { letters: small(code, code), code };
    }
    if (this.takes('b')) return { letters: [[8, 8]], code: 8 };
    const letters = this.escape();
    const isGroup = /[dws]/i.test(this.text[start + 1]!);
    return { letters, code: isGroup ? undefined : letters[0]![0] };
  }
}

/** Builds places from nodes. Nested repeats multiply: both places and steps have a limit. */
class Builder {
  readonly places: Place[] = [{ kind: 'match' }];
  private steps = 0;

  /** Builds the places for a node, in front of the place `to`. Returns the first one. */
  build(node: Node, to: number): number {
    if (++this.steps > 10 * MOST_PLACES) throw new PatternError(TOO_LARGE);
    if (node.kind === 'letters') return this.add({ kind: 'letters', letters: node.letters, to });
    if (node.kind === 'edge') return this.add({ kind: 'edge', edge: node.edge, to });
    if (node.kind === 'all') return node.parts.reduceRight((after, part) => this.build(part, after), to);
    if (node.kind === 'any') return this.add({ kind: 'split', to: node.parts.map(part => this.build(part, to)) });
    const { of, least, most } = node;
    let start = to;
    if (most === Infinity) {
      const loop: Place & { kind: 'split' } = { kind: 'split', to: [to] };
      start = this.add(loop);
      loop.to.push(this.build(of, start));
    } else {
      for (let time = least; time < most; time++) start = this.add({ kind: 'split', to: [this.build(of, start), to] });
    }
    for (let time = 0; time < least; time++) start = this.build(of, start);
    return start;
  }

  private add(place: Place): number {
    if (this.places.length >= MOST_PLACES) throw new PatternError(TOO_LARGE);
    return this.places.push(place) - 1;
  }
}

/** What is before or after a place in a name. */
const EDGE = 0, WORDLIKE = 1, OTHER = 2;

/** A set of places with the kind of letter before them, and the next state for each kind of letter. */
interface State {
  places: Uint16Array;
  before: number;
  /** By kind of letter: the next state; `matched` when a match ends before the letter. */
  next: (State | typeof MATCHED | undefined)[];
  atEnd: boolean | undefined;
}
const MATCHED = 'matched';

/** A compiled pattern. */
export class Pattern {
  private readonly places: Place[];
  private readonly start: number;
  /** Where kinds of letters begin: the pattern does not distinguish letters between two of these. */
  private readonly bounds: number[];
  private readonly kindOf = new Uint16Array(128);
  private states = new Map<string, State>();
  private first: State | undefined;
  private readonly mark: Uint32Array;
  private round = 0;
  private work = 0;

  /** Throws a {@link PatternError} when the text is not a pattern, or not one that works in bounded time. */
  constructor(text: string) {
    if (text.length > LONGEST_PATTERN) throw new PatternError('Pattern too long');
    const builder = new Builder();
    this.start = builder.build(new Parser(text).parse(), 0);
    this.places = builder.places;
    this.mark = new Uint32Array(this.places.length);
    const bounds = new Set([0]);
    for (const letters of [WORD, ...this.places.flatMap(place => (place.kind === 'letters' ? [place.letters] : []))]) {
      for (const [from, to] of letters) bounds.add(from).add(to + 1);
    }
    this.bounds = [...bounds].filter(bound => bound <= LAST).sort((a, b) => a - b);
    for (let code = 0; code < 128; code++) this.kindOf[code] = this.findKind(code);
  }

  /** Whether a name has a match. Throws a {@link PatternError} when all calls together take too long. */
  test(name: string): boolean {
    const text = name.toLowerCase();
    let state = this.first ??= this.state([this.start], EDGE);
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      const kind = code < 128 ? this.kindOf[code]! : this.findKind(code);
      const next = state.next[kind] ??= this.step(state, this.bounds[kind]!);
      if (next === MATCHED) return true;
      state = next;
    }
    return state.atEnd ??= this.closure(state, EDGE).isMatch;
  }

  private findKind(code: number): number {
    let low = 0, high = this.bounds.length;
    while (low + 1 < high) {
      const middle = (low + high) >>> 1;
      if (this.bounds[middle]! <= code) low = middle;
      else high = middle;
    }
    return low;
  }

  private state(places: number[], before: number): State {
    const key = `${before} ${places.join()}`;
    let state = this.states.get(key);
    if (!state) {
      if (this.states.size >= MOST_STATES) {
        this.states = new Map();
        this.first = undefined; // it leads to all the others
      }
      this.states.set(key, state = { places: Uint16Array.from(places), before, next: [], atEnd: undefined });
    }
    return state;
  }

  /** The state after a letter (any of its kind). */
  private step(state: State, letter: number): State | typeof MATCHED {
    const after = has(WORD, letter) ? WORDLIKE : OTHER;
    const { places, isMatch } = this.closure(state, after);
    if (isMatch) return MATCHED;
    this.round++;
    const next = [this.start]; // a match may begin anywhere
    this.mark[this.start] = this.round;
    for (const place of places) {
      const { letters, to } = this.places[place] as Place & { kind: 'letters' };
      this.work += letters.length;
      if (this.mark[to] === this.round || !has(letters, letter)) continue;
      this.mark[to] = this.round;
      next.push(to);
    }
    this.work += next.length; // for the sorting
    return this.state(next.sort((a, b) => a - b), after);
  }

  /** The places that wait for a letter, reached without one; and whether a match is among the places reached. */
  private closure(state: State, after: number): { places: number[]; isMatch: boolean } {
    const round = ++this.round;
    const found: number[] = [];
    const waiting = [...state.places];
    for (let place = waiting.pop(); place !== undefined; place = waiting.pop()) {
      if (this.mark[place] === round) continue;
      this.mark[place] = round;
      if (++this.work > MOST_WORK) throw new PatternError('Search takes too long: use a simpler pattern');
      const at = this.places[place]!;
      if (at.kind === 'match') return { places: [], isMatch: true };
      if (at.kind === 'letters') found.push(place);
      else if (at.kind === 'split') waiting.push(...at.to);
      else if (holds(at.edge, state.before, after)) waiting.push(at.to);
    }
    return { places: found, isMatch: false };
  }
}

const has = (letters: Letters, code: number): boolean => letters.some(([from, to]) => code >= from && code <= to);

function holds(edge: Edge, before: number, after: number): boolean {
  if (edge === 'start') return before === EDGE;
  if (edge === 'end') return after === EDGE;
  return ((before === WORDLIKE) !== (after === WORDLIKE)) === (edge === 'word');
}
