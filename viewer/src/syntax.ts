// Colours for a line of source: comments, texts, numbers, keywords, types and calls. It looks at one line at a
// time and knows no language well: a wrong colour is harmless.

export type Token = 'comment' | 'string' | 'number' | 'keyword' | 'type' | 'call' | '';
export interface Piece { token: Token; text: string }

const KEYWORDS = new Set(('as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type '
  + 'unsafe use where while yield auto bool case catch char class constexpr default delete do double explicit export final float friend func go goto import inline int interface int8_t int16_t int32_t '
  + 'int64_t uint8_t uint16_t uint32_t uint64_t size_t long namespace new noexcept nullptr operator override package private protected public range short signed sizeof switch template this throw try '
  + 'typedef typename union unsigned using var virtual void volatile and def del elif except from global is lambda None nonlocal not or pass raise True False with end then').split(' '));

/** Languages in which `#` starts a comment. */
const HASHED = /\.(py|rb|sh|bash|pl|toml|yaml|yml|mk|r|jl|nim|ex|exs|tcl)$/i;

const PIECES = [
  String.raw`(?<comment>\/\/.*|\/\*.*?(?:\*\/|$))`,
  String.raw`(?<string>b?r#*".*?(?:"#*|$)|b?"(?:[^"\\]|\\.)*(?:"|$)|b?'(?:[^'\\]|\\.[^']{0,8})')`,
  String.raw`(?<number>\b\d[\w.]*\b)`,
  String.raw`(?<call>\b[A-Za-z_]\w*!?(?=\s*\())`,
  String.raw`(?<word>[A-Za-z_]\w*!?)`,
].join('|');

/** The pieces of a line, together the whole line. */
export function pieces(line: string, file: string): Piece[] {
  // The middle of a comment over several lines.
  if (/^\s*\*(\s|$|\/)/.test(line) || (HASHED.test(file) && /^\s*#/.test(line))) return [{ token: 'comment', text: line }];
  const out: Piece[] = [];
  const add = (token: Token, text: string): void => {
    const last = out.at(-1);
    if (last?.token === token) last.text += text;
    else if (text) out.push({ token, text });
  };
  let at = 0;
  for (const found of line.matchAll(new RegExp(PIECES, 'g'))) {
    add('', line.slice(at, found.index));
    at = found.index + found[0].length;
    const { comment, string, number, call, word } = found.groups!, name = call ?? word;
    add(comment ? 'comment' : string ? 'string' : number ? 'number' : KEYWORDS.has(name!) ? 'keyword' : call ? 'call' : /^[A-Z]/.test(name!) ? 'type' : '', found[0]);
  }
  add('', line.slice(at));
  return out;
}
