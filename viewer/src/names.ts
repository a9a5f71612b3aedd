// Makes untrusted texts safe to show.

const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** The text with control characters, and invisible characters that reorder text, written out as `\u{1b}`. */
export function clean(text: string): string {
  return text.replace(UNSAFE, c => `\\u{${c.charCodeAt(0).toString(16)}}`);
}
