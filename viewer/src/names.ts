// Function names for people: harmless, short, and without generic arguments.

const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** The text with control characters, and the invisible ones that reorder what is around them, written out as `\u{1b}`. */
export function clean(text: string): string {
  return text.replace(UNSAFE, c => `\\u{${c.charCodeAt(0).toString(16)}}`);
}

/**
 * `<alloc::vec::Vec<T> as Drop>::drop` → `Vec::drop`: the last two parts of the path, without generic arguments and
 * parameter lists. The same text when there is nothing to leave out or the name is not made like that.
 */
export function shortName(name: string): string {
  return tryShort(name) || name;
}

/** `app::Map<K,V>::get::<u32>` → `app::Map<…>::get`: one name for all instances of a generic function. */
export function withoutGenerics(name: string): string {
  const path = splitAtTop(name, '::');
  if (!path) return name;
  const parts: string[] = [];
  path.forEach((part, at) => {
    if (at > 0 && part.startsWith('<')) return; // turbofish arguments
    if (part.startsWith('<') && part.endsWith('>')) {
      const inside = part.slice(1, -1).split(' as ');
      parts.push(inside.length === 2 ? `<${foldArguments(inside[0]!)} as ${foldArguments(inside[1]!)}>` : `<${foldArguments(part.slice(1, -1))}>`);
    } else {
      parts.push(foldArguments(part));
    }
  });
  return parts.join('::');
}

function foldArguments(text: string): string {
  let out = '', depth = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (c === '<') { if (depth++ === 0) out += '<…>'; }
    else if (c === '>' && text[i - 1] !== '-') depth = Math.max(0, depth - 1);
    else if (depth === 0) out += c;
  }
  return out;
}

function tryShort(name: string): string | undefined {
  let parts = splitAtTop(name, '::');
  if (!parts) return undefined;
  parts = parts.filter((part, at) => at === 0 || !part.startsWith('<')); // what follows `::<` are arguments
  const closures = parts.length > 2 && parts.at(-1)!.startsWith('{') && parts.at(-2)!.startsWith('{');
  const kept: string[] = [];
  for (const part of parts.slice(closures ? -3 : -2)) {
    const plain = plainPart(part);
    if (plain === undefined) return undefined;
    if (plain) kept.push(plain);
  }
  return kept.join('::');
}

/** A part of a path without its generic arguments; of `<Type as Trait>` and `<Type>` the type's own name. */
function plainPart(part: string): string | undefined {
  if (!part.startsWith('<')) return withoutBrackets(part);
  if (!part.endsWith('>')) return undefined;
  const inside = part.slice(1, -1);
  const ofType = inside.startsWith('impl ') ? splitAtTop(inside.slice(5), ' for ')?.pop() : splitAtTop(inside, ' as ')?.[0];
  const own = ofType === undefined ? undefined : splitAtTop(ofType.replace(/^[&*]+/, ''), '::')?.pop();
  return own === undefined ? undefined : withoutBrackets(own.replace(/^(mut |dyn )+/, ''));
}

function withoutBrackets(part: string): string {
  let plain = '', depth = 0;
  for (let i = 0; i < part.length; i++) {
    const c = part[i]!;
    if (c === '<' || c === '(') depth++;
    else if (c === '>' || c === ')') { if (!(c === '>' && part[i - 1] === '-')) depth = Math.max(0, depth - 1); }
    else if (depth === 0) plain += c;
  }
  return plain.trimEnd();
}

/** Splits where `separator` stands outside all brackets; nothing when brackets do not match, as in `operator<`. */
function splitAtTop(text: string, separator: string): string[] | undefined {
  const parts: string[] = [];
  let depth = 0, start = 0;
  for (let at = 0; at < text.length; at++) {
    const c = text[at]!;
    if (c === '<' || c === '(' || c === '[' || c === '{') depth++;
    else if (c === '>' && text[at - 1] === '-') continue;
    else if (c === '>' || c === ')' || c === ']' || c === '}') { if (--depth < 0) return undefined; }
    else if (depth === 0 && c === separator[0] && text.startsWith(separator, at)) {
      parts.push(text.slice(start, at));
      at += separator.length - 1;
      start = at + 1;
    }
  }
  if (depth) return undefined;
  parts.push(text.slice(start));
  return parts;
}
