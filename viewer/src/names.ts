// Texts of strangers, harmless to show.

const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** The text with control characters, and the invisible ones that reorder what is around them, written out as `\u{1b}`. */
export function clean(text: string): string {
  return text.replace(UNSAFE, c => `\\u{${c.charCodeAt(0).toString(16)}}`);
}
