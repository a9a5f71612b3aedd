//! Command lines as the user would type them.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A command line as the user would type it. What a recorder stored in place of one, such as `(7 processes)`,
/// is shown as it is.
pub fn command_line(words: &[String]) -> String {
    match description(words) {
        Some(description) => description.to_owned(),
        None => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    }
}

/// What stands in place of a command line if none was recorded: `(7 processes)`, `(the whole machine)`.
pub fn description(words: &[String]) -> Option<&str> {
    match words {
        [only] if only.starts_with('(') && only.ends_with(')') => Some(only),
        _ => None,
    }
}

/// Quotes a word for the shell if needed; with control characters as `$'a\nb'`.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:=,+@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if !word.contains(char::is_control) {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    format!("$'{}'", word.chars().map(escaped).collect::<String>())
}

/// Quotes the name of a file for the shell, so that a command takes it for exactly this file.
pub fn quoted_path(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    // A name like `-x` would be an option.
    let front = if bytes.starts_with(b"-") { "./" } else { "" };
    match std::str::from_utf8(bytes) {
        Ok(name) => quoted(&format!("{front}{name}")),
        Err(_) => {
            let mut out = format!("$'{front}");
            for chunk in bytes.utf8_chunks() {
                out.extend(chunk.valid().chars().map(escaped));
                out.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
            }
            out + "'"
        }
    }
}

/// A character between `$'` and `'`.
fn escaped(c: char) -> String {
    match c {
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        '\r' => "\\r".to_owned(),
        '\\' | '\'' => format!("\\{c}"),
        // All digits: a digit that follows would otherwise belong to it.
        c if c.is_ascii_control() => format!("\\x{:02x}", c as u32),
        c if c.is_control() => format!("\\u{:04x}", c as u32),
        c => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_the_shell() {
        let line =
            |words: &[&str]| command_line(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(line(&["./app", "--in=a b", "it's", ""]), r"./app '--in=a b' 'it'\''s' ''");
        assert_eq!(line(&["sh", "-c", "a\n\tb'\\\u{1b}"]), r"sh -c $'a\n\tb\'\\\x1b'");
        assert_eq!(line(&["(7 processes)"]), "(7 processes)");
    }

    /// What a shell makes of the word.
    fn read_by_bash(word: &str) -> Vec<u8> {
        let script = format!("printf '%s' {word}");
        std::process::Command::new("bash").args(["-c", &script]).output().unwrap().stdout
    }

    #[test]
    fn a_shell_reads_a_quoted_path_as_that_file() {
        use std::ffi::OsStr;
        let names: [&[u8]; 8] = [
            b"app.whyslow",
            b"a; touch PWNED; $(id) .whyslow",
            b"it's `id` \"x\" \\n.whyslow",
            b"~root/*.whyslow",
            b"line\nbreak\x1b[31m1.whyslow",
            b"not \xff1 utf8'.whyslow",
            b"\xc2\x9b1.whyslow",
            b"#a&b|c>d<e!f?g{h,i}.whyslow",
        ];
        for name in names {
            let word = quoted_path(Path::new(OsStr::from_bytes(name)));
            assert_eq!(read_by_bash(&word), name, "{word}");
            assert!(!word.contains(char::is_control), "{word}");
        }
        assert_eq!(quoted_path(Path::new("-x.whyslow")), "./-x.whyslow");
    }
}
